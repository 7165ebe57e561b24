import type { AgentStatus, RouteName, TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { agent, statusOf } from '../support/api.ts';
import { decode, encode, postResource, readResource, uniqueName, writeResource } from '../support/catalog.ts';
import { replySchemaProblem, routeEntries } from '../support/contract-schemas.ts';
import { expectError, expectOk, ignoredFields } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });
const t = await newTestTenant(api);

async function spawned(more: Record<string, unknown> = {}): Promise<string> {
  const name = uniqueName('wire');
  expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'work', ...more }));
  return name;
}

/** An agent whose run 1 is RUNNING. */
async function running(): Promise<{ agentId: ReturnType<TestTenant['id']>; end: () => Promise<unknown> }> {
  const name = uniqueName('running');
  await t.spawn(name);
  const claim = await t.start(name);
  return { agentId: t.id(name), end: () => t.runner.end(claim) };
}

const statusById = async (agentId: unknown): Promise<AgentStatus> =>
  expectOk(await api.post<AgentStatus>('/v1/agent/status', { agentId }));

describe('media type, names, enums, times, binary values', () => {
  test('a reply is application/json, and so is an error', async () => {
    const answers = [
      await api.get('/v1/whoami'),
      await api.post('/v1/agent/status', { agentId: agent('no') }),
    ];
    for (const answer of answers) {
      expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
    }
  });

  test('every field name of a reply is lowerCamelCase', async () => {
    const name = await spawned({ tasks: [{ subject: 'one' }] });
    const names = new Set<string>();
    const collect = (value: unknown): void => {
      if (Array.isArray(value)) for (const item of value) collect(item);
      else if (value !== null && typeof value === 'object') {
        for (const [key, inner] of Object.entries(value)) {
          names.add(key);
          collect(inner);
        }
      }
    };
    collect((await api.get('/v1/whoami')).body);
    collect(await statusOf(api, name));
    collect((await api.post('/v1/agents', {})).body);
    collect((await api.post('/v1/agent/timeline', { agentId: agent(name) })).body);
    collect((await api.get('/v1/catalog/persona')).body);
    for (const field of names) expect(field).toMatch(/^[a-z][A-Za-z0-9]*$/);
  });

  test('enums are the names of their values', async () => {
    const name = await spawned({ tasks: [{ subject: 'one' }] });
    const status = await statusOf(api, name);
    expect(status.phase).toBe('PHASE_PENDING');
    expect(status.agentId.ownerProvider).toBe('PROVIDER_CODEHOST_OAUTH');
    expect(status.agentId.tenant.provider).toBe('PROVIDER_CODEHOST_APP');
    expect(status.tasks[0]?.status).toBe('TASK_STATUS_PENDING');
    expect((await readResource(api, 'persona', 'default')).body.inputFormat).toBe('INPUT_FORMAT_MARKDOWN');
  });

  test.each([
    ['a number', 1],
    ['another case', 'provider_codehost_app'],
    ['an unknown name', 'PROVIDER_OTHER'],
  ])('an enum given as %s is INVALID_ARGUMENT', async (_, provider) => {
    const answer = await api.post('/v1/agents', { tenant: { provider } });
    expectError(answer, 'INVALID_ARGUMENT', 'tenant.provider');
  });

  test('timestamps are RFC 3339 date-times', async () => {
    const status = await statusOf(api, await spawned());
    for (const time of [status.createdAt, status.phaseSince, status.progressAt]) {
      expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/);
    }
  });

  test.each([
    ['an offset', (at: Date) => at.toISOString().replace('Z', '+00:00')],
    ['UTC', (at: Date) => at.toISOString()],
    ['no fraction', (at: Date) => at.toISOString().replace(/\.\d+Z/, 'Z')],
  ])('a timestamp with %s is read', async (_, spell) => {
    const name = await spawned();
    const deliverAt = new Date(Math.ceil(Date.now() / 1000) * 1000 + 3_600_000);
    const body = { agentId: agent(name), description: 'later', deliverAt: spell(deliverAt) };
    expectOk(await api.post('/v1/agent/queue', body));
    const { followUps } = await statusOf(api, name);
    expect(new Date(followUps[0]?.deliverAt ?? 0)).toEqual(deliverAt);
  });

  test.each(['tomorrow', '2026-13-01T00:00:00Z', '2099-01-01', 1893456000])(
    '%j is not a timestamp',
    async (deliverAt) => {
      const body = { agentId: agent(await spawned()), description: 'x', deliverAt };
      expectError(await api.post('/v1/agent/queue', body), 'INVALID_ARGUMENT', 'deliverAt');
    },
  );

  test('binary values are base64', async () => {
    const { body } = await readResource(api, 'persona', 'default');
    expect(body.payload).toMatch(/^[A-Za-z0-9+/]+={0,2}$/);
    expect(decode(body.payload)).toMatchObject({ name: 'default' });
  });

  test('agent-scoped operations are POST with agentId in the body, reads too', () => {
    // Streams are also GET routes, for EventSource. The body of an upload is the file.
    const scoped = routeEntries.filter(
      ([name, route]) =>
        route.path.startsWith('/v1/agent/') && !name.endsWith('ByGet') && !('upload' in route),
    );
    expect(scoped.length).toBeGreaterThan(10);
    for (const [, { method, body }] of scoped) {
      expect(method).toBe('POST');
      expect(body?.properties).toHaveProperty('agentId');
    }
  });
});

describe('64-bit integers', () => {
  test('runCount, runId, generation, sequence and token counts are written as strings', async () => {
    const { agentId, end } = await running();
    const status = await statusById(agentId);
    const digits = expect.stringMatching(/^\d+$/);
    expect(status).toMatchObject({
      runCount: '1',
      run: { runId: '1' },
      inputTokens: digits,
      cachedInputTokens: digits,
      outputTokens: digits,
      totalTokens: digits,
    });
    const { entries } = expectOk(
      await api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', { agentId }),
    );
    for (const entry of entries) expect(entry).toMatchObject({ sequence: digits, runId: digits });
    expect((await postResource(api, 'profile', uniqueName('int64'), {})).body.generation).toBe('1');
    await end();
  });

  test('cleared is a number', async () => {
    const agentId = agent(await spawned());
    expectOk(await api.post('/v1/agent/queue', { agentId, description: 'one' }));
    const answer = await api.post('/v1/agent/clear-follow-ups', { agentId });
    expect(answer.body).toEqual({ cleared: 1 });
  });

  test.each([
    ['a string', '1'],
    ['a JSON number', 1],
  ])('stop-turn reads runId as %s', async (_, runId) => {
    const { agentId, end } = await running();
    expectOk(await api.post('/v1/agent/stop-turn', { agentId, runId }));
    expect((await statusById(agentId)).run?.state).toBe('STOPPING');
    await end();
  });

  test.each([
    ['a string', '0'],
    ['a JSON number', 0],
  ])('a write reads ifGenerationMatch as %s', async (_, ifGenerationMatch) => {
    const name = uniqueName('int64');
    const created = await postResource(api, 'profile', name, {}, { ifGenerationMatch });
    expect(expectOk(created).generation).toBe('1');
    expectError(await postResource(api, 'profile', name, {}, { ifGenerationMatch }), 'FAILED_PRECONDITION');
  });

  test.each([
    ['a string', '1'],
    ['a JSON number', 1],
  ])('the timeline reads afterSequence as %s', async (_, afterSequence) => {
    const name = await spawned();
    const { entries } = expectOk(
      await api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
        agentId: agent(name),
        afterSequence,
      }),
    );
    expect(entries.map((e) => e.sequence)).not.toContain('1');
  });

  test('the largest 64-bit integer is accepted', async () => {
    const more = { ifGenerationMatch: '9223372036854775807' };
    expectError(await postResource(api, 'profile', uniqueName('int64'), {}, more), 'FAILED_PRECONDITION');
  });

  test.each([
    ['a number that is not a safe integer', '9007199254740993'],
    ['a number with a fraction', '1.5'],
    ['a number too large for any type', '1e400'],
    ['a boolean', 'true'],
    ['an object', '{}'],
    ['an array', '["1"]'],
    ['an empty string', '""'],
    ['a word', '"one"'],
    ['a fraction in a string', '"1.5"'],
    ['an exponent in a string', '"1e3"'],
    ['a hexadecimal string', '"0x1"'],
    ['a padded string', '" 1"'],
    ['a string with a plus', '"+1"'],
    ['NaN in a string', '"NaN"'],
    ['one more than the largest', '"9223372036854775808"'],
    ['twenty digits', '"10000000000000000000"'],
  ])('%s is not a 64-bit integer', async (_, literal) => {
    const written = await api.post(
      `/v1/catalog/profile/${uniqueName('int64')}`,
      `{"ifGenerationMatch":${literal}}`,
    );
    expectError(written, 'INVALID_ARGUMENT', 'ifGenerationMatch');
    const name = await spawned();
    const stop = `{"agentId":{"agent":["${name}"]},"runId":${literal}}`;
    expectError(await api.post('/v1/agent/stop-turn', stop), 'INVALID_ARGUMENT', 'runId');
  });
});

describe('absent fields and null', () => {
  test('a status carries every documented field, with its default', async () => {
    const name = await spawned({ model: 'rehearsal-b' });
    const status = await statusOf(api, name);
    expect(replySchemaProblem('status', status)).toBeUndefined();
    expect(status).toMatchObject({
      needsInput: '',
      wakesAt: null,
      runCount: '0',
      run: null,
      expectedOutput: '',
      response: '',
      structuredOutput: null,
      outputSchema: '',
      reasoningEffort: '',
      serviceTier: '',
      fastMode: false,
      tasks: [],
      followUps: [],
      children: [],
      repos: [],
      diffStat: null,
      changeRequests: [],
      cost: 0,
      treeCost: 0,
      budgets: [],
      inputTokens: '0',
      cachedInputTokens: '0',
      outputTokens: '0',
      totalTokens: '0',
      endedAt: null,
      error: null,
    } satisfies Partial<AgentStatus>);
  });

  test('a task in a reply carries every field', async () => {
    const name = await spawned({ tasks: [{ subject: 'bare' }] });
    expect((await statusOf(api, name)).tasks).toEqual([
      {
        id: expect.stringMatching(/./),
        subject: 'bare',
        description: '',
        status: 'TASK_STATUS_PENDING',
        blocks: [],
        blockedBy: [],
        activation: null,
        persona: '',
        dedupKey: '',
        ephemeral: false,
      },
    ]);
  });

  test('every reply matches its schema, defaults included', async () => {
    const name = await spawned({ tasks: [{ id: 't', subject: 'one' }] });
    const agentId = agent(name);
    expectOk(await api.post('/v1/agent/queue', { agentId, description: 'x', followUpId: 'f' }));
    const persona = uniqueName('fits');
    const path = `/v1/catalog/persona/${persona}`;
    const schedule = uniqueName('fits');
    await writeResource(api, 'trigger', schedule, { agentId, message: 'x' });
    await writeResource(api, 'notification', schedule, {});
    await writeResource(api, 'schedule', schedule, { cron: '0 7 1 1 *', agentId, message: 'x' });
    const replies: [RouteName, unknown][] = [
      ['whoami', expectOk(await api.get('/v1/whoami'))],
      ['status', expectOk(await api.post('/v1/agent/status', { agentId }))],
      ['list', expectOk(await api.post('/v1/agents', {}))],
      ['timeline', expectOk(await api.post('/v1/agent/timeline', { agentId }))],
      ['runs', expectOk(await api.post('/v1/agent/runs', { agentId }))],
      ['diff', expectOk(await api.post('/v1/agent/diff', { agentId }))],
      ['tasks', expectOk(await api.post('/v1/agent/tasks', { agentId }))],
      ['createTasks', expectOk(await api.post('/v1/agent/tasks/create', { agentId, tasks: [{ id: 'u' }] }))],
      [
        'updateTask',
        expectOk(await api.post('/v1/agent/tasks/update', { agentId, id: 't', subject: 'two' })),
      ],
      [
        'createReview',
        expectOk(
          await api.post('/v1/agent/threads/create', { agentId, comments: [{ path: 'a.ts', body: 'x' }] }),
        ),
      ],
      ['threads', expectOk(await api.post('/v1/agent/threads', { agentId }))],
      ['listFollowUps', expectOk(await api.post('/v1/agent/queue/list', { agentId }))],
      ['followUp', expectOk(await api.post('/v1/agent/queue/get', { agentId, followUpId: 'f' }))],
      ['removeFollowUp', expectOk(await api.post('/v1/agent/queue/remove', { agentId, followUpId: 'f' }))],
      ['clearFollowUps', expectOk(await api.post('/v1/agent/clear-follow-ups', { agentId }))],
      ['orderQueue', expectOk(await api.post('/v1/agent/queue/order', { agentId }))],
      ['queue', expectOk(await api.post('/v1/agent/queue', { agentId, description: 'y' }))],
      ['budgets', expectOk(await api.post('/v1/budgets', {}))],
      ['scheduleHistory', expectOk(await api.post('/v1/schedule/history', { name: schedule }))],
      ['listTriggerDeliveries', expectOk(await api.post('/v1/trigger/deliveries', { name: schedule }))],
      ['testTrigger', expectOk(await api.post('/v1/trigger/test', { name: schedule }))],
      ['testNotification', expectOk(await api.post('/v1/notification/test', { name: schedule }))],
      [
        'listNotificationDeliveries',
        expectOk(await api.post('/v1/notification/deliveries', { name: schedule })),
      ],
      ['runSchedule', expectOk(await api.post('/v1/schedule/run', { name: schedule }))],
      ['usage', expectOk(await api.post('/v1/usage', { groupBy: ['agent'] }))],
      ['setBudget', expectOk(await api.post('/v1/agent/budget', { agentId, budgetUsd: 5 }))],
      ['kill', expectOk(await api.post('/v1/agent/kill', { agentId }))],
      ['wait', expectOk(await api.post('/v1/agent/wait', { agentId }))],
      ['markAgents', expectOk(await api.post('/v1/agents/marks', { marks: [{ agentId, seen: 1 }] }))],
      ['waitMany', expectOk(await api.post('/v1/agents/wait', { agentIds: [agentId] }))],
      [
        'spawn',
        expectOk(await api.post('/v1/agent/spawn', { agentId: agent(uniqueName('fits')), description: 'x' })),
      ],
      ['writeResource', expectOk(await api.post(path, { payload: encode({}) }))],
      ['readResource', expectOk(await api.get(path))],
      ['listResources', expectOk(await api.get('/v1/catalog/persona'))],
      ['resourceHistory', expectOk(await api.get(`${path}/history`))],
      ['deleteResource', expectOk(await api.del(path))],
    ];
    for (const [route, body] of replies) expect(replySchemaProblem(route, body), route).toBeUndefined();
  });

  test('stop-turn and kill answer an empty object', async () => {
    const { agentId, end } = await running();
    const stop = await api.post('/v1/agent/stop-turn', { agentId, runId: '1' });
    expect([stop.status, stop.body]).toEqual([200, {}]);
    const kill = await api.post('/v1/agent/kill', { agentId });
    expect([kill.status, kill.body]).toEqual([200, {}]);
    await end();
  });

  test('null in a request is the same as absent, at every level', async () => {
    const name = uniqueName('null');
    const agentId = { tenant: null, ownerProvider: null, account: null, agent: [name], workspace: null };
    const settings = {
      agent: null,
      model: null,
      reasoningEffort: null,
      serviceTier: null,
      fastMode: null,
      outputSchema: null,
    };
    const nothing = Object.fromEntries(Object.keys(settings).map((key) => [key, null]));
    const spawn = await api.post('/v1/agent/spawn', {
      agentId,
      description: 'x',
      expectedOutput: null,
      tasks: null,
      persona: null,
      workspace: null,
      ...nothing,
    });
    expect(expectOk(spawn)).toMatchObject({
      agentId: { agent: [name], account: 'admin', workspace: 'default' },
    });
    expect(ignoredFields(spawn)).toEqual([]);
    const queued = await api.post<{ followUpId: string }>('/v1/agent/queue', {
      agentId: { ...agentId, tenant: { provider: null, org: null } },
      description: 'y',
      tasks: null,
      followUpId: null,
      preempt: null,
      deliverAt: null,
      ...nothing,
    });
    expect(expectOk(queued).followUpId).toMatch(/^[0-9a-f-]{36}$/);
    expectOk(
      await api.post('/v1/agents', {
        parentId: null,
        account: null,
        includeTerminal: null,
        tenant: null,
        workspace: null,
        phases: null,
        text: null,
        pageSize: null,
        pageToken: null,
      }),
    );
    const task = { id: 'n', subject: null, status: null, blocks: null, activation: null, ephemeral: null };
    expectOk(await api.post('/v1/agent/tasks/create', { agentId, tasks: [task] }));
    expectOk(await api.post('/v1/agent/timeline', { agentId, afterSequence: null, limit: null }));
    const written = await api.post(`/v1/catalog/profile/${uniqueName('null')}`, {
      ref: null,
      payload: null,
      updateMask: null,
      justification: null,
      ifGenerationMatch: null,
    });
    expect(expectOk(written)).toMatchObject({ generation: '1' });
  });

  test('null in a required field is refused like a missing field', async () => {
    const agentId = agent(await spawned());
    for (const body of [{ agentId }, { agentId, runId: null }]) {
      expectError(await api.post('/v1/agent/stop-turn', body), 'INVALID_ARGUMENT', 'runId');
    }
  });
});
