import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { errorLine, exitCodeOf } from '../../packages/service/src/cli/errors.ts';
import { printable } from '../../packages/service/src/cli/output.ts';
import { buildProgram } from '../../packages/service/src/cli/program.ts';
import { Agents } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { program, type Server } from '../support/server.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

/** A command's exit code and output. */
export interface CommandResult {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  /** Standard input; empty by default, `null` leaves it open. */
  readonly input?: string | null;
  /** Merged over the user's; `undefined` removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly folder?: string;
}

/** A user with their own home folder, who runs `muster …` without a terminal. */
export class TestUser {
  readonly home = mkdtempSync(join(tmpdir(), 'muster-user-'));
  readonly env: NodeJS.ProcessEnv;
  /** For what a test only sets up or checks: a command would cost a process each time. */
  api: Api;
  agents: Agents;
  server: Pick<Server, 'url' | 'key'>;

  constructor(server?: Pick<Server, 'url' | 'key'>) {
    this.env = { PATH: process.env.PATH, HOME: this.home, TMPDIR: this.home };
    this.server = server ?? { url: '', key: '' };
    this.api = apiOf(this.server);
    this.agents = new Agents(this.api, 'default');
    if (server) this.connect(server);
  }

  /** Sets the variables by which commands find the server. */
  connect(server: Pick<Server, 'url' | 'key'>): void {
    this.server = server;
    this.api = apiOf(server);
    this.agents = new Agents(this.api, 'default');
    Object.assign(this.env, { MUSTER_URL: server.url, MUSTER_API_KEY: server.key });
  }

  start(args: readonly string[], options: RunOptions = {}): ChildProcess {
    const child = spawn(process.execPath, [program, ...args], {
      cwd: options.folder ?? this.home,
      env: { ...this.env, ...options.env },
      stdio: 'pipe',
    });
    if (options.input !== null) child.stdin?.end(options.input ?? '');
    return child;
  }

  async muster(args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    return resultOf(this.start(args, options));
  }

  /** The standard output of a command that must succeed. */
  async prints(args: readonly string[], options: RunOptions = {}): Promise<string> {
    const { code, out, err } = await this.muster(args, options);
    if (code !== 0) throw new Error(`muster ${args.join(' ')}: ${code}\n${out}${err}`);
    return out;
  }

  /** The same, parsed from `-o json`. */
  async data<T = Record<string, unknown>>(args: readonly string[], options: RunOptions = {}): Promise<T> {
    return JSON.parse(await this.prints([...args, '-o', 'json'], options)) as T;
  }

  /** Spawns an agent that works until it is stopped. */
  async busy(name: string, description = '!sleep 600'): Promise<string> {
    await this.agents.spawn(name, { description });
    await until(
      `${name} is working`,
      () => this.agents.phase(name),
      (phase) => phase === 'RUNNING/WORKING',
    );
    return name;
  }

  /** Spawns an agent and waits until it needs attention. */
  async spawnAndWait(name: string, description: string): Promise<string> {
    await this.agents.spawn(name, { description });
    await this.agents.wait(name);
    return name;
  }

  /** Writes a file into the home folder and returns its path. */
  file(name: string, text: string): string {
    const path = join(this.home, name);
    writeFileSync(path, text);
    return path;
  }

  remove(): void {
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** A user of a new tenant on a shared server, for the tests of one file. */
export function userOfSharedServer(options: { readonly runner?: boolean } = {}): TestUser {
  const user = new TestUser();
  let server: SharedServer | undefined;
  beforeAll(async () => {
    server = await sharedServer(options);
    user.connect(server);
  });
  afterAll(async () => {
    user.remove();
    await server?.close();
  });
  return user;
}

/**
 * The error of a command that refuses its arguments. It runs in this process, because starting one takes longer than
 * reading the arguments.
 */
export async function refusalOf(args: readonly string[]): Promise<Pick<CommandResult, 'code' | 'err'>> {
  const program = buildProgram();
  const before = process.listeners('SIGINT');
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    return { code: exitCodeOf(error), err: `muster: ${printable(errorLine(error, program, args))}\n` };
  } finally {
    for (const added of process.listeners('SIGINT').filter((one) => !before.includes(one)))
      process.removeListener('SIGINT', added);
  }
  throw new Error(`not refused: ${args.join(' ')}`);
}

export async function resultOf(child: ChildProcess): Promise<CommandResult> {
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
