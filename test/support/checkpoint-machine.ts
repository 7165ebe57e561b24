import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import type { Harness, Processes } from '../../packages/service/src/harness/harness.ts';
import type { CheckpointOptions } from '../../packages/service/src/runner/checkpoint/checkpoint-client.ts';
import { agentProcesses } from '../../packages/service/src/runner/sandbox/processes.ts';
import type { PreparedRepository } from '../../packages/service/src/runner/workspace/prepare.ts';
import { type GitRemote, makeGitRemote } from './git-remote.ts';

/** Files that share a worker share it too, so it stays until the end of the whole run. */
const folder = mkdtempSync(join(tmpdir(), 'muster-checkpoint-'));

const { signal } = new AbortController();
export const repository = {
  name: 'code',
  path: '.',
  baseBranch: '',
  shownUrl: 'https://host/code',
} as PreparedRepository;

/** The folders of an agent on one machine. */
export class Machine {
  readonly workspace = mkdtempSync(join(folder, 'workspace-'));
  readonly home = mkdtempSync(join(folder, 'home-'));
  readonly processes: Processes = agentProcesses({
    sandbox: null,
    folders: { workspaceFolder: this.workspace, homeFolder: this.home },
    dataFolder: folder,
    runFolder: folder,
    agentKey: 'a',
    runId: 1,
    variables: { PATH: `${join(this.workspace, 'bin')}:${process.env.PATH}` },
    gateway: { port: 9 },
  });

  sh(script: string): string {
    return execFileSync('/bin/sh', ['-ec', script], {
      cwd: this.workspace,
      encoding: 'utf8',
      env: {
        PATH: process.env.PATH,
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_CONFIG_GLOBAL: '/dev/null',
        GIT_AUTHOR_NAME: 'A',
        GIT_AUTHOR_EMAIL: 'a@b',
        GIT_COMMITTER_NAME: 'A',
        GIT_COMMITTER_EMAIL: 'a@b',
      },
    }).trim();
  }

  /** As a runner does it: the agent's own branch, where it was pushed or at the base. */
  clone(remote: GitRemote): this {
    this.sh(`git clone --quiet ${remote.url} . 2> /dev/null
      git checkout --quiet -B work $(git rev-parse -q --verify origin/work || echo origin/main)`);
    return this;
  }
}

export const unusedClient: CheckpointOptions['client'] = {
  savePart: async () => {},
  complete: async () => {},
  checkpoints: async () => [],
  loadPart: async () => Buffer.alloc(0),
};

export const optionsOf = (machine: Machine, repos: readonly PreparedRepository[]): CheckpointOptions => ({
  client: unusedClient,
  claim: { session: 's', runId: 2 } as Claim,
  harness: { sessionFiles: () => [] } as unknown as Harness,
  workspaceFolder: machine.workspace,
  homeFolder: machine.home,
  isFresh: true,
  repos,
  processes: machine.processes,
  listener: { item: () => {}, diff: () => {}, unpushed: () => {} },
  observed: { add: () => {} },
  intervalMs: 60_000,
  signal,
});

let remotes = 0;
export function makeRemote(): GitRemote {
  const remote = makeGitRemote(folder, `remote-${remotes++}`);
  remote.commit('main', { '.gitignore': 'build\n', 'a.txt': 'a\n', 'b.txt': 'b\n', 'run.sh': 'echo\n' });
  return remote;
}
