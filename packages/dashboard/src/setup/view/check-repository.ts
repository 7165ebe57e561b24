import { type AgentStatus, FailedPreconditionError, type MusterClient, NotFoundError } from '@muster/sdk';
import { isTerminal, repositoryCheck } from '@muster/sdk/contract';
import { workspaceNameOf } from '../model/repository.ts';

const labels = { setup: repositoryCheck };
/** Of a check whose workspace was written for it. */
const newWorkspace = { workspace: 'new' };
const justification = 'Set up in the dashboard';
const maxAttempts = 9;

/** The agent of the last check, also after a reload and for other admins; null if there is none. */
export async function lastCheck(client: MusterClient, signal: AbortSignal): Promise<AgentStatus | null> {
  const { entries } = await client.list({ labels, includeTerminal: true, pageSize: 1 }, { signal });
  const [entry] = entries;
  return entry ? client.status(entry.agentId, { signal }).catch(nullIfGone) : null;
}

function nullIfGone(error: unknown): null {
  if (error instanceof NotFoundError) return null;
  throw error;
}

/**
 * Writes a workspace with the repository and starts an agent there that only finishes, without a model. It starts when the
 * runner has cloned the repository, as it does for every agent: with the same credentials, rights and limits.
 */
export async function checkRepository(
  client: MusterClient,
  repository: string,
  before: AgentStatus | null,
): Promise<void> {
  if (before) await discardCheck(client, before, repository);
  const { workspace, isNew } = await writeWorkspace(client, repository);
  await client.spawn({
    workspace,
    path: repositoryCheck,
    description: '!finish The repository can be read.',
    model: 'rehearsal-a',
    labels: { ...labels, ...(isNew && newWorkspace) },
  });
}

export async function endCheck(client: MusterClient, { agentId, phase }: AgentStatus): Promise<void> {
  if (!isTerminal(phase)) await client.kill(agentId);
  await client.delete(agentId).catch(nullIfGone);
}

/** Also deletes the workspace that the check wrote, if it has another repository and nobody has changed it since. */
async function discardCheck(client: MusterClient, check: AgentStatus, repository: string): Promise<void> {
  await endCheck(client, check);
  if (check.labels.workspace !== newWorkspace.workspace) return;
  const { workspace } = check.agentId;
  const written = await client.catalog.read('workspace', workspace).catch(nullIfGone);
  if (written?.generation !== '1' || names(written.document.repos, repository)) return;
  await client.catalog.delete('workspace', workspace, { ifGenerationMatch: '1', justification });
}

/** The workspace with the repository, which may be there already. */
async function writeWorkspace(
  client: MusterClient,
  repository: string,
): Promise<{ readonly workspace: string; readonly isNew: boolean }> {
  const base = workspaceNameOf(repository) || 'repository';
  for (let attempt = 1; ; attempt += 1) {
    const name = attempt === 1 ? base : `${base}-${attempt}`;
    const stored = await client.catalog.read('workspace', name).catch(nullIfGone);
    if (stored && names(stored.document.repos, repository)) return { workspace: name, isNew: false };
    try {
      await client.catalog.write(
        'workspace',
        name,
        { repos: [repository] },
        { ifGenerationMatch: '0', justification },
      );
      return { workspace: name, isNew: true };
    } catch (error) {
      // The name is taken: try another.
      if (!(error instanceof FailedPreconditionError) || attempt >= maxAttempts) throw error;
    }
  }
}

const names = (repos: readonly unknown[] | undefined, repository: string): boolean =>
  repos?.length === 1 && (repos[0] === repository || (repos[0] as { url?: unknown }).url === repository);
