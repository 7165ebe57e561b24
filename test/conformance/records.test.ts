import {
  type AgentEntry,
  type AgentStatus,
  agentStatus,
  listEntry,
  type SpawnReply,
  spawnReply,
  type Task,
  task,
  whoamiReply,
} from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { version } from '../../packages/service/src/lib/version.ts';
import { apiWithNewKey } from '../support/catalog.ts';
import { schemaProblem } from '../support/contract-schemas.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const uuid = expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/);
const words = (text: string) => text.split(' ').sort();
const fieldsOf = (record: object | null | undefined) => Object.keys(record ?? {}).sort();
const agentIdFields = words('tenant ownerProvider account agent workspace');

const taskFields = words(
  'id subject description status blocks blockedBy activation persona dedupKey ephemeral',
);

const tokenFields = 'inputTokens cachedInputTokens outputTokens totalTokens';
const runFields = 'runId state outcome startedAt endedAt runnerId account followUpIds';

const entryFields = words(
  `agentId phase cost progressAt repos dashboardUrl ${tokenFields} needsInput phaseReason phaseSince wakesAt model runCount createdAt childCount treeCost budgets sequence description persona rehearsed sandboxed queued error unpushed checkpointAt changeRequests labels seen pinned news currentAction taskCount tasksDone`,
);

const statusFields = words(
  `agentId phase phaseReason phaseSince needsInput wakesAt runCount run description expectedOutput response structuredOutput outputSchema persona model backend pool rehearsed sandboxed reasoningEffort serviceTier fastMode tasks plan context followUps children repos branch diffStat unpushed checkpointAt changeRequests cost treeCost budgets ${tokenFields} progressAt createdAt endedAt error dashboardUrl labels timedOut`,
);

async function entryOf(agentId: object): Promise<AgentEntry> {
  const { body } = await api.post<{ entries: AgentEntry[] }>('/v1/agents', {
    includeTerminal: true,
    account: '*',
  });
  const entry = body.entries.find((e) => JSON.stringify(e.agentId) === JSON.stringify(agentId));
  if (!entry) throw new Error('the agent is not in the list');
  return entry;
}

describe('tasks', () => {
  test('a task has ten fields, with defaults for those not sent', async () => {
    const t = await newTestTenant(api);
    await t.spawn('t', { tasks: [{ id: 'bare' }] });
    expect(await t.tasks('t')).toEqual([
      {
        id: 'bare',
        subject: '',
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
    expect((await t.status('t')).tasks).toEqual(await t.tasks('t'));
  });

  test('a task has the values that were sent', async () => {
    const t = await newTestTenant(api);
    const sent = {
      id: 'whole',
      subject: 'Subject',
      description: 'Description',
      status: 'TASK_STATUS_IN_PROGRESS',
      activation: { filesModified: { pattern: 'src/**/*.ts' } },
      dedupKey: 'thread-7',
      ephemeral: true,
    };
    await t.spawn('t', { tasks: [sent] });
    const [kept] = await t.tasks('t');
    expect(kept).toEqual({ ...sent, blocks: [], blockedBy: [], persona: '' });
    expect(fieldsOf(kept)).toEqual(taskFields);
    expect(schemaProblem(task, kept)).toBeUndefined();
  });

  test.each<[what: string, activation: unknown, kept: Task['activation']]>([
    ['absent', undefined, null],
    ['null', null, null],
    ['without a condition', {}, null],
    ['of any file', { filesModified: {} }, { filesModified: { pattern: '' } }],
    ['of a pattern', { filesModified: { pattern: '*.md' } }, { filesModified: { pattern: '*.md' } }],
  ])('an activation %s', async (_what, activation, kept) => {
    const t = await newTestTenant(api);
    await t.spawn('t', { tasks: [{ id: 'a', activation }] });
    expect((await t.tasks('t'))[0]?.activation).toEqual(kept);
  });

  test('the status of a new task is PENDING by default', async () => {
    const t = await newTestTenant(api);
    await t.spawn('t', { tasks: [{ id: 'u', status: 'TASK_STATUS_UNSPECIFIED' }] });
    expect((await t.tasks('t'))[0]?.status).toBe('TASK_STATUS_PENDING');
    expectError(
      await t.send('agent/tasks/create', 't', { tasks: [{ status: 'PENDING' }] }),
      'INVALID_ARGUMENT',
      /^tasks.*status/,
    );
  });
});

describe('replies', () => {
  test('spawn returns agentId, phase, runCount and dashboardUrl', async () => {
    const { status, body } = await api.post<SpawnReply>('/v1/agent/spawn', {
      agentId: { agent: ['shape-spawn'] },
      description: 'x',
    });
    expect(status).toBe(200);
    expect(fieldsOf(body)).toEqual(words('agentId phase runCount dashboardUrl'));
    expect(fieldsOf(body.agentId)).toEqual(agentIdFields);
    expect(body).toMatchObject({ phase: 'PHASE_PENDING', runCount: '0' });
    expect(schemaProblem(spawnReply, body)).toBeUndefined();
  });

  test('the status of a new agent has every field, defaults included', async () => {
    const t = await newTestTenant(api);
    const { agentId, dashboardUrl } = await t.spawn('new', { description: 'do it', expectedOutput: 'done' });
    const record = await t.status('new');
    expect(fieldsOf(record)).toEqual(statusFields);
    expect(schemaProblem(agentStatus, record)).toBeUndefined();
    const { phaseReason, ...rest } = record;
    expect(rest).toEqual({
      agentId,
      phase: 'PHASE_PENDING',
      phaseSince: time,
      needsInput: '',
      wakesAt: null,
      runCount: '0',
      run: null,
      description: 'do it',
      expectedOutput: 'done',
      response: '',
      structuredOutput: null,
      outputSchema: '',
      persona: expect.any(String),
      model: 'rehearsal-a',
      backend: 'BACKEND_A',
      pool: expect.any(String),
      rehearsed: true,
      sandboxed: true,
      reasoningEffort: '',
      serviceTier: '',
      fastMode: false,
      tasks: [],
      plan: null,
      context: null,
      followUps: [],
      children: [],
      repos: [],
      branch: '',
      diffStat: null,
      unpushed: null,
      checkpointAt: null,
      changeRequests: [],
      cost: 0,
      treeCost: 0,
      budgets: [],
      inputTokens: '0',
      cachedInputTokens: '0',
      outputTokens: '0',
      totalTokens: '0',
      progressAt: record.createdAt,
      createdAt: time,
      endedAt: null,
      error: null,
      dashboardUrl,
      labels: {},
      timedOut: false,
    });
    expect(new URL(dashboardUrl).protocol).toMatch(/^https?:$/);
  });

  test('the run in a status has every field', async () => {
    const t = await newTestTenant(api);
    await t.spawn('r');
    const followUpId = await t.queue('r', 'also');
    const claim = await t.start('r');
    await t.report(claim, { currentAction: 'reading' });
    const working = await t.status('r');
    expect(fieldsOf(working.run)).toEqual(words(`${runFields} currentAction`));
    expect(working.run).toEqual({
      runId: '1',
      state: 'RUNNING',
      outcome: '',
      startedAt: time,
      endedAt: null,
      runnerId: expect.stringMatching(/./),
      account: '',
      followUpIds: [followUpId],
      currentAction: 'reading',
    });
    await t.end(claim, 'COMPLETED', { response: 'read' });
    const rested = await t.status('r');
    expect(rested).toMatchObject({ runCount: '1', response: 'read' });
    expect(rested.run).toMatchObject({ runId: '1', state: 'ENDED', outcome: 'COMPLETED', endedAt: time });
    expect(schemaProblem(agentStatus, rested)).toBeUndefined();
  });

  test('the undelivered follow-ups are in the status, in order, with the settings they bring', async () => {
    const t = await newTestTenant(api);
    await t.spawn('f');
    await t.start('f');
    const deliverAt = inAnHour();
    await t.queue('f', { followUpId: 'plain', description: 'one' });
    await t.queue('f', {
      followUpId: 'settings',
      agent: 'reviewer',
      model: 'claude-x',
      reasoningEffort: 'low',
      fastMode: false,
      outputSchema: '{"type":"object"}',
    });
    await t.queue('f', { followUpId: 'later', description: 'three', deliverAt });
    const { followUps } = await t.status('f');
    const bare = {
      agent: '',
      model: '',
      reasoningEffort: '',
      serviceTier: '',
      fastMode: null,
      outputSchema: '',
      attachmentIds: [],
      steer: false,
      truncated: false,
    };
    const queued = followUps.filter(({ state }) => state === 'QUEUED');
    expect(queued).toEqual([
      { ...bare, followUpId: 'plain', state: 'QUEUED', description: 'one', deliverAt: null, queuedAt: time },
      {
        ...bare,
        followUpId: 'settings',
        state: 'QUEUED',
        description: '',
        deliverAt: null,
        queuedAt: time,
        agent: 'reviewer',
        model: 'claude-x',
        reasoningEffort: 'low',
        fastMode: false,
        outputSchema: '{"type":"object"}',
      },
    ]);
    const deferred = followUps.filter(({ state }) => state === 'DEFERRED');
    expect(deferred).toEqual([
      {
        ...bare,
        followUpId: 'later',
        state: 'DEFERRED',
        description: 'three',
        deliverAt: time,
        queuedAt: time,
      },
    ]);
    expect(Date.parse(deferred[0]?.deliverAt ?? '')).toBe(Date.parse(deliverAt));
  });

  test('a follow-up’s id is the client’s or a generated UUID, in status and timeline', async () => {
    const t = await newTestTenant(api);
    await t.spawn('ids');
    await t.start('ids');
    expect(await t.queue('ids', { description: 'mine', followUpId: 'my-id' })).toBe('my-id');
    const minted = await t.queue('ids', 'theirs');
    expect(minted).toEqual(uuid);
    expect((await t.status('ids')).followUps.map((f) => f.followUpId)).toEqual(['my-id', minted]);
    const queued = await t.timeline('ids', 'FOLLOW_UP_QUEUED');
    expect(queued.map((entry) => entry.followUpId)).toEqual(['my-id', minted]);
  });

  test('tokens and cost add up; a tree’s cost includes the children’s', async () => {
    const t = await newTestTenant(api);
    await t.spawn('cost');
    await t.spawn('cost/child');
    const usage = { inputTokens: 100, cachedInputTokens: 0, outputTokens: 20, costUsd: 0.25 };
    const parent = await t.start('cost');
    await t.report(parent, { usage });
    await t.report(parent, { usage: { ...usage, cachedInputTokens: 7 } });
    await t.report(await t.start('cost/child'), { usage: { ...usage, costUsd: 1 } });
    const child = await t.status('cost/child');
    expect(child).toMatchObject({ cost: 1, treeCost: 1, totalTokens: '120' });
    const expected = {
      cost: 0.5,
      treeCost: 1.5,
      inputTokens: '200',
      cachedInputTokens: '7',
      outputTokens: '40',
      totalTokens: expect.stringMatching(/^\d+$/),
    };
    const record = await t.status('cost');
    expect(record).toMatchObject(expected);
    expect(await entryOf(record.agentId)).toMatchObject({ ...expected, childCount: 1 });
    expect(Date.parse(record.progressAt)).toBeGreaterThanOrEqual(Date.parse(record.createdAt));
  });

  test('wait returns the same record as status', async () => {
    const t = await newTestTenant(api);
    await t.rested('same');
    const { status, body } = await t.send<AgentStatus>('agent/wait', 'same');
    expect(status).toBe(200);
    expect(body).toEqual(await t.status('same'));
  });

  test('a list entry has every field', async () => {
    const t = await newTestTenant(api);
    const { agentId, dashboardUrl } = await t.spawn('entry');
    const entry = await entryOf(agentId);
    expect(fieldsOf(entry)).toEqual(entryFields);
    expect(schemaProblem(listEntry, entry)).toBeUndefined();
    const { phaseReason, ...rest } = entry;
    expect(rest).toEqual({
      agentId,
      labels: {},
      phase: 'PHASE_PENDING',
      cost: 0,
      progressAt: entry.createdAt,
      repos: [],
      changeRequests: [],
      dashboardUrl,
      inputTokens: '0',
      cachedInputTokens: '0',
      outputTokens: '0',
      totalTokens: '0',
      needsInput: '',
      phaseSince: time,
      wakesAt: null,
      model: 'rehearsal-a',
      runCount: '0',
      createdAt: time,
      childCount: 0,
      news: '',
      currentAction: '',
      taskCount: 0,
      tasksDone: 0,
      treeCost: 0,
      budgets: [],
      sequence: (await t.timeline('entry')).at(-1)?.sequence,
      seen: '0',
      pinned: false,
      description: (await t.status('entry')).description,
      persona: 'default',
      rehearsed: true,
      sandboxed: true,
      queued: 0,
      error: '',
      unpushed: null,
      checkpointAt: null,
    });
  });

  test('an entry’s needsInput is the question; its phase and wakesAt are those of the status', async () => {
    const t = await newTestTenant(api);
    const { agentId } = await t.spawn('asks');
    await t.turn('asks', { question: 'Which one?' });
    await t.queue('asks', { description: 'later', deliverAt: inAnHour() });
    const record = await t.status('asks');
    const { phase, phaseReason, phaseSince, needsInput, wakesAt, runCount, progressAt } = record;
    expect(await entryOf(agentId)).toMatchObject({
      phase,
      phaseReason,
      phaseSince,
      needsInput,
      wakesAt,
      runCount,
      progressAt,
    });
    expect(needsInput).toBe('Which one?');
  });

  test('whoami returns tenant, ownerProvider, account, keyId, role, expiresAt and version', async () => {
    const { status, body } = await api.get('/v1/whoami');
    expect(status).toBe(200);
    expect(body).toEqual({
      tenant: server.tenant,
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'admin',
      keyId: server.key.slice('mst_'.length).split('.')[0],
      role: 'admin',
      expiresAt: null,
      version,
    });
    expect(schemaProblem(whoamiReply, body)).toBeUndefined();
    const expiresAt = inAnHour();
    const member = await apiWithNewKey(api, { role: 'member', account: 'ann', expiresAt });
    const { body: ann } = await member.get<{ expiresAt: string }>('/v1/whoami');
    expect(ann).toMatchObject({ account: 'ann', role: 'member', expiresAt: time });
    expect(Date.parse(ann.expiresAt)).toBe(Date.parse(expiresAt));
  });

  test('queue, remove, clear, stop-turn and kill reply with exactly their fields', async () => {
    const t = await newTestTenant(api);
    await t.spawn('exact');
    await t.start('exact');
    const { body: queued } = await t.send('agent/queue', 'exact', { description: 'x' });
    expect(queued).toEqual({ followUpId: uuid, state: 'QUEUED', wakesAt: null });
    const { body: removed } = await t.send('agent/queue/remove', 'exact', { followUpId: queued.followUpId });
    expect(removed).toEqual({ removed: true });
    expect((await t.send('agent/clear-follow-ups', 'exact')).body).toEqual({ cleared: 0 });
    expect((await t.send('agent/stop-turn', 'exact', { runId: '1' })).body).toEqual({});
    expect((await t.send('agent/kill', 'exact')).body).toEqual({});
  });

  test('the diff of an agent without repos is empty', async () => {
    const t = await newTestTenant(api);
    await t.spawn('diff');
    const { status, body } = await t.send('agent/diff', 'diff');
    expect({ status, body }).toEqual({
      status: 200,
      body: { branch: '', diffStat: null, diff: '', workingTree: null },
    });
  });

  test('replies are application/json', async () => {
    for (const answer of [
      await api.get('/v1/whoami'),
      await api.post('/v1/agents'),
      await api.get('/v1/no'),
    ]) {
      expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
    }
  });
});
