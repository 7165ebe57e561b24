import { describe, expect, test } from 'vitest';
import { type Answer, agent } from '../support/api.ts';
import { postResource, readDocument, readResource, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newTestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });
const t = await newTestTenant(api);

const dayMs = 86_400_000;

async function spawned(model: string): Promise<string> {
  const name = uniqueName('agent');
  expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'x', model }));
  return name;
}

const queue = async (name: string, more: Record<string, unknown>): Promise<Answer> =>
  api.post('/v1/agent/queue', { agentId: agent(name), description: 'x', ...more });

describe('conditions of queue-add', () => {
  test.each(['PHASE_CANCELED', 'PHASE_COMPLETED', 'PHASE_FAILED'])(
    'queue-add to an agent that is not running (%s) is NOT_FOUND',
    async (phase) => {
      const name = uniqueName('done');
      await t.spawn(name);
      if (phase === 'PHASE_CANCELED') await t.kill(name);
      else {
        const claim = await t.start(name);
        if (phase === 'PHASE_COMPLETED') await t.end(claim, 'COMPLETED', { finished: true });
        else await t.end(claim, 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'for good' } });
      }
      expect((await t.status(name)).phase).toBe(phase);
      expectError(await t.send('agent/queue', name, { description: 'x' }), 'NOT_FOUND');
      const later = { description: 'x', deliverAt: inAnHour() };
      expectError(await t.send('agent/queue', name, later), 'NOT_FOUND');
    },
  );

  test('queue-add to an agent that does not exist is NOT_FOUND', async () => {
    expectError(await queue(uniqueName('absent'), {}), 'NOT_FOUND');
  });

  test.each([
    ['rehearsal-a', 'rehearsal-b'],
    ['rehearsal-a', 'gpt-5'],
    ['rehearsal-a', 'o3'],
    ['rehearsal-a', 'codex-mini'],
    ['rehearsal-b', 'rehearsal-a'],
    ['rehearsal-b', 'claude-sonnet-4-5'],
    ['rehearsal-b', 'opus'],
    ['rehearsal-b', 'sonnet'],
    ['rehearsal-b', 'haiku'],
    ['rehearsal-a', 'unheard-of'],
  ])('to an agent on %s, queue-add of model %s is INVALID_ARGUMENT', async (model, other) => {
    const name = await spawned(model);
    expectError(await queue(name, { model: other }), 'INVALID_ARGUMENT', 'model');
  });

  test.each([
    ['rehearsal-a', 'opus'],
    ['rehearsal-a', ''],
    ['rehearsal-b', 'gpt-5'],
    ['rehearsal-b', 'o4-mini'],
  ])('to an agent on %s, queue-add of model %j is accepted', async (model, same) => {
    expectOk(await queue(await spawned(model), { model: same }));
  });

  const efforts = {
    'rehearsal-a': {
      yes: ['low', 'medium', 'high', 'xhigh', 'max', ''],
      no: ['none', 'minimal', 'HIGH', '3'],
    },
    'rehearsal-b': {
      yes: ['none', 'low', 'medium', 'high', 'xhigh', ''],
      no: ['max', 'minimal', 'Low', '3'],
    },
  };
  const effortRows = (side: 'yes' | 'no') =>
    Object.entries(efforts).flatMap(([model, values]) =>
      values[side].map((value) => [model, value] as const),
    );

  test.each(effortRows('no'))(
    'on %s a reasoningEffort of %j is INVALID_ARGUMENT, at queue-add and at spawn',
    async (model, reasoningEffort) => {
      const name = await spawned(model);
      expectError(await queue(name, { reasoningEffort }), 'INVALID_ARGUMENT', 'reasoningEffort');
      const spawn = { agentId: agent(uniqueName('x')), description: 'x', model, reasoningEffort };
      expectError(await api.post('/v1/agent/spawn', spawn), 'INVALID_ARGUMENT', 'reasoningEffort');
    },
  );

  test.each(effortRows('yes'))(
    'on %s a reasoningEffort of %j is accepted',
    async (model, reasoningEffort) => {
      expectOk(await queue(await spawned(model), { reasoningEffort }));
    },
  );

  test.each([
    ['rehearsal-a', 'standard'],
    ['rehearsal-a', 'fast'],
    ['rehearsal-a', 'flex'],
    ['rehearsal-a', 'gold'],
    ['rehearsal-b', 'gold'],
    ['rehearsal-b', 'FAST'],
  ])(
    'on %s a serviceTier of %j is INVALID_ARGUMENT, at queue-add and at spawn',
    async (model, serviceTier) => {
      expectError(await queue(await spawned(model), { serviceTier }), 'INVALID_ARGUMENT', 'serviceTier');
      const spawn = { agentId: agent(uniqueName('x')), description: 'x', model, serviceTier };
      expectError(await api.post('/v1/agent/spawn', spawn), 'INVALID_ARGUMENT', 'serviceTier');
    },
  );

  test.each([
    ['rehearsal-a', ''],
    ['rehearsal-b', ''],
    ['rehearsal-b', 'standard'],
    ['rehearsal-b', 'fast'],
    ['rehearsal-b', 'flex'],
  ])('on %s a serviceTier of %j is accepted', async (model, serviceTier) => {
    expectOk(await queue(await spawned(model), { serviceTier }));
  });

  test('fastMode is not checked per backend', async () => {
    for (const model of ['rehearsal-a', 'rehearsal-b']) {
      for (const fastMode of [true, false]) expectOk(await queue(await spawned(model), { fastMode }));
    }
  });

  test('deliverAt on an agent whose build lacks deferral support is FAILED_PRECONDITION', async () => {
    const name = uniqueName('old-build');
    await t.spawn(name);
    const claim = await t.claim(name, { capabilities: [], build: 'before deferral' });
    await t.report(claim, { started: true });
    const later = { description: 'x', deliverAt: inAnHour() };
    expectError(await t.send('agent/queue', name, later), 'FAILED_PRECONDITION');
    expect((await t.status(name)).followUps).toEqual([]);
    expectOk(await t.send('agent/queue', name, { description: 'now' }));
    await t.end(claim);
  });

  test('an agent with no runner yet accepts deliverAt', async () => {
    expectOk(await queue(await spawned('rehearsal-a'), { deliverAt: inAnHour() }));
  });

  test.each<[what: string, more: () => Record<string, unknown>]>([
    ['in the past', () => ({ deliverAt: inMs(-1_000) })],
    ['long ago', () => ({ deliverAt: '1970-01-01T00:00:00Z' })],
    ['now', () => ({ deliverAt: inMs(0) })],
    ['more than 30 days out', () => ({ deliverAt: inMs(30 * dayMs + 60_000) })],
    ['in the year 9999', () => ({ deliverAt: '9999-12-31T23:59:59Z' })],
    ['combined with preempt', () => ({ deliverAt: inAnHour(), preempt: true })],
  ])('a deliverAt %s is INVALID_ARGUMENT', async (_, more) => {
    const name = await spawned('rehearsal-a');
    expectError(await queue(name, more()), 'INVALID_ARGUMENT', /^(deliverAt|preempt)$/);
    expectOk(await queue(name, { deliverAt: inAnHour(), preempt: false }));
  });
});

describe('conditions of stop-turn', () => {
  test.each(['0', '1', '2'])('with no turn running, runId %s is INVALID_ARGUMENT', async (runId) => {
    const name = await spawned('rehearsal-a');
    const answer = await api.post('/v1/agent/stop-turn', { agentId: agent(name), runId });
    expectError(answer, 'INVALID_ARGUMENT', 'runId');
  });

  test('a runId that is omitted, stale or ahead is INVALID_ARGUMENT, and changes nothing', async () => {
    const name = uniqueName('stop');
    await t.spawn(name);
    await t.turn(name);
    const rested = await t.send('agent/stop-turn', name, { runId: '1' });
    expectError(rested, 'INVALID_ARGUMENT', 'runId');
    await t.queue(name, 'again');
    const claim = await t.start(name);
    for (const runId of [undefined, null, '0', '1', '3', '-2', 0, 1, 3]) {
      for (const mode of ['STOP_TURN_MODE_INTERRUPT', 'STOP_TURN_MODE_KILL']) {
        const answer = await t.send('agent/stop-turn', name, { runId, mode });
        expectError(answer, 'INVALID_ARGUMENT', 'runId');
      }
    }
    expect((await t.status(name)).run).toMatchObject({ runId: '2', state: 'RUNNING' });
    await t.end(claim);
  });
});

describe('conditions of a catalog write', () => {
  test('an ifGenerationMatch that differs is FAILED_PRECONDITION, nothing written', async () => {
    const name = uniqueName('cas');
    expectOk(await postResource(api, 'profile', name, { n: 1 }));
    const answer = await postResource(api, 'profile', name, { n: 2 }, { ifGenerationMatch: '2' });
    expectError(answer, 'FAILED_PRECONDITION');
    expect(await readDocument(api, 'profile', name)).toMatchObject({ generation: '1', document: { n: 1 } });
  });

  test('a negative ifGenerationMatch is INVALID_ARGUMENT', async () => {
    const name = uniqueName('cas');
    const answer = await postResource(api, 'profile', name, {}, { ifGenerationMatch: '-1' });
    expectError(answer, 'INVALID_ARGUMENT', 'ifGenerationMatch');
    expectError(await readResource(api, 'profile', name), 'NOT_FOUND');
  });
});
