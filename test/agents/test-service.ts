import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { AgentStatus, EntryType } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import type { SeenRequest, Step } from '../provider/script.ts';
import { type ProviderStub, startProviderStub } from '../provider/stub.ts';
import { Agents, accepted } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, uniqueName, writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { processText, removeTree } from '../support/files.ts';
import { type GitRemote, makeGitRemote } from '../support/git-remote.ts';
import { testNodeFlags } from '../support/node-flags.ts';
import { sandbox } from '../support/sandbox.ts';
import { program, type Server, startServer } from '../support/server.ts';

/** Keys that no agent may find anywhere. */
export const providerKeys = {
  anthropic: 'sk-ant-canary-7d1f0c2b9a',
  openai: 'sk-openai-canary-51c8e07d3f',
} as const;

export interface Backend {
  readonly title: string;
  /** For the names of agents. */
  readonly name: string;
  readonly model: string;
  readonly otherModel: string;
  readonly provider: 'anthropic' | 'openai';
}

export const claudeCode: Backend = {
  title: 'Claude Code',
  name: 'claude',
  model: 'claude-opus-4-8',
  otherModel: 'claude-sonnet-5',
  provider: 'anthropic',
};
export const codex: Backend = {
  title: 'Codex',
  name: 'codex',
  model: 'gpt-5.5',
  otherModel: 'gpt-5.4',
  provider: 'openai',
};
export const backends: readonly Backend[] = [claudeCode, codex];

/** For several runs, each of which starts a harness, on a machine that is busy with other tests. */
export const patienceMs = 50_000;

/** Agents with questions that only tests of whole runs have. */
export class TestAgents extends Agents {
  /** The status when the agent neither works nor waits for a run. */
  async idle(path: string, withinMs = patienceMs): Promise<AgentStatus> {
    const timeoutSeconds = withinMs / 1000;
    const waited = await this.send<AgentStatus>('agent/wait', path, { timeoutSeconds });
    const status = accepted(`wait for ${path}`, waited);
    if (status.timedOut) throw new Error(`${path} is never idle: ${JSON.stringify(status)}`);
    return status;
  }

  /** The status when this run of the agent has ended and no other has started. */
  runEnded(path: string, runId: number): Promise<AgentStatus> {
    return until(
      `the end of run ${runId} of ${path}`,
      () => this.idle(path),
      ({ run }) => Number(run?.runId) === runId && run?.state === 'ENDED',
      patienceMs,
    );
  }

  /** The status when the run says that it is doing this. */
  doing(path: string, action: string): Promise<AgentStatus> {
    return until(
      `"${action}" in the status`,
      () => this.status(path),
      ({ run }) => !!run?.currentAction.includes(action),
      patienceMs,
    );
  }

  /** The outcome of each run, oldest first. */
  async outcomes(path: string): Promise<string[]> {
    return (await this.runs(path)).map(({ outcome }) => outcome).reverse();
  }

  async texts(path: string, ...types: EntryType[]): Promise<string[]> {
    return (await this.timeline(path, ...types)).map(({ text }) => text);
  }

  /** The images of its tools, as base64. */
  async images(path: string): Promise<string[]> {
    const results = await this.timeline(path, 'TOOL_RESULT');
    const ids = results.flatMap(({ data }) => (data.attachmentIds ?? []) as string[]);
    const agentId = this.id(path);
    const read = (attachmentId: string) =>
      this.api.post<{ content: string }>('/v1/agent/attachment', { agentId, attachmentId });
    return (await Promise.all(ids.map(read))).map((answer) => expectOk(answer).content);
  }

  warnings(path: string): Promise<string[]> {
    return this.texts(path, 'WARNING', 'ERROR');
  }
}

/** Phase and reason of a status: `WAITING_FOR_INPUT/RESTING`. */
export const reasonOf = ({ phase, phaseReason }: AgentStatus): string =>
  `${phase.slice('PHASE_'.length)}/${phaseReason}`;

/** What this command prints in a new agent. */
export async function printedBy(agents: TestAgents, path: string, command: string): Promise<string> {
  await agents.spawn(path, { description: `!run ${command}` });
  const { error } = await agents.idle(path);
  if (error) throw new Error(`${path}: ${error.message}`);
  return (await agents.texts(path, 'TOOL_RESULT')).join('');
}

/** A service whose agents are the real harnesses, with a stub of their providers. */
export class TestService {
  readonly stub: ProviderStub;
  server: Server;
  readonly api: Api;
  readonly folder: string;
  readonly #runners: MusterRunner[] = [];
  readonly #stopped: Server[] = [];
  #database: Promise<pg.Client> | undefined;

  private constructor(stub: ProviderStub, server: Server) {
    this.stub = stub;
    this.server = server;
    this.api = apiOf(server);
    this.folder = mkdtempSync(join(tmpdir(), 'muster-agents-'));
  }

  static async start({ env, ...options }: TestServiceOptions = {}): Promise<TestService> {
    const stub = await startProviderStub();
    return new TestService(
      stub,
      await startServer({
        ...options,
        env: { ...providerEnvironment(stub), ...(typeof env === 'function' ? env(stub) : env) },
      }),
    );
  }

  /** Returns the marker that makes the model play these steps. */
  script(...steps: readonly Step[]): string {
    return this.stub.script(steps);
  }

  /** When the model has been asked so often to play this script. */
  async asked(marker: string, times = 1): Promise<void> {
    await this.stub.whenSeen(() => this.stub.requestsOf(marker).length >= times);
  }

  firstRequest(marker: string): SeenRequest {
    const [first] = this.stub.requestsOf(marker);
    if (!first) throw new Error(`no request of ${marker}`);
    return first;
  }

  lastRequest(marker: string): SeenRequest {
    return this.stub.requestsOf(marker).at(-1) ?? this.firstRequest(marker);
  }

  /** A workspace with one repository on this machine, whose first commit has these files. */
  async workspace(
    files: Readonly<Record<string, string>> = { 'README.md': '# Demo\n' },
    document: Readonly<Record<string, unknown>> = {},
  ): Promise<{ agents: TestAgents; remote: GitRemote }> {
    const name = uniqueName('code');
    const remote = makeGitRemote(this.folder, name);
    remote.commit('main', files);
    await writeResource(this.api, 'workspace', name, { repos: [remote.url], ...document });
    return { agents: new TestAgents(this.api, name), remote };
  }

  async emptyWorkspace(document: Readonly<Record<string, unknown>> = {}): Promise<TestAgents> {
    const name = uniqueName('empty');
    await writeResource(this.api, 'workspace', name, document);
    return new TestAgents(this.api, name);
  }

  /** A runner on "another machine": its own process with its own folder, or that of an earlier runner. */
  async runner(
    pool: string,
    env: Readonly<Record<string, string>> = {},
    folder = mkdtempSync(join(this.folder, 'runner-')),
  ): Promise<MusterRunner> {
    const { key } = await createKey(this.api, { role: 'runner', pool });
    const options = { url: this.server.url, key, pool, folder };
    const runner = await MusterRunner.start({
      ...options,
      env: { ...providerEnvironment(this.stub), ...env },
    });
    this.#runners.push(runner);
    return runner;
  }

  /** Stops the service with this signal and starts it again at the same address, with the same database. */
  async restartServer(signal: NodeJS.Signals): Promise<void> {
    const { url, databaseUrl, env } = this.server;
    this.#stopped.push(this.server);
    await this.server.end(signal);
    this.server = await startServer({ databaseUrl, env: { ...env, MUSTER_PORT: new URL(url).port } });
  }

  /** The rows of a query to the database of the service. */
  async query<T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> {
    this.#database ??= connect(this.server.databaseUrl);
    return (await (await this.#database).query<T>(text, values)).rows;
  }

  async close(): Promise<void> {
    await Promise.all(this.#runners.map((runner) => runner.kill()));
    await (await this.#database)?.end();
    for (const server of [this.server, ...this.#stopped]) await server.close();
    await this.stub.close();
    removeTree(this.folder);
  }
}

async function connect(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  return client;
}

type Variables = Readonly<Record<string, string | undefined>>;

interface TestServiceOptions {
  readonly env?: Variables | ((stub: ProviderStub) => Variables);
  /** Whether `muster serve` starts a runner inside. */
  readonly runner?: boolean;
}

/** One service for the tests of a file or a `describe`. `prepare` runs once before them. */
export function useTestService(
  options: TestServiceOptions = {},
  prepare: (service: TestService) => Promise<void> = async () => {},
): () => TestService {
  let service: TestService | undefined;
  beforeAll(async () => {
    service = await TestService.start(options);
    await prepare(service);
  });
  afterAll(() => service?.close());
  return () => {
    if (!service) throw new Error('the service is not started yet');
    return service;
  };
}

/** Both providers are the stub. */
export const providerEnvironment = (stub: ProviderStub): Record<string, string> => ({
  ANTHROPIC_API_KEY: providerKeys.anthropic,
  ANTHROPIC_BASE_URL: stub.anthropicUrl,
  OPENAI_API_KEY: providerKeys.openai,
  OPENAI_BASE_URL: stub.openaiUrl,
  MUSTER_SANDBOX: sandbox ? 'required' : 'off',
});

/** `muster runner` as an operator starts it. */
export class MusterRunner {
  /** The same after a restart in the same folder. */
  readonly name: string;
  readonly folder: string;
  readonly process: ChildProcess;

  constructor(name: string, folder: string, child: ChildProcess) {
    this.name = name;
    this.folder = folder;
    this.process = child;
  }

  static async start(options: {
    readonly url: string;
    readonly key: string;
    readonly pool: string;
    readonly folder: string;
    readonly env: Readonly<Record<string, string>>;
    readonly nodeFlags?: readonly string[];
    readonly args?: readonly string[];
  }): Promise<MusterRunner> {
    const { url, key, pool, folder, env, nodeFlags = testNodeFlags, args = [] } = options;
    const name = env.MUSTER_RUNNER_NAME ?? basename(folder);
    const child = spawn(
      process.execPath,
      [...nodeFlags, program, 'runner', '--url', url, '--pool', pool, '--data', folder, ...args],
      {
        env: { PATH: process.env.PATH, HOME: folder, MUSTER_API_KEY: key, ...env, MUSTER_RUNNER_NAME: name },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    await new Promise<void>((resolve, reject) => {
      let output = '';
      const listen = (chunk: Buffer) => {
        output += chunk.toString();
        if (/serves http/.test(output)) resolve();
      };
      child.stdout.on('data', listen);
      child.stderr.on('data', listen);
      child.once('close', (code) => reject(new Error(`muster runner ended with ${code}:\n${output}`)));
    });
    return new MusterRunner(name, folder, child);
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, 'exit');
    this.process.kill(signal);
    await gone;
  }
}

/** Everything that a model gets in a request: instructions, tools and the conversation. */
export const contentOf = ({ body }: SeenRequest): string => JSON.stringify(body);

/** The harness's own name of the session, which both send to their providers. */
export const sessionOf = ({ headers }: SeenRequest): unknown =>
  headers['x-claude-code-session-id'] ?? headers['session-id'];

/** The settings in a request to a provider. */
export function settingsIn({ provider, body }: SeenRequest): {
  readonly model: unknown;
  readonly effort: unknown;
  readonly speed: unknown;
} {
  const { model, speed, service_tier: tier } = body;
  const { effort } = ((provider === 'anthropic' ? body.output_config : body.reasoning) ?? {}) as Fields;
  return { model, effort, speed: provider === 'anthropic' ? speed : tier };
}

type Fields = Readonly<Record<string, unknown>>;

export const timesIn = (text: string, part: string): number => text.split(part).length - 1;

/** A promise for an `until` step, and the function that resolves it. */
export function gate(): { readonly promise: Promise<void>; readonly open: () => void } {
  let open: () => void = () => {};
  const promise = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { promise, open };
}

/** The pids of all processes with this text in their command line or environment. Zombies have neither. */
export function processesWith(
  text: string,
  files: readonly ('cmdline' | 'environ')[] = ['cmdline', 'environ'],
): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    return files.some((file) => processText(pid, file).includes(text));
  });
}
