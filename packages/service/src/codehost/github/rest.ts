import { HostError } from '../../work/host-error.ts';
import { urlPath } from '../../work/http-client.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import type { Person, RepoPath } from '../host.ts';

/** Makes the paths of GitHub's REST API, which are below `/v3` on an Enterprise Server. */
export type RestPaths = (parts: TemplateStringsArray, ...values: readonly (string | number)[]) => string;

/** The API of a GitHub by the address that people use. */
export function endpointsOf(url: string): { readonly baseUrl: string; readonly rest: RestPaths } {
  const { origin, protocol, hostname, host } = new URL(url);
  const under =
    (prefix: string): RestPaths =>
    (parts, ...values) =>
      `${prefix}${urlPath(parts, ...values)}`;
  if (hostname === 'github.com' || hostname === 'www.github.com')
    return { baseUrl: 'https://api.github.com', rest: under('') };
  if (hostname.endsWith('.ghe.com')) return { baseUrl: `${protocol}//api.${host}`, rest: under('') };
  return { baseUrl: `${origin}/api`, rest: under('/v3') };
}

/** Paths below a repository: inRepo(rest, 'team/project')`/pulls/${7}`. */
export function inRepo(rest: RestPaths, repo: RepoPath): RestPaths {
  const [owner = '', name = '', ...others] = repo.split('/');
  if (others.length > 0 || owner === '' || name === '')
    throw new HostError(
      'refused',
      0,
      `${JSON.stringify(repo)} is not a repository of GitHub; expected owner/name`,
    );
  return (parts, ...values) => `${rest`/repos/${owner}/${name}`}${urlPath(parts, ...values)}`;
}

/** The account `ghost` owns what deleted accounts wrote. */
const ghost: Person = { id: '10137', login: 'ghost' };

export const personOf = (user: JsonReader | null): Person =>
  user === null ? ghost : { id: String(user.number('id')), login: user.text('login') };

/**
 * GitHub numbers its three kinds of comments apart: each id gets the name that GitHub gives the kind in the links to
 * its comments.
 */
export const commentIds = {
  conversation: (id: number | string): string => `issuecomment-${id}`,
  line: (id: number | string): string => `discussion_r${id}`,
  review: (id: number | string): string => `pullrequestreview-${id}`,
};
