import { describe, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, textsOf } from '../support/test-tenant.ts';

const { api } = await useSharedServer();
/** Rehearsed agents, on the service's own runner. */
const agents = new Agents(api, 'default');

const untilPhase = (path: string, phase: string) =>
  until(
    phase,
    () => agents.phase(path),
    (seen) => seen === phase,
  );
const untilSaid = (path: string, text: string) =>
  until(
    `"${text}"`,
    () => agents.timeline(path, 'MESSAGE'),
    (messages) => messages.some((message) => message.text === text),
  );

/** A rehearsed agent during a long turn. */
async function busy(path: string, ...lines: string[]): Promise<void> {
  await agents.spawn(path, { description: [...lines, '!say busy', '!sleep 600'].join('\n') });
  await untilSaid(path, 'busy');
}

describe('stop-turn', () => {
  test('interrupts the current turn; the agent stays alive for later follow-ups', async () => {
    await busy('stopped');
    const answer = await agents.send('agent/stop-turn', 'stopped', { runId: '1' });
    expect({ status: answer.status, body: answer.body }).toEqual({ status: 200, body: {} });
    expect(await agents.wait('stopped')).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'INTERRUPTED',
      run: { runId: '1', outcome: 'INTERRUPTED' },
    });
    await agents.queue('stopped', '!say alive');
    expect(await agents.wait('stopped')).toMatchObject({ response: 'alive', runCount: '2' });
  });

  test('lets the interrupted agent report cost and response before it exits', async () => {
    await busy('flushed', '!usage 10 0 5 0.5', '!say so far');
    await agents.stop('flushed', 1);
    const record = await agents.wait('flushed');
    expect(record).toMatchObject({
      phaseReason: 'INTERRUPTED',
      cost: 0.5,
      inputTokens: '10',
      response: 'busy',
    });
    expect(record.run?.endedAt).not.toBeNull();
  });

  test('KILL ends the turn immediately, without its result; the process exits later', async () => {
    await busy('killed-turn');
    await agents.stop('killed-turn', 1, 'KILL');
    expect(await agents.status('killed-turn')).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'INTERRUPTED',
      // The turn's result is lost; what it reported before is kept.
      response: 'busy',
      run: { state: 'ENDED', outcome: 'KILLED' },
    });
    await until(
      'PROCESS_GONE',
      () => agents.timeline('killed-turn', 'PROCESS_GONE'),
      (entries) => entries.length === 1,
    );
    await agents.queue('killed-turn', '!say alive');
    expect(await agents.wait('killed-turn')).toMatchObject({ response: 'alive', runCount: '2' });
  });

  test('ends a command that the turn is running', async () => {
    await agents.spawn('command', { description: '!say busy\n!run sleep 600' });
    await untilSaid('command', 'busy');
    await agents.stop('command', 1);
    expect((await agents.wait('command')).phaseReason).toBe('INTERRUPTED');
  });

  test.each<[what: string, fields: Record<string, unknown>]>([
    ['omitted', {}],
    ['null', { runId: null }],
    ['empty', { runId: '' }],
    ['zero', { runId: '0' }],
    ['negative', { runId: '-1' }],
    ['stale', { runId: '1' }],
    ['ahead', { runId: '3' }],
    ['no number', { runId: 'current' }],
  ])('a runId that is %s is INVALID_ARGUMENT and stops nothing', async (_what, fields) => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'second');
    await t.start('a');
    const before = await t.status('a');
    expect(before.runCount).toBe('2');
    for (const mode of ['STOP_TURN_MODE_INTERRUPT', 'STOP_TURN_MODE_KILL']) {
      expectError(await t.send('agent/stop-turn', 'a', { ...fields, mode }), 'INVALID_ARGUMENT', 'runId');
    }
    expect(await t.status('a')).toEqual(before);
    expect(await t.stops()).toEqual([]);
  });

  test('with no turn running is INVALID_ARGUMENT', async () => {
    const t = await newTestTenant(api);
    await t.spawn('new');
    expectError(await t.send('agent/stop-turn', 'new', { runId: '0' }), 'INVALID_ARGUMENT', 'runId');
    await t.rested('rests');
    expectError(await t.send('agent/stop-turn', 'rests', { runId: '1' }), 'INVALID_ARGUMENT', 'runId');
    await t.kill('rests');
    expectError(await t.send('agent/stop-turn', 'rests', { runId: '1' }), 'INVALID_ARGUMENT', 'runId');
  });

  test('a retried stop never stops a newer turn', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', 'next');
    await t.stop('a', 1);
    await t.end(run, 'INTERRUPTED');
    await t.start('a');
    expectError(await t.send('agent/stop-turn', 'a', { runId: '1' }), 'INVALID_ARGUMENT', 'runId');
    expect(await t.phase('a')).toBe('RUNNING/WORKING');
  });

  test.each<[mode: string | undefined]>([
    [undefined],
    ['STOP_TURN_MODE_UNSPECIFIED'],
    ['STOP_TURN_MODE_INTERRUPT'],
  ])('mode %s is a graceful interrupt', async (mode) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const answer = await t.send('agent/stop-turn', 'a', { runId: 1, ...(mode !== undefined && { mode }) });
    expect({ status: answer.status, body: answer.body }).toEqual({ status: 200, body: {} });
    expect(await t.phase('a')).toBe('RUNNING/STOPPING');
    await t.report(run, {
      items: [{ type: 'MESSAGE', text: 'flushing' }],
      usage: { inputTokens: 3, cachedInputTokens: 0, outputTokens: 1, costUsd: 0.25 },
    });
    await t.end(run, 'INTERRUPTED', { response: 'what I have' });
    expect(await t.status('a')).toMatchObject({
      phaseReason: 'INTERRUPTED',
      response: 'what I have',
      cost: 0.25,
    });
  });

  test.each(['INTERRUPT', 'STOP_TURN_MODE_NICELY', 'stop_turn_mode_kill', 2])(
    '%j is not a mode',
    async (mode) => {
      const t = await newTestTenant(api);
      await t.spawn('a');
      await t.start('a');
      expectError(await t.send('agent/stop-turn', 'a', { runId: 1, mode }), 'INVALID_ARGUMENT', 'mode');
      expect(await t.phase('a')).toBe('RUNNING/WORKING');
    },
  );

  test('nothing escalates by itself; a second stop with KILL does', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.start('a');
    await t.stop('a', 1);
    for (let poll = 0; poll < 5; poll += 1) expect(await t.stops()).toEqual(['1 INTERRUPT']);
    expect(await t.phase('a')).toBe('RUNNING/STOPPING');
    await t.stop('a', 1, 'KILL');
    expect(await t.stops()).toEqual(['1 KILL']);
    expect((await t.status('a')).run).toMatchObject({ state: 'ENDED', outcome: 'KILLED' });
  });

  test('discards no queued message', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', 'one');
    await t.queue('a', 'two');
    await t.stop('a', 1);
    await t.end(run, 'INTERRUPTED');
    expect(textsOf(await t.claim('a'))).toEqual(['one', 'two']);
  });
});

describe('kill', () => {
  test('ends an agent and every agent it spawned', async () => {
    await agents.spawn('tree', {
      description:
        '!spawn left !say busy\\n!sleep 600\n!spawn right !spawn leaf !sleep 600\\n!say busy\\n!sleep 600\n!say busy\n!sleep 600',
    });
    await untilSaid('tree', 'busy');
    await untilSaid('tree/left', 'busy');
    await untilSaid('tree/right', 'busy');
    const answer = await agents.send('agent/kill', 'tree');
    expect({ status: answer.status, body: answer.body }).toEqual({ status: 200, body: {} });
    expect(await agents.phase('tree')).toBe('CANCELED/KILLED');
    for (const path of ['tree/left', 'tree/right', 'tree/right/leaf']) {
      expect(await agents.phase(path)).toBe('CANCELED/PARENT_KILLED');
    }
    for (const path of ['tree', 'tree/left', 'tree/right']) {
      await until(
        `the process of ${path} gone`,
        () => agents.timeline(path, 'PROCESS_GONE'),
        (entries) => entries.length === 1,
      );
    }
    expectError(await agents.send('agent/queue', 'tree', { description: 'x' }), 'NOT_FOUND');
  });

  test('leaves parents and siblings alone', async () => {
    const t = await newTestTenant(api);
    for (const path of ['r', 'r/a', 'r/a/x', 'r/b']) await t.spawn(path);
    await t.kill('r/a');
    expect(await t.phase('r/a')).toBe('CANCELED/KILLED');
    expect(await t.phase('r/a/x')).toBe('CANCELED/PARENT_KILLED');
    for (const path of ['r', 'r/b']) expect((await t.status(path)).phase).toBe('PHASE_PENDING');
  });

  test('may be repeated', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.kill('a');
    const before = await t.status('a');
    await t.kill('a');
    expect(await t.status('a')).toEqual(before);
  });

  test('ends an agent in every phase', async () => {
    const t = await newTestTenant(api);
    await t.spawn('pending');
    await t.rested('resting');
    await t.spawn('starting');
    await t.claim('starting');
    await t.spawn('stopping');
    await t.start('stopping');
    await t.stop('stopping', 1);
    for (const path of ['pending', 'resting', 'starting', 'stopping']) {
      await t.kill(path);
      expect(await t.phase(path)).toBe('CANCELED/KILLED');
    }
    expect((await t.status('resting')).run).toMatchObject({ outcome: 'COMPLETED' });
    for (const path of ['starting', 'stopping']) {
      expect((await t.status(path)).run).toMatchObject({ state: 'ENDED', outcome: 'KILLED' });
    }
  });

  test('stops the turn of a killed agent for good', async () => {
    await busy('dead');
    await agents.kill('dead');
    await untilPhase('dead', 'CANCELED/KILLED');
    await until(
      'PROCESS_GONE',
      () => agents.timeline('dead', 'PROCESS_GONE'),
      (entries) => entries.length === 1,
    );
    expect((await agents.timeline('dead', 'RUN_ENDED')).map(({ data }) => data.outcome)).toEqual(['KILLED']);
  });
});

test('the directives of a steering message are appended to the turn; one that comes too late runs next', async () => {
  await agents.spawn('steered', { description: '!sleep 3\n!say first' });
  await untilPhase('steered', 'RUNNING/WORKING');
  const followUpId = await agents.queue('steered', { description: '!say second\n!ask Why?', steer: true });
  await agents.queue('steered', { description: '!say third', steer: true });
  await untilSaid('steered', 'third');
  const messages = await agents.timeline('steered', 'MESSAGE');
  expect(messages.map(({ text }) => text)).toEqual(['first', 'second', 'third']);
  const runs = await agents.runs('steered');
  expect(runs.map((run) => run.followUpIds.includes(followUpId))).toEqual([false, true]);
});
