import { type Run, run as runSchema } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { accepted, type Fields } from '../support/agents.ts';
import { schemaProblem } from '../support/contract-schemas.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const said = (text: string) => ({ items: [{ type: 'MESSAGE', text }] });

async function runOf(t: TestTenant, path: string, runId: unknown): Promise<Run> {
  const { runs } = accepted('runs', await t.send<{ runs: Run[] }>('agent/runs', path, { runId }));
  expect(runs).toHaveLength(1);
  return runs[0] as Run;
}

describe('the result of a run', () => {
  test('has its own response, structured output, error and messages', async () => {
    const t = await newTestTenant(api);
    await t.rested('a', {}, { response: 'first', structuredOutput: { n: 1 } });
    const followUpId = await t.queue('a', 'again');
    const second = await t.start('a');
    await t.report(second, said('halfway'));
    await t.end(second, 'FAILED', { error: { code: 'BROKEN', message: 'no disk' } });
    const [newest, oldest] = await t.runs('a');
    expect(oldest).toMatchObject({
      runId: '1',
      response: 'first',
      structuredOutput: { n: 1 },
      error: null,
      followUpIds: [],
      truncated: false,
    });
    expect(newest).toMatchObject({
      runId: '2',
      response: 'halfway',
      structuredOutput: null,
      error: { code: 'BROKEN', message: 'no disk' },
      followUpIds: [followUpId],
      truncated: false,
    });
  });

  test('has an empty response before the run says something', async () => {
    const t = await newTestTenant(api);
    await t.rested('a', {}, { response: 'first' });
    await t.queue('a', 'again');
    await t.start('a');
    expect((await t.runs('a'))[0]).toMatchObject({ runId: '2', response: '', error: null });
  });

  test('in a list has a long response cut at 4 KiB and no large structured output; runId returns all', async () => {
    const t = await newTestTenant(api);
    const response = 'é'.repeat(5000);
    const structuredOutput = { text: 'x'.repeat(5000) };
    await t.rested('a', {}, { response, structuredOutput });
    const [listed] = await t.runs('a');
    expect(listed).toMatchObject({ truncated: true, structuredOutput: null, response: 'é'.repeat(2048) });
    for (const runId of ['1', 1])
      expect(await runOf(t, 'a', runId)).toMatchObject({ response, structuredOutput, truncated: false });
  });

  test('of exactly 4 KiB is not cut', async () => {
    const t = await newTestTenant(api);
    await t.rested('a', {}, { response: 'x'.repeat(4096) });
    expect((await t.runs('a'))[0]).toMatchObject({ truncated: false, response: 'x'.repeat(4096) });
  });

  test.each<[what: string, runId: unknown]>([
    ['above runCount', '2'],
    ['0', 0],
    ['negative', '-1'],
    ['beyond every number of a run', '9223372036854775807'],
  ])('a runId that is %s is refused', async (_what, runId) => {
    const t = await newTestTenant(api);
    await t.rested('a');
    expectError(await t.send('agent/runs', 'a', { runId }), 'INVALID_ARGUMENT', 'runId');
  });

  test('before the first run there is no run 1', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expectError(await t.send('agent/runs', 'a', { runId: '1' }), 'INVALID_ARGUMENT', 'runId');
  });
});

describe('the response of an agent', () => {
  const response = async (t: TestTenant): Promise<string> => (await t.status('a')).response;

  test('is the last text of the run so far, during a turn too', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const claim = await t.start('a');
    expect(await response(t)).toBe('');
    await t.report(claim, said('one'));
    expect(await response(t)).toBe('one');
    await t.report(claim, { items: [...said('two').items, ...said('three').items] });
    expect(await response(t)).toBe('three');
    await t.report(claim, {
      items: [
        { type: 'TOOL_CALL', text: 'ls' },
        { type: 'MESSAGE', text: '' },
      ],
    });
    expect(await response(t)).toBe('three');
  });

  test('stays the text of the previous run until the next run says something', async () => {
    const t = await newTestTenant(api);
    await t.rested('a', {}, { response: 'before' });
    await t.queue('a', 'again');
    const claim = await t.start('a');
    expect(await response(t)).toBe('before');
    await t.report(claim, said('now'));
    expect(await response(t)).toBe('now');
  });

  test.each<[outcome: string, end: Fields]>([
    ['FAILED', { error: { code: 'X', message: 'y' } }],
    ['PARKED', { limitUntil: new Date(Date.now() + 3_600_000).toISOString() }],
    ['HANDED_BACK', {}],
    ['INTERRUPTED', {}],
    ['COMPLETED', {}],
  ])('is kept when the run ends %s', async (outcome, end) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const claim = await t.start('a');
    await t.report(claim, said('last words'));
    await t.end(claim, outcome, end);
    expect(await response(t)).toBe('last words');
    expect((await t.runs('a')).at(-1)).toMatchObject({ outcome, response: 'last words' });
  });

  test('is kept when the agent is killed during a turn', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.report(await t.start('a'), said('last words'));
    await t.kill('a');
    expect(await response(t)).toBe('last words');
    expect((await t.runs('a'))[0]).toMatchObject({ outcome: 'KILLED', response: 'last words' });
  });
});

describe('runs', () => {
  test('lists an agent’s runs, newest first, page by page', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    for (let i = 1; i <= 5; i += 1) {
      const run = await tenant.start('a');
      await tenant.report(run, {
        usage: { inputTokens: i, cachedInputTokens: 1, outputTokens: 2, costUsd: 0.5 },
      });
      await tenant.end(run);
      await tenant.queue('a', { followUpId: `f${i}`, description: 'x' });
    }
    const runs = await tenant.runs('a');
    expect(runs.map(({ runId }) => runId)).toEqual(['5', '4', '3', '2', '1']);
    expect(runs[0]).toEqual({
      runId: '5',
      state: 'ENDED',
      outcome: 'COMPLETED',
      startedAt: expect.any(String),
      endedAt: expect.any(String),
      runnerId: expect.stringMatching(/./),
      account: '',
      followUpIds: ['f4'],
      batch: '5',
      cost: 0.5,
      inputTokens: '5',
      cachedInputTokens: '1',
      outputTokens: '2',
      response: '',
      truncated: false,
      structuredOutput: null,
      error: null,
      traceId: '',
    });
    for (const run of runs) expect(schemaProblem(runSchema, run)).toBeUndefined();
    const some = await tenant.send<{ runs: Run[]; more: boolean }>('agent/runs', 'a', { limit: 2 });
    expect(some.body.more).toBe(true);
    expect(some.body.runs.map(({ runId }) => runId)).toEqual(['5', '4']);
    const more = await tenant.send<{ runs: Run[] }>('agent/runs', 'a', { beforeRunId: '4', limit: 2 });
    expect(more.body.runs.map(({ runId }) => runId)).toEqual(['3', '2']);
    for (const limit of [0, 1001]) {
      expectError(await tenant.send('agent/runs', 'a', { limit }), 'INVALID_ARGUMENT', 'limit');
    }
  });

  test('is empty before the first', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    expect(await tenant.runs('a')).toEqual([]);
  });
});
