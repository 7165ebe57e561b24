import type { BodyOf, ReplyOf } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Principal } from '../control/access/principal.ts';
import type { Control } from '../control/control.ts';
import { fenced, notFound, precondition, type Refusal, unavailable } from '../domain/refusal.ts';
import { readRepos } from '../lib/repositories.ts';
import { readHeldWorkspace } from '../store/statements/runs.ts';
import { HostError } from '../work/host-error.ts';
import type { Host, RepoPath } from './host.ts';
import { IntegrationError, type Integrations } from './integrations.ts';
import { gitUrl } from './names.ts';

export interface GitCredentialsOptions {
  readonly database: pg.Pool;
  readonly control: Pick<Control, 'tenants' | 'catalog'>;
  readonly integrations: Integrations;
}

type Reply = ReplyOf<'runnerGitCredential'>;

/**
 * The credential with which a runner fetches and pushes a repository. Only the runner that holds a live run gets it,
 * for the repositories of the run's workspace (as it was when the agent was spawned, and as it is now) and for their
 * submodules. Only the runner knows the submodules. So it may name any repository that the integration of the
 * containing repository covers, but none of another integration.
 */
export async function gitCredentialFor(
  { database, control, integrations }: GitCredentialsOptions,
  caller: Principal,
  { runnerId, agentKey, runId, repo: repoUrl, submoduleOf, refused = false }: BodyOf<'runnerGitCredential'>,
): Promise<Reply | Refusal> {
  const agent = await control.tenants.agentKey(caller.tenant.id, agentKey);
  if (!agent) return notFound('the agent does not exist');
  const [held] = await readHeldWorkspace(database, agent.tenant, agent.id, runId, runnerId);
  if (!held) return fenced(`run ${runId} is not a live run of this runner`);
  try {
    const found = await integrations.covering(agent.tenant, repoUrl);
    if (!found) return { credential: null };
    const document = await control.catalog.document(agent.tenant, 'workspace', held.workspace);
    const repos = [...held.repos.map((url) => url.trim()), ...shownUrls(document ?? {})];
    const listed = submoduleOf ?? repoUrl;
    if (!repos.includes(listed)) {
      const message = `${listed} is not a repository of the workspace "${held.workspace}"; add it, or spawn a new agent`;
      return precondition('NOT_IN_WORKSPACE', listed, message);
    }
    const { integration, repo } = found;
    const containing = submoduleOf && (await integrations.covering(agent.tenant, submoduleOf));
    if (submoduleOf && (!containing || containing.integration.name !== integration.name))
      return { credential: null };
    return await credentialOf(integration, repo, repoUrl, refused);
  } catch (error) {
    if (error instanceof IntegrationError) return precondition('INTEGRATION', repoUrl, error.message);
    throw error;
  }
}

async function credentialOf(
  { name, url: hostUrl, host }: { readonly name: string; readonly url: string; readonly host: Host },
  repo: RepoPath,
  repoUrl: string,
  isRefused: boolean,
): Promise<Reply | Refusal> {
  const who = `the integration "${name}"`;
  const url = gitUrl(hostUrl, repo);
  if (!url)
    throw new IntegrationError(`${who}: url: expected an address that begins with https:// or http://`);
  try {
    const { username, password, expiresAt } = await host.gitCredential(repo, isRefused);
    // Each is one line of git's credential protocol.
    if (hasControlCharacters(username + password))
      throw new IntegrationError(`${who}: the credential contains line breaks or other control characters`);
    const missing = isRefused ? await missingOf(host, repo) : [];
    return { credential: { integration: name, url, username, password, expiresAt, missing } };
  } catch (error) {
    if (!(error instanceof HostError)) throw error;
    if (error.kind !== 'refused') return unavailable(`${who}: ${error.message}`);
    const problems = [error.message, ...(await missingOf(host, repo))];
    return precondition('INTEGRATION', repoUrl, `${who}: ${problems.join('; ')}`);
  }
}

/** What the credential lacks in a repository; empty if the host does not say. */
async function missingOf(host: Host, repo: RepoPath): Promise<string[]> {
  try {
    const unmet = (await host.requirements(repo)).filter(({ isMet }) => !isMet);
    return unmet.map(({ name, advice }) => `${name}: ${advice}`);
  } catch (error) {
    if (error instanceof HostError) return [];
    throw error;
  }
}

/** A workspace that can't be read has none. */
function shownUrls(document: Readonly<Record<string, unknown>>): string[] {
  try {
    return readRepos(document).map(({ shownUrl }) => shownUrl);
  } catch {
    return [];
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const hasControlCharacters = (text: string): boolean => /[\x00-\x1f\x7f]/.test(text);
