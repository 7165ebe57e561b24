import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';

const run = promisify(execFile);
export const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

export interface Service {
  readonly url: string;
  readonly key: string;
  readonly pid: number;
  readonly pgEnv: Record<string, string>;
  readonly database: pg.Client;
  /** Ends the process; its data stay. */
  stop(): Promise<void>;
  /** Ends the process and deletes its data. */
  close(): Promise<void>;
  /** The folder of its data. */
  readonly data: string;
}

/** A benchmark that fails leaves nothing running. */
const started = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of started) child.kill();
});

/** Starts a program and reads its address from its output. */
export async function startProgram(file: string, args: string[], env: NodeJS.ProcessEnv) {
  // With the same heap setting as `npm start`.
  const child = spawn(process.execPath, ['--max-semi-space-size=32', file, ...args], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  started.add(child);
  child.once('exit', () => started.delete(child));
  const url = await new Promise<string>((resolve, reject) => {
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk;
      const ready = /ready at (http:\S+)/.exec(output);
      if (ready?.[1]) resolve(ready[1]);
    });
    child.once('exit', (code) => reject(new Error(`${file} ended with ${code}`)));
  });
  return { url, child };
}

/** A service on its own embedded PostgreSQL, with the durability it always has. */
export async function startService(
  env: Record<string, string> = {},
  args: readonly string[] = [],
  data = mkdtempSync(join(tmpdir(), 'muster-bench-')),
): Promise<Service> {
  const program = here('../../packages/service/bin/muster.js');
  const { url, child } = await startProgram(program, ['serve', ...args], {
    PATH: process.env.PATH,
    HOME: data,
    MUSTER_DATA: data,
    MUSTER_PORT: '0',
    MUSTER_LOG: 'warn',
    ...env,
  });
  const pgEnv = {
    PATH: process.env.PATH ?? '',
    PGHOST: join(data, 'postgres/data'),
    PGUSER: 'muster',
    PGDATABASE: 'muster',
    PGPASSWORD: readFileSync(join(data, 'postgres/data/muster-password'), 'utf8'),
  };
  const database = new pg.Client({
    host: pgEnv.PGHOST,
    user: pgEnv.PGUSER,
    database: pgEnv.PGDATABASE,
    password: pgEnv.PGPASSWORD,
  });
  await database.connect();
  const stop = async (): Promise<void> => {
    await database.end();
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await gone;
  };
  return {
    url,
    key: readFileSync(join(data, 'admin.key'), 'utf8').trim(),
    pid: child.pid ?? 0,
    pgEnv,
    database,
    data,
    stop,
    async close() {
      await stop();
      rmSync(data, { recursive: true, force: true });
    },
  };
}

/** Requests per second by `wrk`, the load generator in its own process. */
export async function load(
  url: string,
  script: string,
  seconds: number,
  env: Record<string, string>,
  callers = 64,
): Promise<number> {
  const { stdout } = await run('wrk', ['-t1', `-c${callers}`, `-d${seconds}s`, '-s', here(script), url], {
    env: { PATH: process.env.PATH ?? '', ...env },
  });
  const failed = /Non-2xx or 3xx responses: (\d+)/.exec(stdout);
  if (failed) throw new Error(`${script}: ${failed[1]} requests failed`);
  return Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]);
}

/** Transactions per second by `pgbench`. */
export async function pgbench(
  service: Service,
  script: string,
  seconds: number,
  clients = 64,
): Promise<number> {
  const args = [
    '-n',
    '-M',
    'prepared',
    '-c',
    String(clients),
    '-j',
    '2',
    '-T',
    String(seconds),
    '-D',
    'tenant=1',
  ];
  const { stdout } = await run('pgbench', [...args, '-f', here(script)], { env: service.pgEnv });
  return Number(/tps = ([\d.]+)/.exec(stdout)?.[1]);
}

const agent = new Agent({ keepAlive: true });

/** By `node:http`: a `fetch` takes more of the processors that are measured. */
export async function post<T>(
  service: Pick<Service, 'url' | 'key'>,
  path: string,
  body: unknown,
): Promise<T> {
  const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' };
  const sent = request(`${service.url}${path}`, { method: 'POST', agent, headers });
  sent.end(JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const reply = await text(response);
  if (response.statusCode !== 200) throw new Error(`${path}: ${reply}`);
  return JSON.parse(reply) as T;
}

/** How many statements the service has sent to its database. */
export async function queriesOf(service: Service): Promise<number> {
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  return Number(/^muster_store_queries_total (\d+)/m.exec(metrics)?.[1]);
}

/** The agent that `seedAgents` copies. */
export async function spawnTemplate(service: Service, model?: string): Promise<void> {
  await post(service, '/v1/agent/spawn', {
    agentId: { agent: ['template'] },
    description: 'Fix the login flow.',
    model,
  });
}

/** Idle copies of the template. */
export async function seedAgents(
  service: Service,
  prefix: string,
  offset: number,
  count: number,
  account = 'admin',
) {
  const seed = readFileSync(here('seed.sql'), 'utf8');
  await service.database.query(seed, ['template', prefix, offset, count, account]);
  await service.database.query('ANALYZE');
}

export const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

export const percentile = (values: readonly number[], p: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * p))] ?? Number.NaN;

/** Takes the measures in turn and returns the medians. */
export async function alternated<K extends string>(
  measures: Record<K, (round: number) => Promise<number>>,
  rounds = 3,
): Promise<Record<K, number>> {
  const seen = Object.fromEntries(Object.keys(measures).map((name) => [name, [] as number[]])) as Record<
    K,
    number[]
  >;
  for (let round = 1; round <= rounds; round += 1) {
    for (const name of Object.keys(measures) as K[]) seen[name].push(await measures[name](round));
  }
  return Object.fromEntries(
    Object.entries<number[]>(seen).map(([name, values]) => [name, median(values)]),
  ) as Record<K, number>;
}

/** A service without a runner and with the 1,000 agents of `queue-add.lua`, warmed up by it. */
export async function startForQueueAdd(env: Record<string, string> = {}): Promise<Service> {
  const service = await startService({ MUSTER_RUNNER: 'off', ...env });
  await spawnTemplate(service);
  await seedAgents(service, 'bench-', 0, 1_000);
  await load(service.url, 'queue-add.lua', 10, { KEY: service.key });
  return service;
}
