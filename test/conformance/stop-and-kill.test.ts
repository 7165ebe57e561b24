import { describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { expectError, expectRunFenced } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, type TestTenant, textsOf } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

describe('kill', () => {
  test('cancels the whole subtree and clears undelivered messages', async () => {
    const t = await newTestTenant(api);
    for (const path of ['r', 'r/a', 'r/a/b', 'r/c', 'other']) await t.spawn(path);
    await t.rested('r/d');
    const run = await t.start('r/a');
    await t.queue('r/a', { followUpId: 'q', description: 'q' });
    await t.queue('r/a', { followUpId: 'd', description: 'd', deliverAt: inAnHour() });
    await t.kill('r');
    expect(await t.phase('r')).toBe('CANCELED/KILLED');
    for (const path of ['r/a', 'r/a/b', 'r/c', 'r/d']) {
      expect(await t.phase(path)).toBe('CANCELED/PARENT_KILLED');
      expect((await t.status(path)).endedAt).not.toBeNull();
    }
    expect((await t.status('other')).phase).not.toBe('PHASE_CANCELED');
    expect(await t.status('r/a')).toMatchObject({
      followUps: [],
      run: { state: 'ENDED', outcome: 'KILLED' },
      wakesAt: null,
    });
    expect(await t.movesOf('r/a')).toEqual(
      expect.arrayContaining(['q: QUEUED → CLEARED', 'd: DEFERRED → CLEARED']),
    );
    expect(await t.stops()).toContain('1 KILL');
    expectRunFenced(await t.runner.report(run, { items: [{ type: 'MESSAGE', text: 'late' }] }));
  });

  test('of an ended agent keeps its phase and cancels the live descendants', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const run = await t.start('p');
    await t.spawn('p/c');
    await t.turn('p/c');
    await t.end(run);
    await t.turn('p', { finished: true });
    const before = await t.status('p');
    expect(before.phase).toBe('PHASE_COMPLETED');
    await t.kill('p');
    const { treeCost, ...after } = await t.status('p');
    expect({ ...after, treeCost }).toMatchObject({
      phase: 'PHASE_COMPLETED',
      phaseReason: 'FINISHED',
      endedAt: before.endedAt,
    });
    expect(await t.phase('p/c')).toBe('CANCELED/PARENT_KILLED');
    await t.kill('p/c');
    expect(await t.phase('p/c')).toBe('CANCELED/PARENT_KILLED');
  });

  test('includes children that are being spawned at the same time', async () => {
    const t = await newTestTenant(api);
    for (let round = 0; round < 10; round += 1) {
      await t.spawn(`p${round}`);
      const paths = Array.from({ length: 12 }, (_, i) => `p${round}/c${i}`);
      const spawns = paths.map((path) => t.send('agent/spawn', path, { description: 'x' }));
      const kill = t.send('agent/kill', `p${round}`);
      const answers = await Promise.all(spawns);
      expect((await kill).status).toBe(200);
      for (const [i, answer] of answers.entries()) {
        if (answer.status !== 200) expectError(answer, 'FAILED_PRECONDITION');
        else expect(await t.phase(paths[i] as string)).toBe('CANCELED/PARENT_KILLED');
      }
    }
  });

  test('is carried out while messages arrive for every agent of the tree without a pause', async () => {
    const t = await newTestTenant(api);
    const paths = ['r', ...Array.from({ length: 15 }, (_, i) => `r/${i}`)];
    for (const path of paths) await t.spawn(path);
    let accepted = 0;
    const senders = [...paths, ...paths].map(async (path) => {
      while ((await t.add({ description: 'x' }, path)).status === 200) accepted += 1;
    });
    await until(
      'messages without a pause',
      async () => accepted,
      (count) => count > 200,
    );
    await t.kill('r');
    await Promise.all(senders);
    for (const path of paths.slice(1)) expect(await t.phase(path)).toBe('CANCELED/PARENT_KILLED');
  });

  test('ends the agent’s key', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const own = api.as(run.token);
    expect((await own.get('/v1/whoami')).status).toBe(200);
    await t.kill('a');
    await until(
      '401',
      () => own.get('/v1/whoami'),
      ({ status }) => status === 401,
    );
  });
});

describe('stop-turn', () => {
  test.each<[reason: string, arrange: (t: TestTenant) => Promise<unknown>]>([
    ['NO_RUNNER', (t) => t.spawn('a')],
    [
      'RETRYING',
      async (t) => {
        await t.spawn('a');
        await t.end(await t.start('a'), 'HANDED_BACK');
      },
    ],
    [
      'PROVIDER_LIMIT',
      async (t) => {
        await t.spawn('a');
        await t.end(await t.start('a'), 'PARKED', { limitUntil: inAnHour() });
      },
    ],
    [
      'CHILDREN',
      async (t) => {
        await t.spawn('a');
        const run = await t.start('a');
        await t.spawn('a/child');
        await t.end(run);
      },
    ],
  ])('of an agent that is PENDING for %s has nothing to stop', async (reason, arrange) => {
    const t = await newTestTenant(api);
    await arrange(t);
    expect(await t.phase('a')).toBe(`PENDING/${reason}`);
    const before = await t.status('a');
    for (const runId of [before.runCount, '1', '0']) {
      expectError(await t.send('agent/stop-turn', 'a', { runId }), 'INVALID_ARGUMENT', 'runId');
    }
    expect(await t.status('a')).toEqual(before);
  });

  test('works during STARTING', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.claim('a');
    await t.stop('a', 1);
    expect(await t.phase('a')).toBe('RUNNING/STOPPING');
    expect(await t.stops()).toEqual(['1 INTERRUPT']);
    await t.end(run, 'INTERRUPTED');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
  });

  test('reaches the runner by poll and by report', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    expect((await t.report(run, { currentAction: 'x' })).stop).toBe('');
    await t.stop('a', 1);
    expect((await t.report(run, { currentAction: 'y' })).stop).toBe('INTERRUPT');
    expect(await t.stops()).toEqual(['1 INTERRUPT']);
  });

  test('of a STOPPING run: INTERRUPT changes nothing, KILL upgrades', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.stop('a', 1);
    const before = { record: await t.status('a'), timeline: await t.timeline('a') };
    await t.stop('a', 1);
    await t.stop('a', 1, 'UNSPECIFIED');
    expect({ record: await t.status('a'), timeline: await t.timeline('a') }).toEqual(before);
    await t.stop('a', 1, 'KILL');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
    expect((await t.status('a')).run).toMatchObject({ state: 'ENDED', outcome: 'KILLED' });
    expectRunFenced(await t.runner.end(run, 'INTERRUPTED', { response: 'late' }));
    expect((await t.status('a')).response).toBe('');
  });

  test.each(['INTERRUPT', 'KILL'])('with %s lets queued messages run next', async (mode) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', 'next');
    await t.stop('a', 1, mode);
    await (mode === 'KILL' ? t.report(run, { gone: true }) : t.end(run, 'INTERRUPTED'));
    const next = await t.claim('a');
    expect(next.runId).toBe(2);
    expect(textsOf(next)).toEqual(['next']);
  });

  test('of a run that has ended is refused, idle or terminal', async () => {
    const t = await newTestTenant(api);
    await t.rested('rest');
    await t.rested('done', {}, { finished: true });
    for (const path of ['rest', 'done']) {
      for (const mode of ['STOP_TURN_MODE_INTERRUPT', 'STOP_TURN_MODE_KILL']) {
        expectError(await t.send('agent/stop-turn', path, { runId: '1', mode }), 'INVALID_ARGUMENT', 'runId');
      }
    }
  });
});
