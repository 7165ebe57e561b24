import type { AgentEntry, TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Fields, requestsById } from '../support/agents.ts';
import { writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const caller = () => ({
  tenant: server.tenant,
  ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
  account: 'admin',
});

const { spawn, status, kill, spawned } = requestsById(api);

describe('the workspace', () => {
  test('an empty workspace at spawn is `default` for a root and the parent’s for a child', async () => {
    expect((await spawned({ workspace: '', agent: ['ws-root'] })).workspace).toBe('default');
    await spawned({ workspace: 'ws-of-parent', agent: ['ws-parent'] });
    expect((await spawned({ agent: ['ws-parent', 'c'] })).workspace).toBe('ws-of-parent');
    expect((await spawned({ agent: ['ws-parent', 'c', 'd'] })).workspace).toBe('ws-of-parent');
  });

  test('a workspace name without a resource is a plain workspace with no repos', async () => {
    await spawned({ workspace: 'plain', agent: ['in-plain'] });
    const { body } = await status({ agent: ['in-plain'] });
    expect(body).toMatchObject({ agentId: { workspace: 'plain' }, repos: [] });
  });

  test('the spawn reply and the timeline warn about a workspace name without a resource, every time', async () => {
    const said = 'The workspace "nowhere" has no resource in the catalog: the agent has no repository.';
    const request = { agentId: { workspace: 'nowhere', agent: ['in-nowhere'] }, description: 'x' };
    for (const _ of ['first', 'again']) {
      const answer = await api.post('/v1/agent/spawn', request, { 'idempotency-key': 'nowhere' });
      expectOk(answer);
      expect(answer.headers.get('muster-warning')).toBe(said);
    }
    const { body } = await api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
      agentId: request.agentId,
    });
    expect(body.entries.filter(({ type }) => type === 'WARNING').map(({ text }) => text)).toEqual([said]);
    await writeResource(api, 'workspace', 'somewhere', {});
    for (const agentId of [
      { workspace: 'somewhere', agent: ['in-somewhere'] },
      { workspace: 'default', agent: ['in-default'] },
      { agent: ['in-nowhere', 'child'] },
    ])
      expect((await spawn(agentId)).headers.get('muster-warning')).toBeNull();
  });

  test('a workspace scopes the agent’s repos', async () => {
    const repos = ['https://git.example/one.git', 'https://git.example/two.git'];
    await writeResource(api, 'workspace', 'with-repos', { repos: [repos[0], { url: repos[1] }] });
    await spawned({ workspace: 'with-repos', agent: ['in-repos'] });
    expect((await status({ agent: ['in-repos'] })).body.repos).toEqual(repos);
  });

  test('in other requests an empty workspace means the only live agent of that path', async () => {
    await spawned({ workspace: 'm1', agent: ['match'] });
    await kill({ workspace: 'm1', agent: ['match'] });
    await spawned({ workspace: 'm2', agent: ['match'] });
    await spawned({ workspace: 'm3', agent: ['match'] });
    await kill({ workspace: 'm3', agent: ['match'] });
    expect((await status({ agent: ['match'] })).body.agentId.workspace).toBe('m2');
    expect((await kill({ agent: ['match'] })).status).toBe(200);
    expect((await status({ workspace: 'm2', agent: ['match'] })).body.phase).toBe('PHASE_CANCELED');
  });

  test('an agent of another owner does not match', async () => {
    await spawned({ workspace: 'o1', agent: ['owned'], account: 'first' });
    await spawned({ workspace: 'o2', agent: ['owned'], account: 'second' });
    expect((await status({ agent: ['owned'], account: 'second' })).body.agentId.workspace).toBe('o2');
    expectError(await status({ agent: ['owned'] }), 'NOT_FOUND');
  });

  test('several live matches are refused with a list of them, and nothing changes', async () => {
    const ids = [
      { workspace: 'several-1', agent: ['several'] },
      { workspace: 'several-2', agent: ['several'] },
    ];
    for (const id of ids) await spawned(id);
    for (const route of ['agent/status', 'agent/kill', 'agent/wait']) {
      const answer = await api.post<{ message: string }>(`/v1/${route}`, { agentId: { agent: ['several'] } });
      expectError(answer, 'INVALID_ARGUMENT', 'agentId.workspace');
      expect(JSON.stringify(answer.body)).toMatch(/several-1.*several-2|several-2.*several-1/);
    }
    for (const id of ids) expect((await status(id)).body.phase).toBe('PHASE_PENDING');
  });

  test('without a live match it means the newest agent that has ended', async () => {
    for (const workspace of ['t1', 't2']) {
      await spawned({ workspace, agent: ['ended'] });
      await kill({ workspace, agent: ['ended'] });
    }
    expect((await status({ agent: ['ended'] })).body.agentId.workspace).toBe('t2');
    await spawned({ workspace: 't1', agent: ['ended'] });
    await kill({ workspace: 't1', agent: ['ended'] });
    expect((await status({ agent: ['ended'] })).body.agentId.workspace).toBe('t1');
  });

  test('for a child whose parent lives in several workspaces the workspace is required', async () => {
    await spawned({ workspace: 'two-1', agent: ['two'] });
    await spawned({ workspace: 'two-2', agent: ['two'] });
    expectError(await spawn({ agent: ['two', 'c'] }), 'INVALID_ARGUMENT', 'agentId.workspace');
    expect((await spawned({ workspace: 'two-2', agent: ['two', 'c'] })).workspace).toBe('two-2');
  });
});

describe('children', () => {
  test('a child has its parent’s model, unless the child or its persona names another', async () => {
    const modelOf = async (agentId: Fields, fields = {}) => {
      expectOk(await api.post('/v1/agent/spawn', { agentId, description: 'x', ...fields }));
      return (await status(agentId)).body.model;
    };
    await writeResource(api, 'persona', 'small', { model: 'haiku' });
    await writeResource(api, 'workspace', 'of-b', { model: 'gpt-5.5' });
    const at = (...path: string[]) => ({ workspace: 'of-b', agent: ['model', ...path] });
    expect(await modelOf(at(), { model: 'opus' })).toBe('opus');
    expect(await modelOf(at('plain'))).toBe('opus');
    expect(await modelOf({ agent: ['model', 'plain', 'below'] })).toBe('opus');
    expect(await modelOf(at('of-persona'), { agent: 'small' })).toBe('haiku');
    expect(await modelOf(at('named'), { model: 'sonnet' })).toBe('sonnet');
    expect(await modelOf(at('effort'), { reasoningEffort: 'max' })).toBe('opus');
    expect(await modelOf({ workspace: 'of-b', agent: ['other-root'] })).toBe('gpt-5.5');
  });

  test('a child has its parent’s workspace and owner; other values are refused', async () => {
    await spawned({ workspace: 'home', account: 'kin', agent: ['kin'] });
    const child = { account: 'kin', agent: ['kin', 'child'] };
    const expectRefused = async (other: object, field: string, text: string) => {
      const refused = await spawn({ ...child, workspace: 'home', ...other });
      expect(expectError(refused, 'INVALID_ARGUMENT', field).message).toBe(`${field}: ${text}`);
    };
    const of = 'must be that of the parent,';
    await expectRefused({ workspace: 'away' }, 'agentId.workspace', `${of} "home"; got "away"`);
    await expectRefused({ account: 'stranger' }, 'agentId.account', `${of} "kin"; got "stranger"`);
    const provider = `${of} "${caller().ownerProvider}"; got "PROVIDER_IDP_OIDC"`;
    await expectRefused({ ownerProvider: 'PROVIDER_IDP_OIDC' }, 'agentId.ownerProvider', provider);
    expect(await spawned(child)).toEqual({ ...caller(), ...child, workspace: 'home' });
  });

  test('a missing parent is NOT_FOUND', async () => {
    expectError(await spawn({ agent: ['orphanage', 'orphan'] }), 'NOT_FOUND');
    await spawned({ agent: ['orphanage'] });
    expectError(await spawn({ agent: ['orphanage', 'gap', 'orphan'] }), 'NOT_FOUND');
  });

  test('a terminal parent is FAILED_PRECONDITION', async () => {
    await spawned({ agent: ['late-parent'] });
    await kill({ agent: ['late-parent'] });
    expectError(await spawn({ agent: ['late-parent', 'child'] }), 'FAILED_PRECONDITION');
    expectError(
      await spawn({ workspace: 'default', agent: ['late-parent', 'child'] }),
      'FAILED_PRECONDITION',
    );
  });
});

describe('reuse of an identity', () => {
  test('spawning onto a live agent is ALREADY_EXISTS', async () => {
    await spawned({ agent: ['taken'] });
    expectError(await spawn({ agent: ['taken'] }), 'ALREADY_EXISTS');
    expectError(await spawn({ ...caller(), workspace: 'default', agent: ['taken'] }), 'ALREADY_EXISTS');
  });

  test('one of two concurrent spawns succeeds', async () => {
    const answers = await Promise.all([1, 2, 3, 4].map(() => spawn({ agent: ['contested'] })));
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 409, 409, 409]);
  });

  test('a new agent may take the identity of an ended one; reads and lists show the newest', async () => {
    const t = await newTestTenant(api);
    await t.spawn('again', { description: 'first', tasks: [{ id: 'old', subject: 'old' }] });
    const first = await t.start('again');
    await t.report(first, { session: 'first-session', usage: { inputTokens: 5, costUsd: 1 } });
    await t.end(first, 'COMPLETED', { response: 'first' });
    await t.queue('again', { description: 'kept', deliverAt: inAnHour() });
    await t.kill('again');
    expect(await t.spawn('again', { description: 'second' })).toMatchObject({ runCount: '0' });
    expect(await t.status('again')).toMatchObject({
      phase: 'PHASE_PENDING',
      description: 'second',
      response: '',
      runCount: '0',
      run: null,
      tasks: [],
      followUps: [],
      cost: 0,
      inputTokens: '0',
      endedAt: null,
    });
    expect(await t.timeline('again', 'AGENT_SPAWNED', 'RUN_STARTED')).toHaveLength(1);
    const { body } = await api.post<{ entries: AgentEntry[] }>('/v1/agents', {
      workspace: t.workspace,
      includeTerminal: true,
    });
    expect(body.entries.map(({ phase }) => phase)).toEqual(['PHASE_PENDING']);
    const second = await t.claim('again');
    expect(second.agentKey).not.toBe(first.agentKey);
    expect(second).toMatchObject({ runId: 1, session: '', attempt: 1 });
  });

  test('an identity is taken while a descendant of its ended agent lives', async () => {
    const t = await newTestTenant(api);
    await t.spawn('elder');
    await t.spawn('elder/young');
    const elder = await t.start('elder');
    await t.turn('elder/young');
    await t.end(elder, 'COMPLETED');
    await t.turn('elder', { finished: true });
    expect(await t.phase('elder')).toBe('COMPLETED/FINISHED');
    expect(await t.phase('elder/young')).toBe('WAITING_FOR_INPUT/RESTING');
    expectError(await spawn(t.id('elder')), 'ALREADY_EXISTS');
    await t.kill('elder/young');
    expect((await spawn(t.id('elder'))).status).toBe(200);
    expect((await t.status('elder')).children).toEqual([]);
  });
});
