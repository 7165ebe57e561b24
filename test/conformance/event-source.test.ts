import { type AgentStatus, limits, type TimelineEntry } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { agent } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { browserOf } from '../support/sign-in.ts';
import { openRequest } from '../support/streams.ts';

/** Streams by GET, for EventSource, with a session cookie or a key. */
const server = await useSharedServer({ runner: false });
const admin = server.api;

beforeAll(async () => {
  for (const [path, labels] of [
    [['root'], { team: 'web', note: 'a=b, c' }],
    [['root', 'child'], { team: 'web' }],
  ] as const)
    expectOk(
      await admin.post('/v1/agent/spawn', { agentId: agent(...path), description: path.join(' '), labels }),
    );
});

const timeline = '/v1/agent/timeline/stream';
const list = '/v1/agents/stream';

/** The data of the events of one type, when that many have arrived. */
async function events(path: string, count: number, headers: Record<string, string> = {}): Promise<string[]> {
  const held = openRequest(admin, path, undefined, headers);
  try {
    expect(await held.opened).toBe(200);
    const data = () => [...held.text().matchAll(/^data: (.*)$/gm)].map(([, text = '']) => text);
    return await until(
      `${count} events`,
      async () => data(),
      (seen) => seen.length >= count,
    );
  } finally {
    held.abort();
    await held.ended;
  }
}
const entriesAt = async (path: string, count = 1, headers = {}): Promise<TimelineEntry[]> =>
  (await events(path, count, headers)).map((text) => JSON.parse(text) as TimelineEntry);
const readBy = (path: string, headers: Record<string, string>) =>
  sendRaw(server.url, { method: 'GET', path, headers });

describe('the timeline', () => {
  test.each([
    '?agent=root/child',
    '?agent=root&agent=child',
    '?agentId.agent=root&agentId.agent=child',
    '?agentId.agent=root%2Fchild&agentId.workspace=default',
    '?agent=root/child&workspace=default&account=admin&ownerProvider=PROVIDER_CODEHOST_OAUTH',
    '?agent=root/child&provider=PROVIDER_CODEHOST_APP&org=own',
    '?agent=root/child&tenant.provider=PROVIDER_CODEHOST_APP&tenant.org=own&afterSequence=0',
  ])('names its agent in the query: %s', async (query) => {
    const [first] = await entriesAt(timeline + query.replace('org=own', `org=${server.tenant.org}`));
    expect(first).toMatchObject({ type: 'AGENT_SPAWNED', text: 'root child', sequence: '1' });
  });

  test('resumes after Last-Event-ID, which overrides afterSequence', async () => {
    const path = `${timeline}?agent=root`;
    const all = await entriesAt(path, 2);
    expect((await entriesAt(`${path}&afterSequence=1`))[0]).toEqual(all[1]);
    const resumed = await entriesAt(`${path}&afterSequence=0`, 1, { 'last-event-id': '1' });
    expect(resumed[0]).toEqual(all[1]);
  });

  test('is open to a session cookie, and sends new entries', async () => {
    const { cookie } = await browserOf(server.url, server.key);
    const held = openRequest(admin, `${timeline}?agent=root`, undefined, { cookie });
    expect(await held.opened).toBe(200);
    expectOk(await admin.post('/v1/agent/queue', { agentId: agent('root'), description: 'by the way' }));
    await until(
      'the message',
      async () => held.text(),
      (text) => text.includes('by the way'),
    );
    held.abort();
    await held.ended;
  });

  test('is refused like the POST route', async () => {
    const authorization = `Bearer ${server.key}`;
    expectError(await readBy(`${timeline}?agent=root`, {}), 'UNAUTHENTICATED');
    const refusals = [
      ['', 'agentId.agent'],
      ['?agent=', 'agentId.agent'],
      ['?agent=a%20b', 'agentId.agent.0'],
      [`?${'agent=a&'.repeat(limits.pathDepth + 1)}`, 'agentId.agent'],
      ['?agent=root&workspace=a&workspace=b', 'workspace'],
      ['?agent=root&afterSequence=x', 'afterSequence'],
      ['?agent=root&afterSequence=-1', 'afterSequence'],
      ['?agent=root&provider=nonsense', 'provider'],
    ] as const;
    for (const [query, field] of refusals)
      expectError(await readBy(timeline + query, { authorization }), 'INVALID_ARGUMENT', field);
    expectError(await readBy(`${timeline}?agent=nobody`, { authorization }), 'NOT_FOUND');
    const ignored = await readBy(`${timeline}?agent=nobody&colour=red`, { authorization });
    expect(ignored.headers.get('muster-ignored-fields')).toBe('colour');
    const { status } = await sendRaw(server.url, {
      method: 'HEAD',
      path: `${timeline}?agent=root`,
      headers: { authorization },
    });
    expect(status).toBe(501);
  });
});

describe('the list', () => {
  const names = async (query: string, count: number): Promise<string[]> =>
    (await events(list + query, count)).map((text) => {
      const { agentId } = JSON.parse(text) as Partial<AgentStatus>;
      return agentId?.agent.join('/') ?? 'whole';
    });

  test('has its filter in the query', async () => {
    expect(await names('', 2)).toEqual(['root', 'whole']);
    expect(await names('?allDepths=true', 3)).toEqual(['root/child', 'root', 'whole']);
    expect(await names('?parentId.agent=root', 2)).toEqual(['root/child', 'whole']);
    expect(await names('?allDepths=true&text=child', 2)).toEqual(['root/child', 'whole']);
    expect(await names('?phases=PHASE_FAILED,PHASE_CANCELED&includeTerminal=true', 1)).toEqual(['whole']);
    expect(await names('?phases=PHASE_FAILED&phases=PHASE_PENDING', 2)).toEqual(['root', 'whole']);
    expect(await names('?allDepths=true&labels=team%3Dweb', 3)).toEqual(['root/child', 'root', 'whole']);
    expect(await names('?allDepths=true&labels=team=web&labels=note=a%3Db,%20c', 2)).toEqual([
      'root',
      'whole',
    ]);
    expect(await names('?allDepths=true&labels=team=api', 1)).toEqual(['whole']);
    expect(await names('?account=nobody', 1)).toEqual(['whole']);
    expect(await names(`?account=*&workspace=default&org=${server.tenant.org}`, 2)).toEqual([
      'root',
      'whole',
    ]);
  });

  test('refuses what the POST route refuses', async () => {
    const authorization = `Bearer ${server.key}`;
    for (const [query, field] of [
      ['?phases=nonsense', 'phases.0'],
      ['?allDepths=perhaps', 'allDepths'],
      ['?endedSince=yesterday', 'endedSince'],
      ['?account=nonsense/x', 'account'],
      ['?labels=a%20b=c', 'labels'],
      ['?labels==c', 'labels'],
    ] as const)
      expectError(await readBy(list + query, { authorization }), 'INVALID_ARGUMENT', field);
    const { key } = await createKey(admin, { role: 'viewer' });
    const elsewhere = await readBy(`${list}?org=elsewhere`, { authorization: `Bearer ${key}` });
    expectError(elsewhere, 'PERMISSION_DENIED');
  });
});
