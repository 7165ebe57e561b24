import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { filesBelow, readUnlessGone } from '../support/files.ts';
import type { GitRemote } from '../support/git-remote.ts';
import { type MusterRunner, patienceMs, type TestAgents, type TestService } from './test-service.ts';

export const withoutRunner = { runner: false } as const;

/** Runners with their own pool, so that no other test's runners take their agents, and a workspace in that pool. */
export class TestRunners {
  readonly agents: TestAgents;
  readonly remote: GitRemote;
  readonly #pool: string;
  readonly #service: TestService;

  private constructor(
    service: TestService,
    pool: string,
    { agents, remote }: { readonly agents: TestAgents; readonly remote: GitRemote },
  ) {
    this.#service = service;
    this.#pool = pool;
    this.agents = agents;
    this.remote = remote;
  }

  static async create(service: TestService): Promise<TestRunners> {
    const pool = uniqueName('pool');
    await writeResource(service.api, 'pool', pool, {});
    return new TestRunners(service, pool, await service.workspace({ 'README.md': '# Wall\n' }, { pool }));
  }

  /** Adds these fields to the document of the workspace. */
  async use(document: Readonly<Record<string, unknown>>): Promise<void> {
    const repos = [this.remote.url];
    await writeResource(this.#service.api, 'workspace', this.agents.workspace, {
      ...{ repos, pool: this.#pool },
      ...document,
    });
  }

  /** A new runner; or, in the folder of an earlier one, that one after a restart. */
  start(env: Readonly<Record<string, string>> = {}, folder?: string): Promise<MusterRunner> {
    return this.#service.runner(this.#pool, env, folder);
  }

  /** Kills the runner, and lets its lease end immediately: one that is short may end on a busy machine by itself. */
  async lose(runner: MusterRunner): Promise<void> {
    await runner.kill();
    await until(
      'the lease ended',
      () =>
        this.#service.query(
          `UPDATE runners SET lease_until = now() WHERE pool = $1 AND name = $2 AND lease_until > now() RETURNING id`,
          [this.#pool, runner.name],
        ),
      ({ length }) => length === 0,
    );
  }

  /** The key of an agent: the name of its folder, and part of its processes' environment. */
  async keyOf(path: string): Promise<string> {
    const [row] = await this.#service.query<{ id: string }>(
      'SELECT id FROM agents WHERE workspace = $1 AND path = $2',
      [this.agents.workspace, path],
    );
    if (!row) throw new Error(`no agent ${path}`);
    return row.id;
  }

  /** When the last run of the agent is lost. */
  async lost(path: string): Promise<void> {
    await until(
      'the run lost',
      () => this.agents.texts(path, 'RUN_ENDED'),
      (outcomes) => outcomes.at(-1) === 'LOST',
      patienceMs,
    );
  }

  /** The runner of each run, and its attempt at its messages, oldest first. */
  async starts(path: string): Promise<{ runner: string; attempt: number; batch: string }[]> {
    const started = await this.agents.timeline(path, 'RUN_STARTED');
    return started.map(({ data }) => ({
      runner: String(data.runner),
      attempt: Number(data.attempt),
      batch: String(data.batch),
    }));
  }

  /** The conversation in each request for this script. */
  conversations(marker: string): string[] {
    const requests = this.#service.stub.requestsOf(marker);
    return requests.map(({ body }) => JSON.stringify(body.messages ?? body.input));
  }
}

const namesIn = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder) : []);

/** The keys of the agents that have a folder on this runner. */
export const agentsOn = ({ folder }: MusterRunner): string[] => namesIn(join(folder, 'agents'));

export const inWorkspace = ({ folder }: MusterRunner, agentKey: string, file: string): string =>
  join(folder, 'agents', agentKey, 'workspace', file);

/** When the harness has written this text to its session file, which it does a little later. */
export async function inSessionFile(runner: MusterRunner, agentKey: string, text: string): Promise<void> {
  const home = join(runner.folder, 'agents', agentKey, 'home');
  const sessionFiles = () => filesBelow(home).filter((path) => path.endsWith('.jsonl'));
  await until(
    `"${text}" in a session file`,
    async () => sessionFiles().some((path) => readUnlessGone(path).includes(text)),
    Boolean,
    patienceMs,
  );
}

/** What the runner keeps only while a run is live: its folder, and the gateway socket in it. */
export function leftOfRuns({ folder }: MusterRunner): string[] {
  const sockets = readFileSync('/proc/net/unix', 'utf8').split('\n');
  return [...namesIn(join(folder, 'runs')), ...sockets.filter((line) => line.includes(folder))];
}

/** In the prompt of a batch that was delivered before. */
export const secondAttempt = 'this is attempt 2 at the same messages';
