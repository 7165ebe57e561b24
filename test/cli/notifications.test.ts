import type { NotificationDelivery } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startNotifying, untilDeliveries, writeNotification } from '../notify/notify-scenario.ts';
import { TestUser } from './cli.ts';

let started: Awaited<ReturnType<typeof startNotifying>>;
let ada: TestUser;
beforeAll(async () => {
  started = await startNotifying();
  ada = new TestUser(started.server);
  await writeNotification(started.api, 'team', { type: 'webhook', url: `${started.receiver.url}/team` });
});
afterAll(async () => {
  ada?.remove();
  await started?.close();
});

test('ls and show print notifications', async () => {
  expect(await ada.prints(['notification', 'ls'])).toMatch(/^team +1 .* webhook/m);
  expect(await ada.prints(['notification', 'show', 'team'])).toContain(`url: ${started.receiver.url}/team`);
});

test('test says whether a message arrived, and deliveries and redeliver use it', async () => {
  expect(await ada.prints(['notification', 'test', 'team'])).toBe('team: the test message was sent\n');
  started.receiver.answers.set('/team', [{ status: 500, body: 'no' }]);
  expect(await ada.muster(['notification', 'test', 'team'])).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^muster: team: 127\.0\.0\.1:\d+ answered 500: no\n$/),
  });
  const listed = await ada.prints(['notification', 'deliveries', 'team']);
  expect(listed).toMatch(/^AT +DELIVERY +EVENT +ABOUT +STATE +ATTEMPTS +REASON$/m);
  expect(listed).toMatch(/ test +failed +1 +127/);
  const [failed] = await ada.data<NotificationDelivery[]>([
    ...['notification', 'deliveries', 'team', '--state', 'failed', '-n', '1'],
  ]);
  const id = failed?.deliveryId ?? '';
  expect(await ada.prints(['notification', 'redeliver', 'team', id])).toBe(`delivery ${id} is sent again\n`);
  await untilDeliveries(started.api, 'team', (all) => all.every(({ state }) => state === 'SENT'));
});

test('pause and resume', async () => {
  expect(await ada.prints(['notification', 'pause', 'team'])).toBe('paused team\n');
  expect(await ada.prints(['notification', 'ls'])).toMatch(/^team +2 .* webhook +true/m);
  expect(await ada.prints(['notification', 'resume', 'team'])).toBe('resumed team\n');
});

test('names what does not exist', async () => {
  expect(await ada.muster(['notification', 'test', 'nothing'])).toMatchObject({
    code: 3,
    err: expect.stringContaining('notification "nothing" not found'),
  });
});
