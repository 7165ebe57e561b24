import { expect, it } from 'vitest';
import type { Change } from '../domain/loaded-agents.ts';
import type { ThreadChange } from '../domain/thread.ts';
import type { Connection } from './connection.ts';
import { saveThreads } from './save-threads.ts';

/** The statements that a change of a thread leads to. */
async function statementsFor(change: ThreadChange): Promise<string[]> {
  const names: string[] = [];
  const connection = {
    query: async ({ name }: { name: string }) => {
      names.push(name);
      return { rows: [] };
    },
  };
  const agent = { tenant: 1, id: 'a', sequence: 1, progressAt: '2026-01-31T09:00:00.000Z' };
  const changes = [{ after: { agent }, threadChanges: [change] }] as unknown as Change[];
  await Promise.all(saveThreads(connection as unknown as Connection, changes));
  return names;
}

it('posts that a thread is resolved, unless its host has said so', async () => {
  const resolved = { type: 'set', id: 't', state: 'RESOLVED' } as const;
  expect(await statementsFor(resolved)).toEqual(['update-threads', 'insert-thread-posts']);
  expect(await statementsFor({ ...resolved, byHost: true })).toEqual(['update-threads']);
  expect(await statementsFor({ type: 'set', id: 't', answer: 'PENDING' })).toEqual(['update-threads']);
});
