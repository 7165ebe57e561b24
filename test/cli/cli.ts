import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { afterAll, beforeAll } from 'vitest';
import { buildProgram, reportError } from '../../packages/service/src/cli/program.ts';
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
  /** Standard input; empty by default. `null` leaves that of a process open. */
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

  /** Starts `muster …` as a process. */
  start(args: readonly string[], options: RunOptions = {}): ChildProcess {
    const child = spawn(process.execPath, [program, ...args], {
      cwd: options.folder ?? this.home,
      env: { ...this.env, ...options.env },
      stdio: 'pipe',
    });
    if (options.input !== null) child.stdin?.end(options.input ?? '');
    return child;
  }

  runProcess(args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    return resultOf(this.start(args, options));
  }

  /** Runs a command in this process: starting one costs more than most commands. */
  muster(
    args: readonly string[],
    { env, folder = this.home, input }: RunOptions = {},
  ): Promise<CommandResult> {
    return runHere(args, { env: { ...this.env, ...env }, folder, input: input ?? '' });
  }

  /** The standard output of a command that must succeed. */
  async prints(args: readonly string[], options: RunOptions = {}): Promise<string> {
    const { code, out, err } = await this.muster(args, options);
    if (code !== 0 || err.includes('ignored unknown fields'))
      throw new Error(`muster ${args.join(' ')}: ${code}\n${out}${err}`);
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

/** Thrown instead of ending this process. */
class Exit extends Error {
  readonly code: number;

  constructor(code: unknown) {
    super(`exit ${String(code)}`);
    this.code = Number(code ?? process.exitCode ?? 0);
  }
}

let isRunning = false;

/** Does what src/cli/main.ts does, in this process, where only one command can run at a time. */
export async function runHere(
  args: readonly string[],
  {
    env,
    folder = process.cwd(),
    input = '',
  }: { readonly env: NodeJS.ProcessEnv; readonly folder?: string; readonly input?: string },
): Promise<CommandResult> {
  if (isRunning) throw new Error('another command is running in this process: use start() for one of them');
  isRunning = true;
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  const restore = replaceProcessState({
    stdin: Readable.from(input === '' ? [] : [Buffer.from(input)]),
    stdout: collector(out),
    stderr: collector(err),
    exit: (code?: number) => {
      throw new Exit(code);
    },
    env,
    folder,
  });
  let code = 0;
  const program = buildProgram();
  try {
    await program.parseAsync(args, { from: 'user' });
    code = Number(process.exitCode ?? 0);
  } catch (error) {
    code = error instanceof Exit ? error.code : reportError(error, program, args);
  } finally {
    restore();
    isRunning = false;
  }
  return { code, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() };
}

const collector = (chunks: Buffer[]): Writable =>
  new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });

/** Returns a function that restores everything. */
function replaceProcessState(state: {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  readonly exit: (code?: number) => never;
  readonly env: NodeJS.ProcessEnv;
  readonly folder: string;
}): () => void {
  const { env, folder, ...replaced } = state;
  const before = {
    properties: Object.keys(replaced).map(
      (name) => [name, Object.getOwnPropertyDescriptor(process, name)] as const,
    ),
    env: { ...process.env },
    folder: process.cwd(),
    exitCode: process.exitCode,
    listeners: process.listeners('SIGINT'),
  };
  for (const [name, value] of Object.entries(replaced))
    Object.defineProperty(process, name, { value, configurable: true, enumerable: true });
  setEnvironment(env);
  process.chdir(folder);
  process.exitCode = undefined;
  return () => {
    for (const [name, descriptor] of before.properties)
      if (descriptor) Object.defineProperty(process, name, descriptor);
    setEnvironment(before.env);
    process.chdir(before.folder);
    process.exitCode = before.exitCode;
    for (const listener of process.listeners('SIGINT'))
      if (!before.listeners.includes(listener)) process.removeListener('SIGINT', listener);
  };
}

/** Changes `process.env` itself, because `os.homedir` reads the variables of the process. */
function setEnvironment(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) delete process.env[name];
  for (const [name, value] of Object.entries(env)) if (value !== undefined) process.env[name] = value;
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
