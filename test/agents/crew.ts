import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AgentStatus } from '@muster/sdk/contract';
import type { SeenRequest } from '../provider/script.ts';
import type { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import type { GitRemote } from '../support/git-remote.ts';
import type { Fleet, MusterRunner } from './fleet.ts';

/** Several stages, each with a harness that starts: enough for a machine that is busy with other tests. */
export const patienceMs = 50_000;

/** Short enough to wait for its end, long enough for a runner on a busy machine to keep it while a harness starts. */
export const shortLease = { MUSTER_LEASE_SECONDS: '5' } as const;

/** A pool of its own, so that no other test's runners take its agents, and a workspace with a repository in it. */
export class Crew {
  readonly agents: Agents;
  readonly remote: GitRemote;
  readonly pool: string;
  readonly #fleet: Fleet;

  constructor(fleet: Fleet, pool: string, work: { readonly agents: Agents; readonly remote: GitRemote }) {
    this.#fleet = fleet;
    this.pool = pool;
    this.agents = work.agents;
    this.remote = work.remote;
  }

  static async gather(fleet: Fleet): Promise<Crew> {
    const pool = uniqueName('crew');
    await writeResource(fleet.api, 'pool', pool, {});
    return new Crew(fleet, pool, await fleet.workspace({ 'README.md': '# Wall\n' }, { pool }));
  }

  /** A new runner; or, in the folder of an earlier one, that one after a restart. */
  runner(env: Readonly<Record<string, string>> = {}, folder?: string): Promise<MusterRunner> {
    return this.#fleet.runner(this.pool, env, folder);
  }

  /** When the agent has nothing more to do. */
  rested(path: string): Promise<AgentStatus> {
    return until(
      `${path} at rest`,
      () => this.agents.status(path),
      ({ phase }) => phase !== 'PHASE_PENDING' && phase !== 'PHASE_RUNNING',
      patienceMs,
    );
  }

  /** How each run ended, oldest first. */
  async outcomes(path: string): Promise<string[]> {
    return (await this.agents.timeline(path, 'RUN_ENDED')).map(({ text }) => text);
  }

  async lost(path: string): Promise<void> {
    await until(
      'the run lost',
      () => this.outcomes(path),
      (outcomes) => outcomes.at(-1) === 'LOST',
      patienceMs,
    );
  }

  /** On which runner each run was, in which try of its messages, oldest first. */
  async starts(path: string): Promise<{ runner: string; attempt: number; batch: string }[]> {
    const started = await this.agents.timeline(path, 'RUN_STARTED');
    return started.map(({ data }) => ({
      runner: String(data.runner),
      attempt: Number(data.attempt),
      batch: String(data.batch),
    }));
  }

  async warnings(path: string): Promise<string[]> {
    return (await this.agents.timeline(path, 'WARNING', 'ERROR')).map(({ text }) => text);
  }

  /** When the model has been asked so often for this script. */
  async asked(marker: string, times: number): Promise<void> {
    const { stub } = this.#fleet;
    await until(
      `request ${times} of ${marker}`,
      async () => stub.requestsOf(marker).length,
      (seen) => seen >= times,
      patienceMs,
    );
  }

  /** What the model was shown by each request for this script. */
  shown(marker: string): string[] {
    return this.#fleet.stub.requestsOf(marker).map(wireOf);
  }
}

const wireOf = ({ body }: SeenRequest): string => JSON.stringify(body.messages ?? body.input);

export const timesIn = (text: string, part: string): number => text.split(part).length - 1;

const namesIn = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder) : []);

/** The keys of the agents that have a folder on this runner's disk. */
export const agentsOn = ({ folder }: MusterRunner): string[] => namesIn(join(folder, 'agents'));

export async function onlyAgentOn(runner: MusterRunner): Promise<string> {
  const [key = ''] = await until(
    'the folder of an agent',
    async () => agentsOn(runner),
    (keys) => keys.length > 0,
    patienceMs,
  );
  return key;
}

export const inWorkspace = ({ folder }: MusterRunner, agentKey: string, file: string): string =>
  join(folder, 'agents', agentKey, 'workspace', file);

/** When the harness has put these words into its session's file: it does so a little after they were said. */
export async function writtenDown(runner: MusterRunner, agentKey: string, words: string): Promise<void> {
  const home = join(runner.folder, 'agents', agentKey, 'home');
  const sessionFiles = () =>
    readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.jsonl'));
  await until(
    `"${words}" in a session's file`,
    async () => sessionFiles().some((name) => read(join(home, name)).includes(words)),
    Boolean,
    patienceMs,
  );
}

/** What the runner keeps only while a run is live: its folder, and the gateway socket in it. */
export function leftOfRuns({ folder }: MusterRunner): string[] {
  const sockets = readFileSync('/proc/net/unix', 'utf8').split('\n');
  return [...namesIn(join(folder, 'runs')), ...sockets.filter((line) => line.includes(folder))];
}

/** Every process on this machine in whose command line or environment this stands; the dead have neither. */
export function processesWith(words: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    return ['cmdline', 'environ'].some((file) => read(`/proc/${pid}/${file}`).includes(words));
  });
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** A promise for an `until` step, and what resolves it. */
export function held(): { readonly promise: Promise<void>; readonly release: () => void } {
  let release: () => void = () => {};
  const promise = new Promise<void>((resolve) => {
    release = resolve;
  });
  return { promise, release };
}

/** How a batch that was tried before is shown to the model. */
export const secondTry = 'this is attempt 2 at the same messages';
