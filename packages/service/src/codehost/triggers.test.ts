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
    changeRequests: { permissionOf: async () => 'write' },
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
  const what = { title: '', body: '', author: person, url: '', comment: null };
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
