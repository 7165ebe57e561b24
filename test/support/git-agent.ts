import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import type { Claim, ReportItem } from '@muster/sdk/contract';
import type { Diff, Push } from '../../packages/service/src/harness/harness.ts';
import { silentLog } from '../../packages/service/src/lib/log.ts';
import { gitEndpoint } from '../../packages/service/src/runner/gateway/git.ts';
import { TenantRights } from '../../packages/service/src/runner/tenant-allow.ts';
import {
  type AskCredential,
  noCredential,
} from '../../packages/service/src/runner/workspace/git-credentials.ts';
import type { Mirrors } from '../../packages/service/src/runner/workspace/mirror.ts';
import {
  cloneRepositories,
  gitConfig,
  prepareRepositories,
} from '../../packages/service/src/runner/workspace/prepare.ts';
import type { GitRemote } from './git-remote.ts';

export interface GitAgentPlace {
  readonly folder: string;
  readonly mirrors: Mirrors;
  readonly remote: GitRemote;
  readonly name: string;
}

export interface GitAgentOptions {
  readonly repos?: unknown[];
  readonly startFrom?: string[];
  readonly allowCiChanges?: boolean;
  readonly askCredential?: AskCredential;
}

interface Said {
  readonly ok: boolean;
  readonly output: string;
}

/** An agent's clone, and its git, which reaches the gateway's git routes. The caller closes `server`. */
export async function startGitAgent(
  { folder, mirrors, remote, name }: GitAgentPlace,
  options: GitAgentOptions = {},
) {
  const branch = `muster/${name}`;
  const workspace = join(folder, 'data', name);
  const stop = new AbortController();
  const startFrom = options.startFrom ?? [];
  const claim = {
    agentId: { tenant: { provider: 'PROVIDER_UNSPECIFIED', org: 'acme' }, agent: ['root', name] },
    token: 'run-token',
    branch,
    startFrom,
    workspace: { document: { repos: options.repos ?? [remote.url] }, environment: {}, vmProfile: {} },
  } as unknown as Claim;
  const signal = stop.signal;
  const rights = new TenantRights(new Map(), claim.agentId.tenant, true);
  const repos = await prepareRepositories({
    claim,
    folder: workspace,
    mirrors,
    rights,
    askFor: () => options.askCredential ?? noCredential,
    fresh: true,
    signal,
  });
  await cloneRepositories(workspace, repos, { branch, startFrom, signal });
  const pushes: Push[] = [];
  const diffs: Diff[] = [];
  const items: ReportItem[] = [];
  const listener = {
    push: (push: Push) => pushes.push(push),
    diff: (diff: Diff) => diffs.push(diff),
    item: (item: ReportItem) => items.push(item),
  };
  const { allowCiChanges = false } = options;
  const endpoint = gitEndpoint({
    repos,
    branch,
    startFrom,
    allowCiChanges,
    listener,
    signal,
    log: silentLog,
  });
  const tokens = new Set<string>();
  const server = createServer((request, response) => {
    tokens.add(request.headers.authorization ?? '');
    endpoint.handle(request, response, request.url ?? '');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const endpointUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const configFile = join(folder, `${name}.gitconfig`);
  await writeFile(configFile, gitConfig(claim, endpointUrl, repos));
  const environment = {
    PATH: process.env.PATH,
    HOME: join(folder, 'nowhere'),
    GIT_CONFIG_GLOBAL: configFile,
    GIT_CONFIG_NOSYSTEM: '1',
    LC_ALL: 'C.UTF-8',
    http_proxy: 'http://127.0.0.1:9',
  };
  const tryRun = (program: string, args: readonly string[]): Promise<Said> =>
    new Promise((resolve) => {
      execFile(program, args, { cwd: workspace, env: environment }, (error, stdout, stderr) =>
        resolve({ ok: !error, output: `${stdout}${stderr}`.trim() }),
      );
    });
  const run = async (program: string, ...args: string[]): Promise<string> => {
    const said = await tryRun(program, args);
    if (!said.ok) throw new Error(said.output);
    return said.output;
  };
  const tryGit = (args: readonly string[]): Promise<Said> => tryRun('git', args);
  const git = (...args: string[]): Promise<string> => run('git', ...args);
  const commit = async (files: Record<string, string>, at = '.'): Promise<string> => {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(workspace, at, path)), { recursive: true });
      await writeFile(join(workspace, at, path), text);
    }
    // One process of this one, which is large: starting it costs more than git itself.
    await run('/bin/sh', '-c', 'cd "$1" && git add --all && git commit --quiet --message work', 'sh', at);
    const repository = join(workspace, at, '.git');
    const [, ref = ''] = (await readFile(join(repository, 'HEAD'), 'utf8')).trim().split('ref: ');
    return (await readFile(join(repository, ref), 'utf8')).trim();
  };
  const { close } = endpoint;
  return {
    server,
    branch,
    workspace,
    pushes,
    diffs,
    items,
    tokens,
    stop,
    close,
    endpointUrl,
    tryGit,
    git,
    commit,
  };
}
