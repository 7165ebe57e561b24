import type { AgentStatus, SpawnReply } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { decode, writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inMs, newTestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

describe('64-bit integers', () => {
  test('runCount, runId, sequence, generation and tokens are strings; cleared is a number', async () => {
    const t = await newTestTenant(api);
    await t.rested('ints');
    const record = await t.status('ints');
    expect([record.runCount, record.run?.runId, (await t.runs('ints'))[0]?.runId]).toEqual(['1', '1', '1']);
    expect((await t.runs('ints'))[0]).toMatchObject({
      batch: '1',
      inputTokens: '0',
      cachedInputTokens: '0',
      outputTokens: '0',
    });
    for (const { sequence, runId } of await t.timeline('ints')) {
      expect([sequence, runId]).toEqual([expect.stringMatching(/^\d+$/), expect.stringMatching(/^\d+$/)]);
    }
    const { body } = await api.get<{ generation: string }>(`/v1/catalog/workspace/${t.workspace}`);
    expect(body.generation).toBe('1');
    expect(await t.clear('ints')).toBe(0);
  });

  test.each([['1'], [1]])('%j is read as a 64-bit integer', async (one) => {
    const t = await newTestTenant(api);
    await t.spawn('reads');
    await t.start('reads');
    expect((await t.send('agent/timeline', 'reads', { afterSequence: one })).status).toBe(200);
    expect((await t.send('agent/runs', 'reads', { beforeRunId: one })).status).toBe(200);
    expect((await t.send('agent/stop-turn', 'reads', { runId: one })).status).toBe(200);
    const write = { payload: '', ifGenerationMatch: one };
    expect((await api.post(`/v1/catalog/workspace/${t.workspace}`, write)).status).toBe(200);
  });

  test.each([[1.5], [2 ** 53], ['one'], ['1.0'], ['0x1'], [' 1'], ['1'.repeat(20)], [true], [[1]], [{}]])(
    '%j is not read as a 64-bit integer',
    async (value) => {
      const t = await newTestTenant(api);
      await t.spawn('refuses');
      await t.start('refuses');
      expectError(
        await t.send('agent/timeline', 'refuses', { afterSequence: value }),
        'INVALID_ARGUMENT',
        'afterSequence',
      );
      expectError(await t.send('agent/stop-turn', 'refuses', { runId: value }), 'INVALID_ARGUMENT', 'runId');
    },
  );
});

describe('request fields', () => {
  test('null in a request is the same as absent', async () => {
    const t = await newTestTenant(api);
    const nothing = {
      expectedOutput: null,
      tasks: null,
      agent: null,
      persona: null,
      model: null,
      reasoningEffort: null,
      serviceTier: null,
      fastMode: null,
      outputSchema: null,
    };
    const agentId = {
      tenant: null,
      ownerProvider: null,
      account: null,
      agent: ['nulls'],
      workspace: t.workspace,
    };
    const { status, body, headers } = await api.post<SpawnReply>('/v1/agent/spawn', {
      agentId,
      description: 'x',
      workspace: null,
      ...nothing,
    });
    expect(status, JSON.stringify(body)).toBe(200);
    expect(headers.get('muster-ignored-fields')).toBeNull();
    expect(body.agentId).toMatchObject({ account: 'admin', workspace: t.workspace, agent: ['nulls'] });
    const { expectedOutput, persona, ...messageNothing } = nothing;
    const queued = await t.send('agent/queue', 'nulls', {
      description: 'm',
      followUpId: null,
      preempt: null,
      deliverAt: null,
      ...messageNothing,
    });
    expect(queued.status, JSON.stringify(queued.body)).toBe(200);
    const task = { id: null, subject: 's', description: null, status: null, blocks: null, activation: null };
    expect((await t.send('agent/tasks/create', 'nulls', { tasks: [task] })).status).toBe(200);
    expectError(await t.send('agent/stop-turn', 'nulls', { runId: null }), 'INVALID_ARGUMENT', 'runId');
    expect((await api.post('/v1/agents', { parentId: null, account: null, tenant: null })).status).toBe(200);
  });

  test('unknown fields and query parameters are ignored and named in Muster-Ignored-Fields', async () => {
    const t = await newTestTenant(api);
    await t.spawn('extra');
    const ignored = (answer: { headers: Headers }) =>
      (answer.headers.get('muster-ignored-fields') ?? '').split(/,\s*/).filter(Boolean).sort();
    const known = await t.send('agent/queue', 'extra', { description: 'x' });
    expect(ignored(known)).toEqual([]);
    const top = await t.send('agent/queue', 'extra', { description: 'x', colour: 'red', Description: 'y' });
    expect(top.status).toBe(200);
    expect(ignored(top)).toEqual(['Description', 'colour']);
    const nested = await api.post('/v1/agent/status', { agentId: { ...t.id('extra'), colour: 'red' } });
    expect(nested.status).toBe(200);
    expect(ignored(nested)).toEqual(['agentId.colour']);
    const inTasks = await t.send('agent/tasks/create', 'extra', { tasks: [{ subject: 's', colour: 'red' }] });
    expect(inTasks.status).toBe(200);
    expect(ignored(inTasks)).toEqual([expect.stringMatching(/^tasks.*colour$/)]);
    const query = await api.get('/v1/whoami?colour=red');
    expect(query.status).toBe(200);
    expect(ignored(query)).toEqual(['colour']);
  });

  test('a refused request names the fields that were ignored too', async () => {
    const answer = await api.post('/v1/agent/status', { agentId: { agent: ['nobody'] }, colour: 'red' });
    expectError(answer, 'NOT_FOUND');
    expect(answer.headers.get('muster-ignored-fields')).toBe('colour');
  });

  test.each<[field: string | RegExp, body: Record<string, unknown>]>([
    ['description', { description: 7 }],
    ['fastMode', { fastMode: 'yes' }],
    ['tasks', { tasks: {} }],
    [/^tasks/, { tasks: ['x'] }],
    ['agentId', { agentId: 'name' }],
    [/^agentId\.agent/, { agentId: { agent: 'name' } }],
  ])('a known field with a wrong type is refused: %s', async (field, body) => {
    expectError(await api.post('/v1/agent/spawn', body), 'INVALID_ARGUMENT', field);
  });

  test('spawn reads `persona` as `agent`, and a top-level `workspace` as the agentId’s', async () => {
    const answer = await api.post<SpawnReply>('/v1/agent/spawn', {
      agentId: { agent: ['aliased'] },
      description: 'x',
      persona: 'reviewer',
      workspace: 'alias-ws',
    });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('muster-ignored-fields')).toBeNull();
    expect(answer.body.agentId.workspace).toBe('alias-ws');
    const { body } = await api.post<AgentStatus>('/v1/agent/status', { agentId: answer.body.agentId });
    expect(body.persona).toBe('reviewer');
    expectError(
      await api.post('/v1/agent/spawn', { persona: 'nobody' }),
      'INVALID_ARGUMENT',
      /^(agent|persona)$/,
    );
    expectError(
      await api.post('/v1/agent/spawn', { workspace: '..' }),
      'INVALID_ARGUMENT',
      /^(agentId\.)?workspace$/,
    );
  });

  test('an empty body on POST is the same as {}', async () => {
    const headers = { authorization: `Bearer ${server.key}` };
    const list = await fetch(`${server.url}/v1/agents`, { method: 'POST', headers });
    expect(list.status).toBe(200);
    const typed = await fetch(`${server.url}/v1/agent/spawn`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: '',
    });
    expect(typed.status).toBe(200);
    const status = await fetch(`${server.url}/v1/agent/status`, { method: 'POST', headers });
    expect(status.status).toBe(400);
  });

  test('times are read in every RFC 3339 form and written as date-time strings', async () => {
    const t = await newTestTenant(api);
    await t.spawn('times');
    const at = new Date(Date.now() + 3_600_000);
    const local = new Date(at.getTime() + 2 * 3_600_000).toISOString().replace(/\.\d+Z$/, '+02:00');
    await t.queue('times', { description: 'x', deliverAt: local });
    const [followUp] = (await t.status('times')).followUps;
    expect(Date.parse(followUp?.deliverAt ?? '')).toBe(Math.floor(at.getTime() / 1000) * 1000);
    for (const deliverAt of ['tomorrow', '2027-01-01', 1_900_000_000, inMs(60_000).replace('T', ' at ')]) {
      expectError(
        await t.send('agent/queue', 'times', { description: 'x', deliverAt }),
        'INVALID_ARGUMENT',
        'deliverAt',
      );
    }
  });

  test('binary values are base64 strings', async () => {
    await writeResource(api, 'environment', 'encoded', { note: '±' });
    const { body } = await api.get<{ payload: string }>('/v1/catalog/environment/encoded');
    expect(decode(body.payload)).toMatchObject({ note: '±' });
  });
});
