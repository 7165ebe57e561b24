import { HostError } from '../../work/host-error.ts';
import type { HttpClient, HttpRequest } from '../../work/http-client.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import type { HostRequirement, RepoPath } from '../host.ts';
import { orRefusal } from '../or-refusal.ts';
import { met, missing, requirement } from '../requirement.ts';
import type { ProjectPaths } from './paths.ts';

const developer = 30;

/** What the integration needs, asked of GitLab. */
export async function readRequirements(
  client: HttpClient,
  at: ProjectPaths,
  repo: RepoPath,
): Promise<readonly HostRequirement[]> {
  const ask = <T>(request: HttpRequest, read: (reply: JsonReader) => T) =>
    orRefusal(client.call(request, read));
  const self = await ask({ path: '/user' }, (user) => user.number('id'));
  if (self instanceof HostError)
    return [missing('token', `GitLab does not accept the token: ${self.message}. Create a new one.`)];
  const [scopes, project, level] = await Promise.all([
    ask({ path: '/personal_access_tokens/self' }, scopesOf),
    ask({ path: at`` }, (found) => found.flagOrNull('merge_requests_enabled') ?? true),
    ask({ path: at`/members/all/${self}` }, (member) => member.number('access_level')),
  ]);
  const hasScope = !(scopes instanceof HostError) && scopes.includes('api');
  const isMember = !(level instanceof HostError) && level >= developer;
  return [
    met('token'),
    requirement(
      'scope: api',
      hasScope,
      'Create a personal, project or group access token with the scope "api".',
    ),
    requirement(
      'project',
      !(project instanceof HostError),
      `The token's account can't see ${repo}. Add it to the project as a Developer.`,
    ),
    requirement(
      'role: Developer',
      isMember,
      `Give the token's account at least the role Developer in ${repo}.`,
    ),
    requirement('merge requests', project !== false, `Enable merge requests in the settings of ${repo}.`),
  ];
}

function scopesOf(token: JsonReader): readonly unknown[] {
  const { scopes } = token.value as { readonly scopes?: unknown };
  if (!Array.isArray(scopes)) throw new TypeError('scopes must be a list');
  return scopes;
}
