import { expect, test } from 'vitest';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const used = (times: number) => ({
  inputTokens: 100 * times,
  cachedInputTokens: 20 * times,
  outputTokens: 10 * times,
  costUsd: 0.25 * times,
});
const counted = (times: number) => ({
  inputTokens: String(100 * times),
  cachedInputTokens: String(20 * times),
  outputTokens: String(10 * times),
});

/** A run of which one of three requests was reported, and the next process of its runner. */
async function lostRun(t: TestTenant) {
  await t.spawn('a');
  const run = await t.start('a');
  await t.report(run, { usage: used(1) });
  const restarted = t.runner.restarted();
  return { run, restarted };
}

const late = (usage: object, more: object = {}) => ({ late: { usage, ...more } });

test('what a lost run used is counted once, also if the agent has another run', async () => {
  const t = await newTestTenant(api);
  const { run, restarted } = await lostRun(t);
  const next = await restarted.claim();
  expect(next.runId).toBe(2);
  await restarted.report(next, { started: true, usage: used(1) });
  for (let time = 0; time < 2; time += 1) {
    const answer = await restarted.report(run, late(used(3), { missing: 4 }), 2 ** 31 - 1);
    expect(answer.status).toBe(200);
  }
  const status = await t.status('a');
  expect(status).toMatchObject({ cost: 1, ...counted(4) });
  const runs = await t.runs('a');
  expect(runs.map((one) => one.cost)).toEqual([0.25, 0.75]);
  const warned = await t.timeline('a', 'WARNING');
  expect(warned.map(({ runId, text }) => [runId, text])).toEqual([
    ['1', 'Up to 4 entries of run 1 are missing here: the runner was lost before it reported them.'],
  ]);
  // Less than what is counted changes nothing.
  await restarted.report(run, late(used(2)), 2 ** 31 - 1);
  expect(await t.status('a')).toMatchObject({ cost: 1 });
});

test('entries that come late are marked, and a report that had arrived is not repeated', async () => {
  const t = await newTestTenant(api);
  const { run, restarted } = await lostRun(t);
  await t.runner.report(run, { items: [{ type: 'MESSAGE', text: 'in time' }] }, 20);
  await restarted.claim();
  const items = (text: string) => ({ items: [{ type: 'MESSAGE', text }], late: {} });
  for (const number of [20, 21, 21]) await restarted.report(run, items(`report ${number}`), number);
  const said = await t.timeline('a', 'MESSAGE');
  expect(said.map(({ text, data }) => [text, data.late ?? false])).toEqual([
    ['in time', false],
    ['report 21', true],
  ]);
});

test('a live run, a run of another runner and an unknown run are refused', async () => {
  const t = await newTestTenant(api);
  await t.spawn('a');
  const run = await t.start('a');
  expectError(await t.runner.report(run, late(used(1)), 9), 'ABORTED');
  await t.kill('a');
  const other = t.runner.restarted('another-name');
  await other.poll();
  expectError(await other.report(run, late(used(1)), 9), 'NOT_FOUND');
  expectError(await t.runner.report({ ...run, runId: 7 }, late(used(1)), 9), 'NOT_FOUND');
  expect(await t.status('a')).toMatchObject({ cost: 0 });
  expect((await t.runner.report(run, late(used(1)), 9)).status).toBe(200);
  expect(await t.status('a')).toMatchObject({ cost: 0.25, phase: 'PHASE_CANCELED' });
});
