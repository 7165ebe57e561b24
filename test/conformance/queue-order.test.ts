import type { FollowUp } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { accepted } from '../support/agents.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newWorkingTenant, type TestTenant, textsOf } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const order = (t: TestTenant, followUpIds: readonly string[]) =>
  t.send<{ followUpIds: string[] }>('agent/queue/order', 'a', { followUpIds });

/** The agent `a` works, and these messages are queued; their ids are their texts. */
async function queued(...ids: string[]) {
  const { t, run } = await newWorkingTenant(api);
  for (const id of ids) await t.queue('a', { followUpId: id, description: id });
  return { t, run };
}

test('the queue is delivered, listed and paged in the new order, which the timeline has', async () => {
  const { t, run } = await queued('one', 'two', 'three');
  await t.queue('a', { followUpId: 'late', description: 'late', deliverAt: inAnHour() });
  expect(expectOk(await order(t, ['three', 'one', 'two']))).toEqual({ followUpIds: ['three', 'one', 'two'] });
  expect(await t.followUpIds('a')).toEqual(['three', 'one', 'two', 'late']);
  const { body } = await t.send<{ followUps: FollowUp[] }>('agent/queue/list', 'a', { pageSize: 2 });
  expect(body.followUps.map(({ followUpId }) => followUpId)).toEqual(['three', 'one']);
  expect(await t.timeline('a', 'QUEUE_ORDERED')).toMatchObject([
    { data: { followUpIds: ['three', 'one', 'two'] } },
  ]);
  // The same order again changes nothing, and a later message comes last.
  expectOk(await order(t, ['three', 'one', 'two']));
  expect(await t.timeline('a', 'QUEUE_ORDERED')).toHaveLength(1);
  await t.queue('a', { followUpId: 'four', description: 'four' });
  await t.end(run);
  expect(textsOf(await t.claim('a'))).toEqual(['three', 'one', 'two', 'four']);
});

test('an order of another queue is refused with the message that is different, and changes nothing', async () => {
  const { t, run } = await queued('first');
  await t.end(run);
  const second = await t.start('a');
  for (const id of ['one', 'two', 'gone']) await t.queue('a', { followUpId: id, description: id });
  await t.remove('a', 'gone');
  await t.queue('a', { followUpId: 'late', description: 'late', deliverAt: inAnHour() });
  const cases: [ids: string[], text: RegExp][] = [
    [['two', 'one', 'first'], /followUpIds\[2\]: "first" was delivered already/],
    [['two', 'gone', 'one'], /followUpIds\[1\]: "gone" is not queued: it was delivered, removed or cleared/],
    [['never', 'two', 'one'], /followUpIds\[0\]: "never" is not queued/],
    [['two', 'one', 'late'], /followUpIds\[2\]: "late" is scheduled/],
    [[], /followUpIds: expected all 2 queued messages; "one" is missing/],
    [['two'], /followUpIds: expected all 2 queued messages; "one" is missing/],
  ];
  for (const [ids, text] of cases) {
    const answer = await order(t, ids);
    expectError(answer, 'FAILED_PRECONDITION');
    expect(answer.body).toMatchObject({ message: expect.stringMatching(text) });
  }
  expectError(await order(t, ['two', 'one', 'two']), 'INVALID_ARGUMENT', 'followUpIds[2]');
  expect(await t.followUpIds('a')).toEqual(['one', 'two', 'late']);
  expect(await t.timeline('a', 'QUEUE_ORDERED')).toEqual([]);
  await t.end(second);
});

test('a message for the running turn keeps its place, and is taken once', async () => {
  const { t, run } = await queued('one', 'two');
  await t.queue('a', { followUpId: 'now', description: 'now', steer: true });
  const [steer] = accepted('poll', await t.runner.poll()).steers;
  expect(expectOk(await order(t, ['now', 'two', 'one']))).toEqual({ followUpIds: ['two', 'one', 'now'] });
  await t.report(run, { steers: [{ followUpId: 'now', sequence: steer?.sequence, taken: true }] });
  expect(await t.timeline('a', 'WARNING')).toEqual([]);
  await t.end(run);
  expect(textsOf(await t.claim('a'))).toEqual(['two', 'one']);
});

test('a setting starts a batch where the message is now', async () => {
  const { t, run } = await queued('one', 'two');
  await t.queue('a', { followUpId: 'slow', description: 'slow', model: 'claude-opus-4-5' });
  expectOk(await order(t, ['one', 'slow', 'two']));
  await t.end(run);
  const next = await t.start('a');
  expect(textsOf(next)).toEqual(['one']);
  await t.end(next);
  expect(textsOf(await t.claim('a'))).toEqual(['slow', 'two']);
});

test('orders that race with runs, new and removed messages lose nothing and deliver nothing twice', async () => {
  const { t, run } = await queued('m0', 'm1', 'm2');
  const sent = ['m0', 'm1', 'm2'];
  const delivered: string[] = [];
  const statuses: number[] = [];
  for (let claim = run, round = 3; round < 15; round += 1) {
    const queue = await t.followUpIds('a');
    sent.push(`m${round}`);
    const [next, ...answers] = await Promise.all([
      t.end(claim).then(() => t.start('a')),
      order(t, queue.toReversed()),
      order(t, [...queue.slice(1), ...queue.slice(0, 1)]),
      order(t, [`m${round}`, ...queue]),
      t.queue('a', { followUpId: `m${round}`, description: `m${round}` }),
      t
        .queue('a', { followUpId: `removed ${round}`, description: '', model: 'claude-opus-4-5' })
        .then((id) => t.remove('a', id)),
    ]);
    claim = next;
    delivered.push(...textsOf(claim));
    statuses.push(...answers.slice(0, 3).map((answer) => (answer as { status: number }).status));
    if (round === 14) await t.end(claim);
  }
  while ((await t.followUpIds('a')).length > 0) delivered.push(...textsOf(await t.turn('a')));
  expect(delivered.filter((text) => text !== '').sort()).toEqual(sent.sort());
  expect(statuses.filter((status) => status !== 200 && status !== 400)).toEqual([]);
});
