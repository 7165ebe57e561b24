import { expect, it } from 'vitest';
import type { Integration } from './integrations.ts';
import { Triggers, type TriggersOptions } from './triggers.ts';

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
    changeRequests: { permissionOf: async () => 'write', refuseToHear: async () => null },
    catalog: { documents: async () => [{ name: 'project', document: { repos: [workspaceUrl] } }] },
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
  const event = { type: 'trigger', repo, subject, by: 'label', value: 'muster', ...what } as const;
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
    changeRequests: {
      ...{ permissionOf: async () => 'write', refuseToHear: async () => null },
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
        ...{ type: 'trigger', repo, subject: { type: 'issue', number: 1 }, by: 'label', updatedAt },
        ...{ title: '', body: '', author: person, url: '', comment: null, value: 'muster' },
      },
    );
  expect(await handle('2026-01-01T10:00:01Z')).toMatch(/^it was found/);
  expect(await handle('2026-01-01 10:00:00 UTC')).toMatch(/^it was found/);
  expect(told).toEqual([]);
  expect(await handle('2026-01-01T11:00:00Z')).toBeNull();
  expect(await handle('')).toBeNull();
  expect(told).toEqual(Array(2).fill(expect.stringContaining('the label muster again')));
});
