import type { Run } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accepted, type Fields } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { expectRefusal } from '../support/refusal.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { newStage, type Stage } from '../support/stage.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

const said = (text: string) => ({ items: [{ type: 'MESSAGE', text }] });

async function runOf(s: Stage, path: string, runId: unknown): Promise<Run> {
  const { runs } = accepted('runs', await s.send<{ runs: Run[] }>('agent/runs', path, { runId }));
  expect(runs).toHaveLength(1);
  return runs[0] as Run;
}

describe('what a run said and produced', () => {
  test('each run carries its own response, structured output, error and messages', async () => {
    const s = await newStage(api);
    await s.rested('a', {}, { response: 'first', structuredOutput: { n: 1 } });
    const followUpId = await s.queue('a', 'again');
    const second = await s.start('a');
    await s.report(second, said('halfway'));
    await s.end(second, 'FAILED', { error: { code: 'BROKEN', message: 'no disk' } });
    const [newest, oldest] = await s.runs('a');
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

  test('a run that has said nothing yet has an empty response', async () => {
    const s = await newStage(api);
    await s.rested('a', {}, { response: 'first' });
    await s.queue('a', 'again');
    await s.start('a');
    expect((await s.runs('a'))[0]).toMatchObject({ runId: '2', response: '', error: null });
  });

  test('a list cuts a long response at 4 KiB and leaves out a large structured output; runId gives all', async () => {
    const s = await newStage(api);
    const response = 'é'.repeat(5000);
    const structuredOutput = { text: 'x'.repeat(5000) };
    await s.rested('a', {}, { response, structuredOutput });
    const [listed] = await s.runs('a');
    expect(listed).toMatchObject({ truncated: true, structuredOutput: null, response: 'é'.repeat(2048) });
    for (const runId of ['1', 1])
      expect(await runOf(s, 'a', runId)).toMatchObject({ response, structuredOutput, truncated: false });
  });

  test('4 KiB exactly are not cut', async () => {
    const s = await newStage(api);
    await s.rested('a', {}, { response: 'x'.repeat(4096) });
    expect((await s.runs('a'))[0]).toMatchObject({ truncated: false, response: 'x'.repeat(4096) });
  });

  test.each<[what: string, runId: unknown]>([
    ['above runCount', '2'],
    ['0', 0],
    ['negative', '-1'],
    ['beyond every number of a run', '9223372036854775807'],
  ])('a runId that is %s is refused', async (_what, runId) => {
    const s = await newStage(api);
    await s.rested('a');
    expectRefusal(await s.send('agent/runs', 'a', { runId }), 'INVALID_ARGUMENT', 'runId');
  });

  test('the runs of an agent that has not run yet have no run 1', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    expectRefusal(await s.send('agent/runs', 'a', { runId: '1' }), 'INVALID_ARGUMENT', 'runId');
  });
});

describe('the response of an agent', () => {
  const response = async (s: Stage): Promise<string> => (await s.status('a')).response;

  test('is the last text of the run so far, in the middle of a turn too', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    const claim = await s.start('a');
    expect(await response(s)).toBe('');
    await s.report(claim, said('one'));
    expect(await response(s)).toBe('one');
    await s.report(claim, { items: [...said('two').items, ...said('three').items] });
    expect(await response(s)).toBe('three');
    await s.report(claim, {
      items: [
        { type: 'TOOL_CALL', text: 'ls' },
        { type: 'MESSAGE', text: '' },
      ],
    });
    expect(await response(s)).toBe('three');
  });

  test('stays the text of the run before until the next run says something', async () => {
    const s = await newStage(api);
    await s.rested('a', {}, { response: 'before' });
    await s.queue('a', 'again');
    const claim = await s.start('a');
    expect(await response(s)).toBe('before');
    await s.report(claim, said('now'));
    expect(await response(s)).toBe('now');
  });

  test.each<[outcome: string, end: Fields]>([
    ['FAILED', { error: { code: 'X', message: 'y' } }],
    ['PARKED', { limitUntil: new Date(Date.now() + 3_600_000).toISOString() }],
    ['HANDED_BACK', {}],
    ['INTERRUPTED', {}],
    ['COMPLETED', {}],
  ])('is kept when the run ends %s', async (outcome, end) => {
    const s = await newStage(api);
    await s.spawn('a');
    const claim = await s.start('a');
    await s.report(claim, said('last words'));
    await s.end(claim, outcome, end);
    expect(await response(s)).toBe('last words');
    expect((await s.runs('a')).at(-1)).toMatchObject({ outcome, response: 'last words' });
  });

  test('is kept when the agent is killed in the middle of a turn', async () => {
    const s = await newStage(api);
    await s.spawn('a');
    await s.report(await s.start('a'), said('last words'));
    await s.kill('a');
    expect(await response(s)).toBe('last words');
    expect((await s.runs('a'))[0]).toMatchObject({ outcome: 'KILLED', response: 'last words' });
  });
});
