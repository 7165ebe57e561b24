import type { IntegrationDocument } from './kinds/integration.ts';
import { matchesPath } from './path-pattern.ts';

const defaultUrls: Readonly<Record<string, string>> = {
  github: 'https://github.com',
  gitlab: 'https://gitlab.com',
};

/** The address of an integration's host; empty if it names none. */
export const hostUrlOf = ({ type = '', url }: IntegrationDocument): string =>
  (url || defaultUrls[type] || '').replace(/\/+$/, '');

/** `user@host:path` is how git writes a path over ssh. */
export const scpAsUrl = (url: string): string =>
  url.replace(/^([\w.-]+@)([\w.-]+):(?!\/\/)\/?/, 'ssh://$1$2/');

/** The full path of a repository at the host, from a URL that git uses; null if it is elsewhere. */
export function repoAt(hostUrl: string, repoUrl: string): string | null {
  const host = parsed(hostUrl);
  const repo = parsed(scpAsUrl(repoUrl));
  if (!host || !repo || host.hostname !== repo.hostname) return null;
  // Over ssh the port and the scheme differ from those of the web address.
  const isWeb = repo.protocol === 'https:' || repo.protocol === 'http:';
  if (isWeb && repo.host !== host.host) return null;
  const base = isWeb ? host.pathname.replace(/\/+$/, '') : '';
  if (!repo.pathname.startsWith(`${base}/`)) return null;
  const name = repo.pathname
    .slice(base.length)
    .replace(/^\/|\/+$/g, '')
    .replace(/\.git$/i, '');
  return repoPath.test(name) ? name : null;
}

/** Nothing that a host, a pattern and git could read differently. */
const repoPath = /^[\w.-]+(\/[\w.-]+)+$/;

function parsed(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

/** Without patterns, every repository of the host is covered. */
export const coversRepo = (patterns: readonly string[], path: string): boolean =>
  patterns.length === 0 || patterns.some((pattern) => matchesRepo(pattern, path));

export const matchesRepo = (pattern: string, path: string): boolean =>
  matchesPath(pattern.toLowerCase(), path.toLowerCase());

/** The path of a repository at the host of an integration that covers it. */
export function coveredRepo(document: IntegrationDocument, repoUrl: string): string | null {
  const path = repoAt(hostUrlOf(document), repoUrl);
  return path !== null && coversRepo(document.repos ?? [], path) ? path : null;
}
