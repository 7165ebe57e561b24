import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ProviderStub, startProviderStub } from '../provider/stub.ts';
import { Agents } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { createKey, uniqueName, writeResource } from '../support/catalog.ts';
import { type GitRemote, makeGitRemote } from '../support/git-remote.ts';
import { sandbox } from '../support/sandbox.ts';
import { program, type Server, startServer } from '../support/server.ts';

/** Keys that must never be found anywhere near an agent. */
export const providerKeys = {
  anthropic: 'sk-ant-canary-7d1f0c2b9a',
  openai: 'sk-openai-canary-51c8e07d3f',
} as const;

export interface Backend {
  readonly title: string;
  readonly model: string;
  readonly otherModel: string;
  readonly provider: 'anthropic' | 'openai';
}

/** Both harnesses, Codex in both of the dialects that its models speak. */
export const claudeCode: Backend = {
  title: 'Claude Code',
  model: 'claude-opus-4-8',
  otherModel: 'claude-sonnet-5',
  provider: 'anthropic',
};
export const codex: Backend = {
  title: 'Codex',
  model: 'gpt-5.5',
  otherModel: 'gpt-5.4',
  provider: 'openai',
};
export const backends: readonly Backend[] = [claudeCode, codex];

/** A service whose agents are the real ones, in front of the stub of their providers. */
export class Fleet {
  readonly stub: ProviderStub;
  server: Server;
  readonly api: Api;
  readonly folder: string;
  readonly #runners: MusterRunner[] = [];
  readonly #ended: Server[] = [];

  constructor(stub: ProviderStub, server: Server, folder: string) {
    this.stub = stub;
    this.server = server;
    this.api = apiOf(server);
    this.folder = folder;
  }

  /** A workspace with one repository, on this machine; `files` are its first commit. */
  async workspace(
    files: Readonly<Record<string, string>> = { 'README.md': '# Demo\n' },
    document: Readonly<Record<string, unknown>> = {},
  ): Promise<{ agents: Agents; remote: GitRemote }> {
    const name = uniqueName('code');
    const remote = makeGitRemote(this.folder, name);
    remote.commit('main', files);
    await writeResource(this.api, 'workspace', name, { repos: [remote.url], ...document });
    return { agents: new Agents(this.api, name), remote };
  }

  /** A workspace with nothing in it. */
  async plain(document: Readonly<Record<string, unknown>> = {}): Promise<Agents> {
    const name = uniqueName('plain');
    await writeResource(this.api, 'workspace', name, document);
    return new Agents(this.api, name);
  }

  /** A runner on "another machine": a process of its own with a folder of its own. */
  async runner(
    pool: string,
    env: Readonly<Record<string, string>> = {},
    folder?: string,
  ): Promise<MusterRunner> {
    const { key } = await createKey(this.api, { role: 'runner', pool });
    const runner = await MusterRunner.start({
      url: this.server.url,
      key,
      pool,
      folder: folder ?? mkdtempSync(join(this.folder, 'runner-')),
      env: { ...providerEnvironment(this.stub), ...env },
    });
    this.#runners.push(runner);
    return runner;
  }

  /** The service ends by this signal, and is started again at the same address, with the same database. */
  async restartServer(signal: NodeJS.Signals): Promise<void> {
    const { url, databaseUrl, env } = this.server;
    this.#ended.push(this.server);
    await this.server.end(signal);
    this.server = await startServer({ databaseUrl, env: { ...env, MUSTER_PORT: new URL(url).port } });
  }

  async close(): Promise<void> {
    for (const runner of this.#runners) await runner.kill();
    for (const server of [this.server, ...this.#ended]) await server.close();
    await this.stub.close();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

const providerEnvironment = (stub: ProviderStub): Record<string, string> => ({
  ANTHROPIC_API_KEY: providerKeys.anthropic,
  ANTHROPIC_BASE_URL: stub.anthropicUrl,
  OPENAI_API_KEY: providerKeys.openai,
  OPENAI_BASE_URL: stub.openaiUrl,
  MUSTER_SANDBOX: sandbox ? 'required' : 'off',
});

export async function startFleet(
  options: { readonly env?: Readonly<Record<string, string | undefined>>; readonly runner?: boolean } = {},
): Promise<Fleet> {
  const stub = await startProviderStub();
  const server = await startServer({
    ...(options.runner !== undefined && { runner: options.runner }),
    env: { ...providerEnvironment(stub), ...options.env },
  });
  return new Fleet(stub, server, mkdtempSync(join(tmpdir(), 'muster-fleet-')));
}

/** `muster runner` as an operator starts it. */
export class MusterRunner {
  readonly folder: string;
  readonly process: ChildProcess;

  constructor(folder: string, child: ChildProcess) {
    this.folder = folder;
    this.process = child;
  }

  static async start(options: {
    readonly url: string;
    readonly key: string;
    readonly pool: string;
    readonly folder: string;
    readonly env: Readonly<Record<string, string>>;
  }): Promise<MusterRunner> {
    const { url, key, pool, folder, env } = options;
    const child = spawn(
      process.execPath,
      [program, 'runner', '--url', url, '--pool', pool, '--data', folder],
      {
        env: { PATH: process.env.PATH, HOME: folder, MUSTER_API_KEY: key, ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    await new Promise<void>((resolve, reject) => {
      let said = '';
      const listen = (chunk: Buffer) => {
        said += chunk.toString();
        if (/serves http/.test(said)) resolve();
      };
      child.stdout.on('data', listen);
      child.stderr.on('data', listen);
      child.once('close', (code) => reject(new Error(`muster runner ended with ${code}:\n${said}`)));
    });
    return new MusterRunner(folder, child);
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, 'exit');
    this.process.kill(signal);
    await gone;
  }
}
