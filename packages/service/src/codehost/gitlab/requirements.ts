import { HostError, type HostRequirement, type RepoPath } from '../host.ts';
import type { HttpClient, HttpRequest } from '../http-client.ts';
import type { JsonReader } from '../json-reader.ts';
import { orRefusal } from '../or-refusal.ts';
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
    hasScope
      ? met('scope: api')
      : missing('scope: api', 'Create a personal, project or group access token with the scope "api".'),
    project instanceof HostError
      ? missing('project', `The token's account can't see ${repo}. Add it to the project as a Developer.`)
      : met('project'),
    isMember
      ? met('role: Developer')
      : missing('role: Developer', `Give the token's account at least the role Developer in ${repo}.`),
    project === false
      ? missing('merge requests', `Enable merge requests in the settings of ${repo}.`)
      : met('merge requests'),
  ];
}

function scopesOf(token: JsonReader): readonly unknown[] {
  const { scopes } = token.value as { readonly scopes?: unknown };
  if (!Array.isArray(scopes)) throw new TypeError('scopes must be a list');
  return scopes;
}

const met = (name: string): HostRequirement => ({ name, isMet: true, advice: '' });

const missing = (name: string, advice: string): HostRequirement => ({ name, isMet: false, advice });
