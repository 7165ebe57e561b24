import { HostError } from '../../work/host-error.ts';
import { urlPath } from '../../work/http-client.ts';
import type { RepoPath } from '../host.ts';

/** Paths below a repository: at`/pulls/${7}`. */
export type RepoPaths = (parts: TemplateStringsArray, ...values: readonly (string | number)[]) => string;

export function repoPaths(repo: RepoPath): RepoPaths {
  const [owner = '', name = '', ...others] = repo.split('/');
  if (others.length > 0 || owner === '' || name === '')
    throw new HostError('refused', 0, `${JSON.stringify(repo)} is not a repository; expected owner/name`);
  return (parts, ...values) => `${urlPath`/repos/${owner}/${name}`}${urlPath(parts, ...values)}`;
}
