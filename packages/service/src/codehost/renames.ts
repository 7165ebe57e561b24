import type pg from 'pg';
import type { Transact } from '../control/batches/transact.ts';
import { renameRepository } from '../store/statements/change-requests.ts';
import type { RepoPath } from './host.ts';
import type { Integration } from './integrations.ts';

/** Has the records of a repository follow it to its new path, and says so once to each agent with an open change request. */
export async function followRename(
  { database, transact }: { readonly database: pg.Pool; readonly transact: Transact },
  { tenant, name }: Integration,
  from: RepoPath,
  to: RepoPath,
): Promise<void> {
  const agents = await renameRepository(database, tenant, name, from, to);
  if (from.toLowerCase() === to.toLowerCase()) return;
  const text = `The repository ${from} is now ${to} at its code host. Reviews arrive and pushes work as before; write the new URL in the workspace.`;
  for (const { agent } of agents)
    await transact.command({ key: { tenant, id: agent } }, { type: 'warn', text });
}
