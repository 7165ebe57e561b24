import type { TriggerDelivery } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { postTo } from '../triggers/requests.ts';
import { userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });

const reports = `kind: trigger
name: reports
auth: bearer
spawn:
  description: 'A user reports: {{body.title}}'
  model: rehearsal-a
`;

test('a trigger is applied, tested, paused and resumed, and its requests are listed', async () => {
  expect(await ada.muster(['trigger', 'ls'])).toMatchObject({
    out: '',
    err: expect.stringContaining('muster apply'),
  });
  const file = ada.file('trigger.yaml', reports);
  const created = await ada.prints(['apply', '-f', file]);
  const [, url = '', secret = ''] =
    /^trigger\/reports created \(generation 1\)\nurl: (http\S+\/hooks\/\S+)\nsecret: (whsec_\S+) {2}\(shown once\)$/m.exec(
      created,
    ) ?? [];
  expect(secret).not.toBe('');
  expect(await ada.prints(['apply', '-f', file])).toBe('trigger/reports unchanged\n');
  const before = await ada.muster(['trigger', 'test', 'reports']);
  expect(before.code).toBe(1);
  expect(before.out).toMatch(/^missing {2}request: No request has arrived yet/m);

  const headers = { authorization: `Bearer ${secret}` };
  expect(await postTo(url, '{"title": "It is empty"}', headers)).toBe(202);
  const list = () => ada.data<TriggerDelivery[]>(['trigger', 'deliveries', 'reports']);
  const [delivery] = await until('its end', list, ([first]) => first?.state === 'DONE');
  const { deliveryId = '', subject = '' } = delivery ?? {};
  expect(await ada.prints(['trigger', 'deliveries', 'reports', '--state', 'done'])).toMatch(
    new RegExp(
      `^RECEIVED +DELIVERY +EVENT +AGENT +STATE +ATTEMPTS +REASON\\n.* ${deliveryId} +${subject} +done +1`,
    ),
  );
  expect(await ada.data(['status', subject])).toMatchObject({
    description: expect.stringContaining('A user reports: “It is empty”'),
  });
  expect(await ada.muster(['trigger', 'test', 'reports'])).toMatchObject({ code: 0, err: '' });
  expect(await ada.prints(['trigger', 'redeliver', 'reports', deliveryId])).toBe(
    `delivery ${deliveryId} is processed again\n`,
  );

  expect(await ada.prints(['trigger', 'pause', 'reports'])).toBe('paused reports\n');
  expect(await ada.prints(['trigger', 'ls'])).toMatch(
    /^reports +paused +spawns an agent · bearer +http\S+$/m,
  );
  const paused = await ada.muster(['trigger', 'test', 'reports']);
  expect(paused.out).toMatch(/^missing {2}active: The trigger is paused/m);
  expect(await ada.prints(['trigger', 'resume', 'reports'])).toBe('resumed reports\n');
  const shown = await ada.prints(['trigger', 'show', 'reports']);
  expect(shown).toContain(`# url: ${url}\n`);
  expect(shown).toContain('kind: trigger\nname: reports\n');
  expect(shown).not.toContain(secret);
});

test('names what does not exist', async () => {
  expect(await ada.muster(['trigger', 'test', 'nothing'])).toMatchObject({
    code: 3,
    err: 'muster: trigger "nothing" not found; muster get trigger lists them\n',
  });
  expect(await ada.muster(['trigger', 'pause', 'nothing'])).toMatchObject({ code: 3 });
  expect(await ada.muster(['trigger', 'redeliver', 'reports', 'nothing'])).toMatchObject({
    code: 3,
    err: expect.stringContaining('; muster trigger deliveries reports lists them'),
  });
});

test('the shell completes commands and names', async () => {
  expect((await ada.prints(['complete', '--', 'trigger', ''])).split('\n')).toEqual(
    expect.arrayContaining(['ls', 'show', 'test', 'deliveries', 'redeliver', 'pause', 'resume']),
  );
  expect(await ada.prints(['complete', '--', 'trigger', 'show', 'rep'])).toBe('reports\n');
});
