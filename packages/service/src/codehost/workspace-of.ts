import { repoAt, type WorkspaceDocument } from '@muster/sdk/contract';
import type { Catalog } from '../control/catalog/catalog.ts';
import type { RepoPath } from './host.ts';
import type { Integration } from './integrations.ts';
import { repoUrls } from './names.ts';

/**
 * The workspace for the agents of a repository: that of the integration if it lists the repository, else the first that
 * does. Null if none does: an agent without the repository could not work on anything.
 */
export async function workspaceOf(
  catalog: Pick<Catalog, 'document' | 'workspacesListing'>,
  { tenant, url, workspace }: Pick<Integration, 'tenant' | 'url' | 'workspace'>,
  repo: RepoPath,
): Promise<string | null> {
  if (workspace && lists((await catalog.document(tenant, 'workspace', workspace)) ?? {}, url, repo))
    return workspace;
  for await (const { name, document } of catalog.workspacesListing(tenant, repoUrls(url, repo)))
    if (lists(document, url, repo)) return name;
  return null;
}

/** Hosts ignore the case of paths, and send it as it was when the repository was named. */
function lists({ repos = [] }: WorkspaceDocument, hostUrl: string, repo: RepoPath): boolean {
  const path = repo.toLowerCase();
  return repos.some(
    (one) => repoAt(hostUrl, typeof one === 'string' ? one : (one.url ?? ''))?.toLowerCase() === path,
  );
}
