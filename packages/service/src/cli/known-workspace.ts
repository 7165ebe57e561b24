import { nearestName } from '@muster/sdk/contract';
import { readIfExists } from './apply.ts';
import type { Invocation } from './command.ts';
import { CommandError } from './errors.ts';
import { isConfirmed } from './input.ts';

/**
 * In a terminal, asks before an agent is spawned into a workspace that does not exist: it would work in an empty folder,
 * at cost. Elsewhere the service's warning is printed.
 */
export async function confirmWorkspace(
  { client, output, signal }: Invocation,
  workspace: string | undefined,
): Promise<void> {
  if (!workspace || process.stdin.isTTY !== true) return;
  const { catalog } = client();
  if (await readIfExists(catalog, 'workspace', workspace, signal)) return;
  const names: string[] = [];
  for await (const { name } of catalog.listAll('workspace', { signal })) names.push(name);
  const nearest = nearestName(workspace, names);
  const hint = nearest === undefined ? '' : ` Did you mean "${nearest}"?`;
  output.note(`The workspace "${workspace}" does not exist: the agent would work in an empty folder.${hint}`);
  if (!(await isConfirmed(signal))) throw new CommandError('no agent was spawned');
}
