import type { Repository } from '../../lib/repositories.ts';
import { startOfBranch } from './changes.ts';
import type { LocalRepository } from './git.ts';

/** What CI systems run is at these paths. A file or a link in the place of a folder counts too. */
const ciPath = new RegExp(
  `^(${[
    '\\.github(/(workflows|actions)(/.*)?)?',
    '\\.gitlab(/ci(/.*)?)?',
    '\\.gitlab-ci\\.yml',
    '\\.(forgejo|gitea|circleci|buildkite)(/.*)?',
    '\\.woodpecker.*',
    '\\.(drone|travis)\\.yml',
    'Jenkinsfile',
    'azure-pipelines\\.yml',
  ].join('|')})$`,
  's',
);

/** Every path above is at or below one of these. */
const pathspecs = [
  ...[
    '.github',
    '.gitlab',
    '.gitlab-ci.yml',
    '.forgejo',
    '.gitea',
    '.circleci',
    '.buildkite',
    '.woodpecker*',
  ],
  ...['.drone.yml', '.travis.yml', 'Jenkinsfile', 'azure-pipelines.yml'],
];

const mostNameBytes = 1024 * 1024;

/**
 * The CI definitions that differ between a commit and its merge base with the base branch, so that a branch that was
 * rebased on, or merged with, a changed base passes. Fails when there are too many names to read.
 */
export async function changedCiDefinitions(
  objects: LocalRepository,
  repository: Repository,
  tip: string,
): Promise<string[]> {
  const base = await startOfBranch(objects, repository, tip, []);
  const diff = ['diff', '--no-ext-diff', '--name-only', '--no-renames', '-z', base, tip, '--', ...pathspecs];
  const names = await objects.git(diff, { mostBytes: mostNameBytes });
  return names.split('\0').filter((name) => ciPath.test(name));
}
