import type { ReplyOf } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectOk } from '../support/expect-reply.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { Node } from './node.ts';
import { times } from './tier.ts';

const kills = times('MUSTER_CRASH_REVIEW_KILLS', 2);

let node: Node;
beforeAll(async () => {
  node = await Node.start({ runner: false });
});
afterAll(async () => {
  await node?.close();
});

const comments = ['one', 'two', 'three'].map((body, i) => ({ path: 'src/login.ts', line: i + 1, body }));

const threadsOf = async (t: TestTenant) =>
  expectOk(await t.send<ReplyOf<'threads'>>('agent/threads', 'a')).threads;

const restart = async (): Promise<void> => {
  await node.kill();
  await node.start();
};

test('a review whose node is killed before its reply is there once or not at all, and a retry completes it', async () => {
  const t = await newTestTenant(node.api);
  await t.rested('a');
  let opened = 0;
  for (let i = 0; i < kills; i += 1) {
    const body = { followUpId: `review-${i}`, comments };
    const sent = t.send('agent/threads/create', 'a', body).catch(() => null);
    await Promise.all([sent, restart()]);
    const after = (await threadsOf(t)).length;
    expect([opened, opened + comments.length]).toContain(after);
    const { threads } = expectOk(await t.send<ReplyOf<'createReview'>>('agent/threads/create', 'a', body));
    expect(threads.map((thread) => thread.comments.map(({ body: text }) => text))).toEqual([
      ['one'],
      ['two'],
      ['three'],
    ]);
    opened += comments.length;
    expect(await threadsOf(t)).toHaveLength(opened);
  }
  expect((await t.status('a')).followUps).toHaveLength(kills);
});

test('notes survive a kill of the node, and a report that is sent again answers each thread once', async () => {
  const t = await newTestTenant(node.api);
  await t.rested('a');
  expectOk(await t.send('agent/threads/create', 'a', { comments }));
  const claim = await t.start('a');
  const [first, second] = claim.tasks;
  const agentId = t.id('a');
  const asRun = t.api.as(claim.token);
  const status = 'TASK_STATUS_COMPLETED';
  expectOk(await asRun.post('/v1/agent/tasks/update', { agentId, id: first?.id, status, note: 'fixed' }));
  await restart();
  const fields = { id: second?.id, status: 'TASK_STATUS_DELETED', note: 'no' };
  expectOk(await asRun.post('/v1/agent/tasks/update', { agentId, ...fields }));
  const end = { end: { outcome: 'COMPLETED' } };
  const sent = t.runner.report(claim, end, 2).catch(() => null);
  await Promise.all([sent, restart()]);
  expectOk(await t.runner.report(claim, end, 2));
  const threads = await threadsOf(t);
  expect(threads.map(({ state, answer, comments: all }) => [state, answer, all.at(-1)?.body])).toEqual([
    ['RESOLVED', 'ANSWERED', 'fixed'],
    ['OPEN', 'DECLINED', 'no'],
    ['OPEN', 'NONE', 'three'],
  ]);
  expect(threads.map(({ comments: all }) => all.length)).toEqual([2, 2, 1]);
});
