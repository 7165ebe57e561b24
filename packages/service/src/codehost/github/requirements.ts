import { HostError } from '../../work/host-error.ts';
import type { HttpRequest } from '../../work/http-client.ts';
import type { HostRequirement, RepoPath } from '../host.ts';
import { orRefusal } from '../or-refusal.ts';
import { met, missing, requirement } from '../requirement.ts';
import type { GithubApi } from './api.ts';
import { AppCredential, type Installation } from './credentials.ts';

interface Needed {
  /** As the API names it. */
  readonly permission: string;
  /** As the settings name it. */
  readonly title: string;
  readonly access: 'read' | 'write';
  readonly why: string;
}

const needed: readonly Needed[] = [
  { permission: 'metadata', title: 'Metadata', access: 'read', why: 'to ask what people may do' },
  {
    permission: 'contents',
    title: 'Contents',
    access: 'write',
    why: 'to push branches and to resolve review threads',
  },
  {
    permission: 'pull_requests',
    title: 'Pull requests',
    access: 'write',
    why: 'to open pull requests and to answer reviews',
  },
  { permission: 'issues', title: 'Issues', access: 'write', why: 'to comment' },
  { permission: 'checks', title: 'Checks', access: 'read', why: 'to see which checks failed' },
  { permission: 'statuses', title: 'Commit statuses', access: 'read', why: 'to see which checks failed' },
  { permission: 'actions', title: 'Actions', access: 'read', why: 'to read the logs of failed checks' },
];

const neededEvents = [
  ...['pull_request', 'pull_request_review', 'pull_request_review_comment', 'pull_request_review_thread'],
  ...['issue_comment', 'issues', 'check_run', 'check_suite', 'status', 'push'],
];

const accessTitles = { read: 'Read-only', write: 'Read and write' };

/** What the credential may do in a repository, permission by permission. */
export function readRequirements(api: GithubApi, repo: RepoPath): Promise<HostRequirement[]> {
  const { credential } = api;
  return credential instanceof AppCredential ? ofApp(credential, repo) : ofToken(api, repo);
}

async function ofApp(credential: AppCredential, repo: RepoPath): Promise<HostRequirement[]> {
  const slug = await orRefusal(credential.slug());
  if (slug instanceof HostError) {
    const advice = `The App can't sign in (${slug.message}). Check \`appId\`, and that \`privateKey\` is one of this App's private keys.`;
    return [missing('App credentials', advice)];
  }
  credential.forget(repo);
  const installation = await orRefusal(credential.installation(repo));
  const signedIn = met('App credentials');
  if (installation instanceof HostError) {
    const advice = `Install the App ${slug} on the account of ${repo} and give it access to this repository: the App's page, "Install App".`;
    return [signedIn, missing('installation', advice)];
  }
  if (installation.isSuspended) {
    const advice = `The installation is suspended. The owner of the account can unsuspend it at ${installation.url}.`;
    return [signedIn, missing('installation', advice)];
  }
  return [
    signedIn,
    met('installation'),
    ...needed.map((item) => granted(item, installation)),
    ...eventsOf(installation),
  ];
}

function granted(
  { permission, title, access, why }: Needed,
  { permissions, url }: Installation,
): HostRequirement {
  const given = permissions[permission] ?? 'none';
  const isMet = given === 'admin' || given === 'write' || given === access;
  const advice = `Set "${title}" to "${accessTitles[access]}" (${why}; now: ${given}) in the App's settings, "Permissions & events", "Repository permissions". Then the owner of the account has to accept it at ${url}.`;
  return requirement(`${permission}: ${access}`, isMet, advice);
}

/** An App without any event has no webhook: then deliveries come from the webhook of a repository. */
function eventsOf({ events }: Installation): HostRequirement[] {
  if (events.length === 0) return [];
  const others = neededEvents.filter((event) => !events.includes(event) && !events.includes('*'));
  const advice = `Subscribe to ${others.join(', ')} in the App's settings, "Permissions & events", "Subscribe to events".`;
  return [requirement('webhook events', others.length === 0, advice)];
}

async function ofToken(api: GithubApi, repo: RepoPath): Promise<HostRequirement[]> {
  const at = api.in(repo);
  const user = await orRefusal(
    api.call(repo, { path: api.rest`/user` }, (_user, headers) => headers['x-oauth-scopes']),
  );
  if (user instanceof HostError) {
    const advice = `GitHub refused the token (${user.message}). It may have expired: create a new one and store it in the secret.`;
    return [missing('token', advice)];
  }
  const found = await orRefusal(
    api.call(repo, { path: at`` }, (body) => ({
      isPrivate: body.flag('private'),
      branch: body.text('default_branch'),
      mayPush: body.find('permissions')?.flag('push') ?? false,
    })),
  );
  if (found instanceof HostError) {
    const advice = `The token does not reach ${repo}. Give it access to this repository; an organization may also have to authorize it (SSO).`;
    return [met('token'), missing('repository', advice)];
  }
  const role = requirement(
    'role: write',
    found.mayPush,
    `The token's account may not push to ${repo}. Give it the role Write.`,
  );
  const basis = [met('token'), met('repository'), role];
  if (!user) return [...basis, ...(await probes(api, repo, found.branch))];
  const scopes = user.split(',').map((scope) => scope.trim());
  const isMet = scopes.includes('repo') || (scopes.includes('public_repo') && !found.isPrivate);
  const advice = `Give the token the scope "repo" (it has: ${user}) at Settings, "Developer settings", "Personal access tokens".`;
  return [...basis, requirement('scope: repo', isMet, advice)];
}

/**
 * Only a classic token lists its permissions. With any other token, a read is tried, and a write without its required
 * fields: GitHub checks the permission before it refuses such a write with 422.
 */
async function probes(api: GithubApi, repo: RepoPath, branch: string): Promise<HostRequirement[]> {
  const at = api.in(repo);
  const empty = { method: 'POST', body: {}, isWrite: false } as const;
  const tried: Readonly<Record<string, HttpRequest>> = {
    metadata: { path: at`` },
    contents: { ...empty, path: at`/git/refs` },
    pull_requests: { ...empty, path: at`/pulls` },
    issues: { ...empty, path: at`/issues` },
    checks: { path: at`/commits/${branch}/check-runs` },
    statuses: { path: at`/commits/${branch}/status` },
    actions: { path: at`/actions/runs` },
  };
  return Promise.all(
    needed.map(async ({ permission, title, access, why }) => {
      const request = tried[permission];
      const result = request && (await orRefusal(api.call(repo, request, () => null)));
      const isMet =
        (!(result instanceof HostError) || ![401, 403, 404].includes(result.status)) &&
        (permission !== 'actions' || (await mayReadLogs(api, repo)));
      const advice =
        permission === 'checks'
          ? 'GitHub offers fine-grained tokens no permission to read checks: use a classic token with the scope "repo", or a GitHub App.'
          : `Set "${title}" to "${accessTitles[access]}" (${why}) in the token's "Repository permissions".`;
      return requirement(`${permission}: ${access}`, isMet, advice);
    }),
  );
}

/** Anyone may list the runs of a public repository. A job that does not exist is refused first for the permission. */
async function mayReadLogs(api: GithubApi, repo: RepoPath): Promise<boolean> {
  const log = await orRefusal(api.endOfText(repo, { path: api.in(repo)`/actions/jobs/1/logs` }, 1));
  return !(log instanceof HostError) || ![401, 403].includes(log.status);
}
