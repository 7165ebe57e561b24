import { hash } from 'node:crypto';
import { scpAsUrl } from '@muster/sdk/contract';
import { isObject } from './json.ts';

/** A repository in the document of a workspace. */
export interface Repository {
  readonly name: string;
  /** May contain a password: only the runner's own git uses it. */
  readonly url: string;
  /** Without credentials: for the agent, the timeline and the status. */
  readonly shownUrl: string;
  /** Empty: the branch of the remote's HEAD. */
  readonly baseBranch: string;
  /** Its path in the workspace; `.` is the workspace itself. */
  readonly path: string;
}

export interface SplitUrl {
  readonly shownUrl: string;
  readonly username: string;
  readonly password: string;
}

/** The repositories of a workspace. Throws an error that names the field. */
export function readRepos(document: Readonly<Record<string, unknown>>): Repository[] {
  const given = document.repos ?? [];
  if (!Array.isArray(given)) throw new Error('repos of the workspace must be a list');
  const repos = given.map((item: unknown, index) => readRepo(item, index, given.length === 1));
  refuseOverlap(repos);
  return repos;
}

function readRepo(item: unknown, index: number, isOnly: boolean): Repository {
  const field = `repos[${index}]`;
  const fields = typeof item === 'string' ? { url: item } : item;
  if (!isObject(fields))
    throw new Error(`${field} must be a URL, or an object with url, baseBranch and path`);
  const text = (name: string): string => {
    const value = fields[name] ?? '';
    if (typeof value !== 'string') throw new Error(`${field}.${name} must be a text`);
    return value.trim();
  };
  const url = text('url');
  const problem = urlProblem(url);
  if (problem) throw new Error(`${field}.url ${problem}`);
  const name = nameOf(url);
  const path = text('path') || (isOnly ? '.' : name);
  return {
    name,
    url,
    shownUrl: splitUrl(url).shownUrl,
    baseBranch: text('baseBranch'),
    path: insidePath(path, `${field}.path`),
  };
}

const mostUrlLength = 4096;
const scpLike = /^[\w.][\w.-]*@[\w.[][^/:]*:[^:]/;

export function urlProblem(url: string): string | undefined {
  if (url === '') return 'must be the URL of a git repository';
  if (url.length > mostUrlLength) return `must be at most ${mostUrlLength} characters; got ${url.length}`;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (url.startsWith('-') || /[\x00-\x1f\x7f]/.test(url))
    return 'must not begin with - or contain control characters';
  const known = /^(https?|ssh):\/\/[^/-][^/]*\/./i.test(url) || /^file:\/\/\//i.test(url);
  if (known || url.startsWith('/') || scpLike.test(url)) return undefined;
  return 'must be https://…, http://…, ssh://…, user@host:path, file:///… or an absolute path on the runner';
}

/** Removes the credentials from a URL: with HTTP all of them, since a user name may be a token, else the password. */
export function splitUrl(url: string): SplitUrl {
  const [, scheme = '', userInfo = '', rest = ''] =
    /^((?:https?|ssh):\/\/)(?:([^/?#]*)@)?(.*)$/is.exec(url) ?? [];
  if (scheme === '') return { shownUrl: url, username: '', password: '' };
  const colon = userInfo.indexOf(':');
  const username = colon < 0 ? userInfo : userInfo.slice(0, colon);
  const password = colon < 0 ? '' : userInfo.slice(colon + 1);
  const kept = /^ssh/i.test(scheme) && username ? `${username}@` : '';
  return { shownUrl: `${scheme}${kept}${rest}`, username: decoded(username), password: decoded(password) };
}

/**
 * The key by which the workspaces of a repository are looked up; null for a repository without a host. It ignores
 * scheme, port, credentials and case, so several repositories may have the same key: callers compare what they find.
 */
export function repositoryDigest(url: string): string | null {
  const text = scpAsUrl(url.trim());
  if (!URL.canParse(text)) return null;
  const { hostname, pathname } = new URL(text);
  const path = pathname.replace(/^\/+|\/+$/g, '').replace(/\.git$/i, '');
  return hostname === '' ? null : hash('sha256', `${hostname}/${path}`.toLowerCase(), 'hex').slice(0, 32);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function nameOf(url: string): string {
  let end = url.length;
  while (end > 0 && /[/\\]/.test(url.charAt(end - 1))) end -= 1;
  return url
    .slice(0, end)
    .replace(/\.git$/i, '')
    .replace(/^.*[/\\:]/s, '');
}

function insidePath(path: string, field: string): string {
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  const isOutside = path.startsWith('/') || names.includes('..') || path.includes('\0');
  if (isOutside || names.some((name) => name.toLowerCase() === '.git'))
    throw new Error(`${field} must be a path inside the workspace, without .. and .git: "${path}"`);
  return names.join('/') || '.';
}

/** No repository inside another: the files of one must not determine where the other is written. */
function refuseOverlap(repos: readonly Repository[]): void {
  for (const [index, { path }] of repos.entries()) {
    const other = repos.findIndex((repo, at) => at !== index && isWithin(path, repo.path));
    if (other >= 0)
      throw new Error(
        `repos[${index}].path "${path}" is inside the path of repos[${other}]; give each its own path`,
      );
  }
}

const isWithin = (path: string, outer: string): boolean =>
  outer === '.' || path === outer || path.startsWith(`${outer}/`);
