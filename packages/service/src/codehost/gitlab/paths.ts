import { urlPath } from '../../work/http-client.ts';
import type { RepoPath } from '../host.ts';

/** Paths below a project: at`/merge_requests/${7}`. */
export type ProjectPaths = (parts: TemplateStringsArray, ...values: readonly (string | number)[]) => string;

export const projectPaths =
  (repo: RepoPath): ProjectPaths =>
  (parts, ...values) =>
    `${urlPath`/projects/${repo}`}${urlPath(parts, ...values)}`;
