import { expect, it } from 'vitest';
import type { TriggerEvent } from './host.ts';
import type { Integration } from './integrations.ts';
import { ownWords, Triggers, type TriggersOptions } from './triggers.ts';

const person = { id: '1', login: 'ada' };
const repo = `${'o'.repeat(39)}/${'r'.repeat(100)}`;
const integration = {
  ...{ tenant: 1, name: 'host', url: 'https://host', profile: 'host', minimumPermission: 'write' },
  ...{ workspace: '', triggers: { label: 'muster', mention: '', assigned: false } },
  host: { self: async () => ({ id: '9', login: 'muster' }) },
} as unknown as Integration;

/** The keys by which agents are spawned once for triggers with these ids. */
async function keysOf(workspaceUrl: string, ids: readonly string[]): Promise<string[]> {
  const keys: string[] = [];
  const options = {
    database: { query: async () => ({ rows: [] }) },
    integrations: { before: async () => [], isRenamed: async () => false },
    people: { permissionOf: async () => 'write', refuseToHear: async () => null },
    catalog: {
      workspacesListing: async function* () {
        yield { name: 'project', document: { repos: [workspaceUrl] } };
      },
    },
    reads: {
      storedReply: async ({ key }: { key: string }) => {
        keys.push(key);
        return { reply: { id: 'agent', url: '' } };
      },
    },
  };
  const triggers = new Triggers(options as unknown as TriggersOptions);
  const subject = { type: 'issue', number: 1 } as const;
  const what = { title: '', body: '', author: person, url: '', updatedAt: '', comment: null };
  const causes = [{ by: 'label', value: 'muster' }] as const;
  const event = { type: 'trigger', repo, subject, causes, ...what } as const;
  for (const id of ids) expect(await triggers.handle(integration, id, person, event)).toBeNull();
  return keys;
}

it('spawns an agent for each trigger, however long the path of its repository is', async () => {
  const found = (number: number) => `found/issue/${repo}/${number}/label`;
  const keys = await keysOf(`https://host/${repo}`, [found(1), found(2), found(1)]);
  expect(new Set(keys).size).toBe(2);
});

it('finds the workspace of a repository whose path it writes in another case', async () => {
  expect(await keysOf(`https://host/${repo.toUpperCase()}.git`, ['1'])).toHaveLength(1);
});

it('a label that was found at the host is not told again when its delivery arrives late, and another one is', async () => {
  const told: string[] = [];
  const row = {
    ...{ id: 'agent', phase: 'PHASE_WAITING_FOR_INPUT' },
    delivery: `found/issue/${repo}/1/label/2026-01-01T10:00:00.000Z`,
  };
  const options = {
    database: { query: async () => ({ rows: [row] }) },
    integrations: { before: async () => [], isRenamed: async () => false },
    people: { permissionOf: async () => 'write', refuseToHear: async () => null },
    changeRequests: {
      tell: async (_agent: unknown, { description }: { description: string }) => told.push(description),
    },
  };
  const triggers = new Triggers(options as unknown as TriggersOptions);
  const handle = (updatedAt: string) =>
    triggers.handle(
      {
        ...integration,
        host: { ...integration.host, capabilities: { namesAdditions: true } },
      } as Integration,
      'a delivery',
      person,
      {
        ...{ type: 'trigger', repo, subject: { type: 'issue', number: 1 }, updatedAt },
        ...{ title: '', body: '', author: person, url: '', comment: null },
        causes: [{ by: 'label', value: 'muster' }],
      },
    );
  expect(await handle('2026-01-01T10:00:01Z')).toMatch(/^it was found/);
  expect(await handle('2026-01-01 10:00:00 UTC')).toMatch(/^it was found/);
  expect(told).toEqual([]);
  expect(await handle('2026-01-01T11:00:00Z')).toBeNull();
  expect(await handle('')).toBeNull();
  expect(told).toEqual(Array(2).fill(expect.stringContaining('the label muster again')));
});

it.each([
  ['a closed issue starts nothing by a label', { isClosed: true }, 'the issue is closed'],
  ['an open one does', {}, null],
])('%s', async (_what, more, reason) => {
  const subject = { type: 'issue', number: 1 } as const;
  const what = { title: '', body: '', author: person, url: '', updatedAt: '', comment: null, ...more };
  const event = {
    ...{ type: 'trigger', repo, subject, causes: [{ by: 'label', value: 'muster' }] },
    ...what,
  } as TriggerEvent;
  const options = {
    integrations: { before: async () => [], isRenamed: async () => false },
    people: { refuseToHear: async () => null, permissionOf: async () => 'write' },
    catalog: {
      workspacesListing: async function* () {
        yield { name: 'project', document: { repos: [`https://host/${repo}`] } };
      },
    },
    database: { query: async () => ({ rows: [] }) },
    reads: { storedReply: async () => ({ reply: { id: 'agent', url: '' } }) },
  };
  const triggers = new Triggers(options as unknown as TriggersOptions);
  expect(await triggers.handle(integration, 'delivery', person, event)).toBe(reason);
});

it('the author of an issue is named, where a delivery has only the number', async () => {
  let asked = '';
  const host = {
    ...integration.host,
    account: async (id: string) => ({ id, login: 'grace' }),
  };
  const options = {
    integrations: { before: async () => [], isRenamed: async () => false },
    people: { refuseToHear: async () => null, permissionOf: async () => 'read' },
    catalog: {
      workspacesListing: async function* () {
        yield { name: 'project', document: { repos: [`https://host/${repo}`] } };
      },
      document: async (_tenant: number, kind: string) => ({ name: kind }),
    },
    database: { query: async () => ({ rows: [] }) },
    reads: { storedReply: async () => null },
    tenants: { name: async () => ({}) },
    transact: {
      command: async (_target: unknown, { description }: { description: string }) => {
        asked = description;
        return { id: 'agent', url: '' };
      },
    },
    models: { defaultModel: 'rehearsal-a', ownModels: [] },
  };
  const triggers = new Triggers(options as unknown as TriggersOptions);
  const event: TriggerEvent = {
    ...{ type: 'trigger', repo, subject: { type: 'issue', number: 1 } },
    ...{ title: 'A “title”', body: 'Text', author: { id: '7', login: '' }, url: '', updatedAt: '' },
    ...{ comment: null, causes: [{ by: 'label', value: 'muster' }] },
  };
  expect(await triggers.handle({ ...integration, host } as Integration, 'one', person, event)).toBeNull();
  expect(asked).toContain('grace (permission: read) wrote');
  expect(asked.split('\n')[0]).toContain("#1 “A 'title'”: ada gave it the label muster");
});

it.each([
  ['Please, @muster', true],
  ['> @muster do this\n\nI agree', false],
  ['Write `@muster` to start', false],
  ['```\n@muster\n```\nafter', false],
  ['~~~\n```\n@muster\n~~~', false],
  ['```\ncode\n```\n@muster go', true],
  ['`code` @muster `code`', true],
])('%j mentions: %s', (text, isMentioned) => {
  expect(ownWords(text).includes('@muster')).toBe(isMentioned);
});

it('looks for mentions in linear time', () => {
  for (const text of ['`'.repeat(1e6), '`a\n'.repeat(1e6), '> '.repeat(1e6), '```\n'.repeat(1e5)])
    expect(ownWords(text)).toBeDefined();
});
