import type { AgentEntry } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { runConcurrently } from '../support/async.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { type EventStream, openStream } from '../support/streams.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

type Fields = Record<string, unknown>;

/** The events of a list’s stream: entries, and that they are the whole list. */
class ListStream {
  readonly events: EventStream<AgentEntry>;

  constructor(events: EventStream<AgentEntry>) {
    this.events = events;
  }

  static async open(by: Api, fields: Fields): Promise<ListStream> {
    return new ListStream(await openStream<AgentEntry>(by, '/v1/agents/stream', fields));
  }

  whole(): Promise<boolean> {
    return this.events.until(({ type }) => type === 'whole');
  }

  until(fits: (entry: AgentEntry) => boolean): Promise<boolean> {
    return this.events.until(({ type, data }) => type === 'entry' && fits(data));
  }

  /** Everything that arrived, in order. */
  close(): string[] {
    this.events.close();
    return this.events.seen.map(({ type, data }) => (type === 'entry' ? pathOf(data) : type));
  }

  get entries(): AgentEntry[] {
    return this.events.seen.filter(({ type }) => type === 'entry').map(({ data }) => data);
  }
}

const pathOf = ({ agentId }: AgentEntry) => agentId.agent.join('/');
const named = (path: string) => (entry: AgentEntry) => pathOf(entry) === path;

describe('starts with the list', () => {
  test('an event `whole` ends the list, before any change', async () => {
    const t = await newTestTenant(api);
    for (const path of ['a', 'b', 'b/c']) await t.spawn(path);
    const stream = await ListStream.open(api, { workspace: t.workspace });
    expect(await stream.whole()).toBe(true);
    expect(stream.events.seen.at(-1)).toEqual({ id: '', type: 'whole', data: {} });
    await t.spawn('d');
    expect(await stream.until(named('d'))).toBe(true);
    expect(stream.close()).toEqual(['b', 'a', 'whole', 'd']);
  });

  test('brings what an agent says and does, and its finished tasks', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { tasks: [{ id: 'one' }] });
    const claim = await t.start('a');
    const stream = await ListStream.open(api, { workspace: t.workspace });
    expect(await stream.whole()).toBe(true);
    await t.report(claim, { currentAction: 'Reading a file' });
    expect(await stream.until(({ currentAction }) => currentAction === 'Reading a file')).toBe(true);
    await t.report(claim, { items: [{ type: 'MESSAGE', text: 'Half of it works.' }] });
    expect(await stream.until(({ news }) => news === 'Half of it works.')).toBe(true);
    await t.updateTask({ id: 'one', status: 'TASK_STATUS_COMPLETED' });
    expect(await stream.until(({ tasksDone }) => tasksDone === 1)).toBe(true);
    stream.close();
  });

  test('an empty list is whole immediately', async () => {
    const t = await newTestTenant(api);
    const stream = await ListStream.open(api, { workspace: t.workspace });
    expect(await stream.whole()).toBe(true);
    expect(stream.close()).toEqual(['whole']);
  });

  test('has the whole list, whatever pageSize says', async () => {
    const t = await newTestTenant(api);
    const names = Array.from({ length: 25 }, (_, i) => `p${i}`);
    for (const name of names) await t.spawn(name);
    for (const pageSize of [1, 10, 25, 1000]) {
      const stream = await ListStream.open(api, { workspace: t.workspace, pageSize });
      expect(await stream.whole()).toBe(true);
      expect(stream.close()).toEqual([...names.toReversed(), 'whole']);
    }
  });

  test('changes during the list come after it, with the last state', async () => {
    const t = await newTestTenant(api);
    const count = 60;
    await runConcurrently(count, 8, (i) => t.spawn(`c${i}`));
    const streams = await Promise.all(
      [1, 2, 7, 50].map((pageSize) =>
        ListStream.open(api, { workspace: t.workspace, includeTerminal: true, pageSize }),
      ),
    );
    await runConcurrently(count, 8, (i) => t.kill(`c${i}`));
    for (const stream of streams) {
      const ended = new Set<string>();
      expect(
        await stream.until((entry) => {
          if (entry.phase === 'PHASE_CANCELED') ended.add(pathOf(entry));
          return ended.size === count;
        }),
      ).toBe(true);
      stream.close();
    }
  });
});

describe('continues with the changes', () => {
  test('sends list entries when they change', async () => {
    const t = await newTestTenant(api);
    const stream = await ListStream.open(api, { workspace: t.workspace, includeTerminal: true });
    expect(stream.events.status).toBe(200);
    expect(stream.events.headers.get('content-type')).toMatch(/^text\/event-stream\b/);
    await t.spawn('a');
    const seen = (phase: string) => stream.until((entry) => entry.phase === phase);
    expect(await seen('PHASE_PENDING')).toBe(true);
    const run = await t.start('a');
    expect(await seen('PHASE_RUNNING')).toBe(true);
    await t.end(run, 'COMPLETED', { question: 'Eh?' });
    expect(await stream.until((entry) => entry.needsInput === 'Eh?')).toBe(true);
    await t.kill('a');
    expect(await seen('PHASE_CANCELED')).toBe(true);
    stream.close();
    const { body } = await api.post<{ entries: AgentEntry[] }>('/v1/agents', {
      workspace: t.workspace,
      includeTerminal: true,
    });
    expect(stream.entries.at(-1)).toEqual(body.entries[0]);
  });

  test('filters as the list does', async () => {
    const [mine, other] = [await newTestTenant(api), await newTestTenant(api)];
    const stream = await ListStream.open(api, { workspace: mine.workspace });
    await other.spawn('other');
    await mine.spawn('mine');
    await mine.spawn('mine/child');
    await other.queue('other', 'x');
    await mine.spawn('last');
    expect(await stream.until(named('last'))).toBe(true);
    expect(new Set(stream.close())).toEqual(new Set(['whole', 'mine', 'last']));
  });

  test('with a parentId sends the children', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const stream = await ListStream.open(api, { parentId: t.id('p') });
    await t.spawn('p/c');
    await t.spawn('p/c/below');
    await t.spawn('p/d');
    expect(await stream.until(named('p/d'))).toBe(true);
    expect(new Set(stream.close())).toEqual(new Set(['whole', 'p/c', 'p/d']));
  });

  test('with allDepths sends agents at every depth, or all below the parent', async () => {
    const t = await newTestTenant(api);
    for (const path of ['p', 'p/c', 'q']) await t.spawn(path);
    const all = await ListStream.open(api, { workspace: t.workspace, allDepths: true });
    const below = await ListStream.open(api, { parentId: t.id('p'), allDepths: true });
    for (const stream of [all, below]) expect(await stream.whole()).toBe(true);
    for (const path of ['p/c/d', 'q/e', 'p/f']) await t.spawn(path);
    expect(await all.until(named('p/f'))).toBe(true);
    expect(await below.until(named('p/f'))).toBe(true);
    expect(new Set(all.close())).toEqual(new Set(['q', 'p/c', 'p', 'whole', 'p/c/d', 'q/e', 'q', 'p/f']));
    expect(new Set(below.close())).toEqual(new Set(['p/c', 'whole', 'p/c/d', 'p/f']));
  });

  const leaving: [what: string, filter: Fields, leave: (t: TestTenant) => Promise<unknown>, phase: string][] =
    [
      ['ends', {}, (t) => t.kill('a'), 'PHASE_CANCELED'],
      [
        'ends, where ended ones are shown of the future alone,',
        { includeTerminal: true, endedSince: '2999-01-01T00:00:00Z' },
        (t) => t.kill('a'),
        'PHASE_CANCELED',
      ],
      [
        'leaves the phases that are asked for',
        { phases: ['PHASE_PENDING'] },
        (t) => t.start('a'),
        'PHASE_RUNNING',
      ],
    ];
  test.each(leaving)('an agent that %s is sent once more', async (_, filter, leave, phase) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const stream = await ListStream.open(api, { workspace: t.workspace, ...filter });
    expect(await stream.whole()).toBe(true);
    await leave(t);
    expect(await stream.until((entry) => entry.phase === phase)).toBe(true);
    await t.spawn('b');
    expect(await stream.until(named('b'))).toBe(true);
    await t.kill('b');
    expect(await stream.until((entry) => named('b')(entry) && entry.phase === 'PHASE_CANCELED')).toBe(true);
    expect(stream.close().filter((path) => path === 'a').length).toBeGreaterThan(1);
    const last = stream.entries.filter(named('a')).map((entry) => entry.phase);
    expect(last.filter((p) => p === phase)).toHaveLength(1);
  });

  test('an agent that never matched the filter is not sent', async () => {
    const t = await newTestTenant(api);
    const stream = await ListStream.open(api, {
      workspace: t.workspace,
      phases: ['PHASE_CANCELED'],
      includeTerminal: true,
    });
    await t.spawn('a');
    await t.spawn('b');
    await t.queue('a', 'x');
    await t.kill('b');
    expect(await stream.until(named('b'))).toBe(true);
    expect(stream.close()).toEqual(['whole', 'b']);
  });
});

test('a wrong request is refused as the list refuses it', async () => {
  const refusal = async (fields: Fields) => api.post('/v1/agents/stream', fields);
  expectError(await refusal({ account: 'github/x' }), 'INVALID_ARGUMENT', 'account');
  expectError(await refusal({ parentId: { agent: ['nobody'] } }), 'NOT_FOUND');
  expectError(await refusal({ pageToken: 'nonsense' }), 'INVALID_ARGUMENT', 'pageToken');
  expectError(await refusal({ endedSince: 'yesterday' }), 'INVALID_ARGUMENT', 'endedSince');
});
