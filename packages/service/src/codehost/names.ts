import { hash } from 'node:crypto';
import type { RepoPath, Subject } from './host.ts';

/** What begins the ids of all messages that code hosts cause: everything else was written by people or agents. */
export const messagePrefix = 'codehost-';

const digest = (...parts: readonly string[]): string => hash('sha256', JSON.stringify(parts), 'hex');

/**
 * The name of a change request's record, and of the agent that an issue triggers: the repository, the number, and a
 * digest that keeps repositories of the same name apart.
 */
export function recordName(
  integration: string,
  repo: RepoPath,
  number: number,
  type: Subject['type'] = 'change-request',
): string {
  // Some hosts number issues and change requests apart.
  const kind = type === 'issue' ? [type] : [];
  const end = `-${number}-${digest(integration, repo, ...kind).slice(0, 8)}`;
  const last = repo.split('/').at(-1) ?? '';
  const name = last.replace(/[^A-Za-z0-9._-]/g, '-').slice(0, 128 - end.length);
  return `${name || 'repository'}${end}`;
}

/** The id of a message about a change request or issue: the same for the same content, by whichever delivery. */
export const messageId = (record: string, about: string, ...content: readonly string[]): string =>
  `${messagePrefix}${about}-${digest(record, about, ...content).slice(0, 32)}`;

/** Where git reaches a repository over HTTP; null if the host has no such address. */
export function gitUrl(hostUrl: string, repo: RepoPath): string | null {
  const host = parsed(hostUrl);
  if (host?.protocol !== 'https:' && host?.protocol !== 'http:') return null;
  return `${host.origin}${host.pathname.replace(/\/+$/, '')}/${repo}.git`;
}

/** The URLs by which git may know a repository of the host, in lower case: hosts ignore the case of paths. */
export function repoUrls(hostUrl: string, repo: RepoPath): string[] {
  const name = parsed(hostUrl)?.hostname ?? '';
  return [`${hostUrl}/${repo}`, `git@${name}:${repo}`, `ssh://git@${name}/${repo}`]
    .map((url) => url.toLowerCase())
    .flatMap((url) => [`${url}.git`, url]);
}

function parsed(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}
