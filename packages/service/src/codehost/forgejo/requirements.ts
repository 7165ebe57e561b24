import { HostError } from '../../work/host-error.ts';
import type { HttpClient, HttpRequest } from '../../work/http-client.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import type { HostRequirement } from '../host.ts';
import { orRefusal } from '../or-refusal.ts';
import { met, missing, requirement } from '../requirement.ts';
import type { RepoPaths } from './paths.ts';

/** What the integration needs, asked of the host. What a token may do is found out by requests that change nothing. */
export async function readRequirements(
  client: HttpClient,
  at: RepoPaths,
  repo: string,
): Promise<readonly HostRequirement[]> {
  const ask = <T>(request: HttpRequest, read: (reply: JsonReader) => T) =>
    orRefusal(client.call(request, read));
  const self = await ask({ path: '/user' }, () => null);
  if (self instanceof HostError && self.status === 401)
    return [missing('token', `The host does not accept the token: ${self.message}. Create a new one.`)];
  const empty = { method: 'POST', body: {}, isWrite: false } as const;
  const [found, pulls, issues] = await Promise.all([
    ask({ path: at`` }, (reply) => ({
      permissions: reply.find('permissions'),
      hasPulls: reply.flagOrNull('has_pull_requests') ?? true,
    })),
    ask({ ...empty, path: at`/pulls` }, () => null),
    ask({ ...empty, path: at`/issues` }, () => null),
  ]);
  const scope = (name: string, result: unknown): HostRequirement =>
    requirement(
      `scope: ${name}`,
      !(result instanceof HostError && [401, 403].includes(result.status)),
      `Create a token with the scope "${name}".`,
    );
  const scopes = [scope('read:user', self), scope('write:repository', pulls), scope('write:issue', issues)];
  if (found instanceof HostError)
    return [
      met('token'),
      ...scopes,
      missing('repository', `Add the token's account to ${repo} as a collaborator.`),
    ];
  const may = (permission: string): boolean => found.permissions?.flag(permission) ?? false;
  return [
    met('token'),
    ...scopes,
    met('repository'),
    requirement(
      'permission: write',
      may('push'),
      `Give the token's account write access to ${repo} (to push and to comment).`,
    ),
    requirement(
      'permission: admin',
      may('admin'),
      `Make the token's account an administrator of ${repo}: only they may ask what other people may do.`,
    ),
    requirement('pull requests', found.hasPulls, `Enable pull requests in the settings of ${repo}.`),
  ];
}
