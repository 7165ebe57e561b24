import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agents } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { program, type Server } from '../support/server.ts';

/** How a command ended and what it said. */
export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface Use {
  /** What is piped in; without it the input is empty, `null` leaves it open. */
  readonly input?: string | null;
  /** Merged over the person's; `undefined` removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly folder?: string;
}

/** A person with a home of their own, who types `muster …` where no terminal is. */
export class Person {
  readonly home = mkdtempSync(join(tmpdir(), 'muster-person-'));
  readonly env: NodeJS.ProcessEnv;
  /** What a test is not about is set up and looked at through the API: a process for each costs more. */
  readonly api: Api;
  readonly agents: Agents;

  constructor(server?: Pick<Server, 'url' | 'key'>) {
    this.api = apiOf(server ?? { url: '', key: '' });
    this.agents = new Agents(this.api, 'default');
    this.env = {
      PATH: process.env.PATH,
      HOME: this.home,
      TMPDIR: this.home,
      ...(server && { MUSTER_URL: server.url, MUSTER_API_KEY: server.key }),
    };
  }

  start(args: readonly string[], use: Use = {}): ChildProcess {
    const child = spawn(process.execPath, [program, ...args], {
      cwd: use.folder ?? this.home,
      env: { ...this.env, ...use.env },
      stdio: 'pipe',
    });
    if (use.input !== null) child.stdin?.end(use.input ?? '');
    return child;
  }

  async muster(args: readonly string[], use: Use = {}): Promise<Ended> {
    return ended(this.start(args, use));
  }

  /** What a command that has to work prints. */
  async prints(args: readonly string[], use: Use = {}): Promise<string> {
    const { code, out, err } = await this.muster(args, use);
    if (code !== 0) throw new Error(`muster ${args.join(' ')}: ${code}\n${out}${err}`);
    return out;
  }

  /** The same as data. */
  async data<T = Record<string, unknown>>(args: readonly string[], use: Use = {}): Promise<T> {
    return JSON.parse(await this.prints([...args, '-o', 'json'], use)) as T;
  }

  /** Spawns an agent that is at work until it is stopped. */
  async busy(name: string, description = '!sleep 600'): Promise<string> {
    await this.agents.spawn(name, { description });
    await until(
      `${name} at work`,
      () => this.agents.phase(name),
      (phase) => phase === 'RUNNING/WORKING',
    );
    return name;
  }

  /** Spawns an agent and waits until it rests. */
  async rested(name: string, description: string): Promise<string> {
    await this.agents.spawn(name, { description });
    await this.agents.wait(name);
    return name;
  }

  /** A file of theirs; returns where it is. */
  file(name: string, text: string): string {
    const path = join(this.home, name);
    writeFileSync(path, text);
    return path;
  }

  leave(): void {
    rmSync(this.home, { recursive: true, force: true });
  }
}

export async function ended(child: ChildProcess): Promise<Ended> {
  let out = '';
  let err = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
}
