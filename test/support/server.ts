import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hasPid } from '../../packages/service/src/store/embedded/processes.ts';
import { until } from './async.ts';
import { freshDatabase } from './database.ts';
import { removeTree } from './files.ts';
import { testNodeFlags } from './node-flags.ts';

export const program = fileURLToPath(new URL('../../packages/service/bin/muster.js', import.meta.url));

export interface ServerOptions {
  /** Merged over the defaults; `undefined` removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Use this database instead of a new one: for a second node, or a restart. */
  readonly databaseUrl?: string;
  /** Start the service's own runner. Default on; off for tests with fake runners. */
  readonly runner?: boolean;
  /** Default: those that make tests cheaper. None for a server that is measured. */
  readonly nodeFlags?: readonly string[];
  /** The size of a small file system that only this server sees at its data folder. Needs root. */
  readonly diskMb?: number;
  /** The `muster.js` of another build. */
  readonly program?: string;
}

/** A `muster serve` process with its own database. */
export class Server {
  readonly url: string;
  readonly key: string;
  readonly databaseUrl: string;
  readonly process: ChildProcess;
  readonly output: string[];
  /** The environment of the process, for commands such as `muster operator create`. */
  readonly env: NodeJS.ProcessEnv;
  readonly #cleanUps: (() => unknown)[];

  constructor(
    fields: Pick<Server, 'url' | 'key' | 'databaseUrl' | 'process' | 'output' | 'env'>,
    cleanUps: (() => unknown)[],
  ) {
    this.url = fields.url;
    this.key = fields.key;
    this.databaseUrl = fields.databaseUrl;
    this.process = fields.process;
    this.output = fields.output;
    this.env = fields.env;
    this.#cleanUps = cleanUps;
  }

  /** Ends the process with this signal and waits until it is gone; the database stays. */
  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, 'exit');
    const runner = runnerPid(this.env.MUSTER_DATA);
    this.process.kill(signal);
    await gone;
    if (runner)
      await until(
        'the end of the runner',
        async () => hasPid(runner),
        (lives) => !lives,
      );
  }

  /** Ends everything and drops the database. */
  async close(): Promise<void> {
    await this.end('SIGKILL');
    for (const cleanUp of this.#cleanUps) await cleanUp();
  }
}

/** `MUSTER_SECRET` of every server, unless its environment says otherwise. */
export const serviceSecret = 'test-secret-test-secret-test-secret-1';

export const bootstrapKey = (): string =>
  `mst_boot${randomBytes(4).toString('hex')}.${randomBytes(24).toString('hex')}`;

/** The process of the service's own runner, which ends with the service. */
export function runnerPid(dataFolder = ''): number | null {
  const file = join(dataFolder, 'runner.lock');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).pid : null;
}

export async function startServer(options: ServerOptions = {}): Promise<Server> {
  const cleanUps: (() => unknown)[] = [];
  let databaseUrl = options.databaseUrl;
  if (!databaseUrl) {
    const database = await freshDatabase();
    databaseUrl = database.url;
    cleanUps.push(database.drop);
  }
  const data = mkdtempSync(join(tmpdir(), 'muster-data-'));
  cleanUps.push(() => removeTree(data));
  const env: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    HOME: data,
    DATABASE_URL: databaseUrl,
    MUSTER_DATA: data,
    MUSTER_PORT: '0',
    MUSTER_SECRET: serviceSecret,
    MUSTER_BOOTSTRAP_KEY: bootstrapKey(),
    MUSTER_REHEARSAL_MS: '100',
    // Nobody reads a log line per request.
    MUSTER_LOG: 'warn',
    // The default depends on the machine. `npm run test:deep` runs the browser's suites with two.
    MUSTER_WORKERS: process.env.MUSTER_TEST_WORKERS ?? '1',
    // A healthy runner may be late on a busy machine; only tests of lost runners set a short lease.
    MUSTER_LEASE_SECONDS: '3600',
    MUSTER_RUNNER: options.runner === false ? 'off' : 'on',
    ...options.env,
  };
  const flags = options.nodeFlags ?? testNodeFlags;
  const command = [process.execPath, ...flags, options.program ?? program, 'serve'];
  const mount = `mount -t tmpfs -o mode=755,size=${options.diskMb}m tmpfs "$MUSTER_DATA" && exec "$@"`;
  const onDisk = options.diskMb ? ['unshare', '-m', 'sh', '-c', mount, 'sh', ...command] : command;
  const child = spawn(onDisk[0] ?? '', onDisk.slice(1), {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output: string[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    let isReady = false;
    const listen = (chunk: Buffer) => {
      output.push(chunk.toString());
      if (isReady) return;
      const ready = /ready at (http:\/\/[^\s"]+)/.exec(output.join(''));
      if (!ready?.[1]) return;
      isReady = true;
      resolve(ready[1]);
    };
    child.stdout.on('data', listen);
    child.stderr.on('data', listen);
    child.once('exit', (code) => reject(new Error(`muster serve ended with ${code}:\n${output.join('')}`)));
  });
  const key = env.MUSTER_BOOTSTRAP_KEY ?? '';
  return new Server({ url, key, databaseUrl, process: child, output, env }, cleanUps);
}
