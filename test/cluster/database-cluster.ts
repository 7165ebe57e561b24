import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import pg from 'pg';
import { chooseIdentity, ownFolder, spawnAs } from '../../packages/service/src/store/embedded/processes.ts';
import { sendRequest } from '../support/api.ts';
import { until } from '../support/async.ts';
import { execute } from '../support/database.ts';
import { freePort } from '../support/database-servers.ts';

const password = 'cluster-test';
const postgresPrograms = '/usr/lib/postgresql/15/bin';
const path = `${postgresPrograms}:/usr/sbin:/usr/bin:/sbin:/bin`;

/** A program that can be killed and started again with the same arguments. */
class Program {
  readonly name: string;
  readonly folder: string;
  readonly #command: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  #child: ChildProcess | undefined;

  constructor(
    name: string,
    folder: string,
    command: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ) {
    this.name = name;
    this.folder = folder;
    this.#command = command;
    this.#env = env;
  }

  async start(): Promise<void> {
    const identity = await chooseIdentity();
    await ownFolder(this.folder, identity);
    const [program = '', ...args] = this.#command;
    const env = { PATH: path, HOME: this.folder, ...this.#env };
    const child = spawnAs(identity, program, args, { cwd: this.folder, env });
    child.on('error', () => {});
    // A backend of PostgreSQL whose postmaster has died may read from it.
    child.stdin.end();
    for (const output of [child.stdout, child.stderr])
      output.on('data', (data: Buffer) => writeFileSync(join(this.folder, 'log'), data, { flag: 'a' }));
    this.#child = child;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  /** The end of its log, for the message of a failure. */
  logTail(): string {
    return `${this.name}:\n${readFileSync(join(this.folder, 'log'), 'utf8').slice(-2_000)}`;
  }
}

interface Ports {
  readonly postgres: number;
  readonly rest: number;
}

/** PostgreSQL under Patroni: what is lost with one machine. */
export class DatabaseMachine extends Program {
  readonly ports: Ports;

  constructor(name: string, folder: string, ports: Ports) {
    super(name, folder, ['/usr/bin/patroni', join(folder, 'patroni.yml')]);
    this.ports = ports;
  }

  async killMachine(): Promise<void> {
    await this.kill();
    await this.killPostgres();
  }

  /** Only PostgreSQL; Patroni starts it again, or lets another one take over. */
  async killPostgres(): Promise<void> {
    const file = join(this.folder, 'data', 'postmaster.pid');
    const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
    // The file may be that of an earlier server.
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    if (command.includes(this.folder)) process.kill(pid, 'SIGKILL');
  }
}

/** As Patroni's REST API shows it. */
interface Member {
  readonly name: string;
  readonly role: string;
  readonly state: string;
}

/** Three PostgreSQL servers under Patroni with synchronous replication, three members of etcd, and HAProxy in front. */
export class DatabaseCluster {
  readonly machines: readonly DatabaseMachine[];
  readonly etcd: readonly Program[];
  readonly #proxy: Program;
  readonly #proxyPort: number;
  readonly #proxySocket: string;

  constructor(
    machines: readonly DatabaseMachine[],
    etcd: readonly Program[],
    proxy: { program: Program; port: number; socket: string },
  ) {
    this.machines = machines;
    this.etcd = etcd;
    this.#proxy = proxy.program;
    this.#proxyPort = proxy.port;
    this.#proxySocket = proxy.socket;
  }

  static async start(): Promise<DatabaseCluster> {
    const folder = mkdtempSync(join(tmpdir(), 'cluster-'));
    const etcd = await etcdMembers(folder);
    for (const member of etcd.programs) await member.start();
    const machines = await Promise.all(
      [1, 2, 3].map((number) => databaseMachine(folder, `postgres-${number}`, etcd.clientPorts)),
    );
    const proxy = await databaseProxy(folder, machines);
    const cluster = new DatabaseCluster(machines, etcd.programs, proxy);
    for (const machine of machines) await machine.start();
    await proxy.program.start();
    await cluster.healthy();
    await execute(cluster.url('postgres', 'postgres'), `CREATE ROLE muster LOGIN PASSWORD '${password}'`);
    await execute(cluster.url('postgres', 'postgres'), 'CREATE DATABASE muster OWNER muster');
    return cluster;
  }

  /** Through HAProxy, so of the primary. */
  url(database = 'muster', user = 'muster'): string {
    return `postgres://${user}:${password}@127.0.0.1:${this.#proxyPort}/${database}`;
  }

  async members(): Promise<Member[]> {
    for (const { ports } of this.machines) {
      const found = await membersAt(ports.rest);
      if (found) return found;
    }
    return [];
  }

  async primary(): Promise<DatabaseMachine> {
    const members = await this.members();
    const leader = members.find(({ role }) => role === 'leader')?.name;
    const machine = this.machines.find(({ name }) => name === leader);
    if (!machine) throw new Error(`no primary: ${JSON.stringify(members)}`);
    return machine;
  }

  /** A primary, behind the proxy, with a synchronous replica and another one. */
  async healthy(): Promise<void> {
    await until(
      'a primary and two replicas',
      () => this.#replicas(),
      (seen) => seen === 'async,sync',
      180_000,
    ).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.logTails()}`);
    });
  }

  /** As the primary sees them: what Patroni says of a member may be old. */
  async #replicas(): Promise<string> {
    const client = new pg.Client({
      connectionString: this.url('postgres', 'postgres'),
      connectionTimeoutMillis: 5_000,
      query_timeout: 5_000,
    });
    client.on('error', () => {});
    try {
      await client.connect();
      const { rows } = await client.query<{ replicas: string }>(
        `SELECT string_agg(sync_state, ',' ORDER BY sync_state) AS replicas
         FROM pg_stat_replication WHERE state = 'streaming'`,
      );
      return rows[0]?.replicas ?? '';
    } catch (error) {
      return (error as Error).message;
    } finally {
      client.end().catch(() => {});
    }
  }

  /**
   * Makes another server the primary, as an operator does for an upgrade. Resolves when the former primary has stepped down.
   * The returned function waits until the switchover is complete.
   */
  async switchOver(): Promise<() => Promise<void>> {
    const { name, ports } = await this.primary();
    const send = (method: string, path: string, body?: unknown) =>
      sendRequest(`http://127.0.0.1:${ports.rest}${path}`, {
        method,
        headers: { 'content-type': 'application/json' },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(120_000),
      });
    const switched = send('POST', '/switchover', { leader: name }).then(async (response) => {
      const said = await text(response);
      if (response.statusCode !== 200) throw new Error(`switchover: ${response.statusCode} ${said}`);
    });
    switched.catch(() => {});
    const status = async () => {
      const response = await send('GET', '/primary');
      response.resume();
      return response.statusCode;
    };
    const demoted = until('the primary demoted', status, (seen) => seen !== 200);
    await Promise.race([demoted, switched]);
    return () => switched;
  }

  logTails(): string {
    return [...this.machines, ...this.etcd, this.#proxy].map((program) => program.logTail()).join('\n');
  }

  /** Closes every connection through HAProxy. */
  async cutConnections(): Promise<void> {
    for (const { name } of this.machines) {
      const admin = connect(this.#proxySocket);
      admin.end(`shutdown sessions server database/${name}\n`);
      await text(admin);
    }
  }

  async close(): Promise<void> {
    await this.#proxy.kill();
    for (const machine of this.machines) await machine.killMachine().catch(() => {});
    for (const member of this.etcd) await member.kill();
  }
}

async function membersAt(port: number): Promise<Member[] | null> {
  try {
    const request = { method: 'GET', headers: {}, body: undefined, signal: AbortSignal.timeout(2_000) };
    const response = await sendRequest(`http://127.0.0.1:${port}/cluster`, request);
    return (JSON.parse(await text(response)) as { members?: Member[] }).members ?? null;
  } catch {
    return null;
  }
}

function newFolder(folder: string, name: string): string {
  const made = join(folder, name);
  mkdirSync(made, { mode: 0o700 });
  writeFileSync(join(made, 'log'), '');
  return made;
}

async function etcdMembers(folder: string): Promise<{ programs: Program[]; clientPorts: number[] }> {
  const names = ['etcd-1', 'etcd-2', 'etcd-3'];
  const ports: { peer: number; client: number }[] = [];
  for (const _ of names) ports.push({ peer: await freePort(), client: await freePort() });
  const at = (port: number | undefined) => `http://127.0.0.1:${port}`;
  const cluster = names.map((name, i) => `${name}=${at(ports[i]?.peer)}`).join(',');
  const programs = names.map((name, i) => {
    const [peer, client] = [at(ports[i]?.peer), at(ports[i]?.client)];
    const options = {
      name,
      'data-dir': 'data',
      'listen-peer-urls': peer,
      'initial-advertise-peer-urls': peer,
      'listen-client-urls': client,
      'advertise-client-urls': client,
      'initial-cluster': cluster,
      'heartbeat-interval': '200',
      'election-timeout': '2000',
    };
    const flags = Object.entries(options).map(([option, value]) => `--${option}=${value}`);
    // Version 3.4 asks for this on ARM.
    const env = { ETCD_UNSUPPORTED_ARCH: 'arm64' };
    return new Program(name, newFolder(folder, name), ['/usr/bin/etcd', ...flags], env);
  });
  return { programs, clientPorts: ports.map(({ client }) => client) };
}

async function databaseMachine(
  folder: string,
  name: string,
  etcdPorts: readonly number[],
): Promise<DatabaseMachine> {
  const own = newFolder(folder, name);
  const ports = { postgres: await freePort(), rest: await freePort() };
  const user = (username: string) => ({ username, password });
  const address = (port: number) => ({ listen: `127.0.0.1:${port}`, connect_address: `127.0.0.1:${port}` });
  const config = {
    scope: 'muster',
    name,
    restapi: address(ports.rest),
    etcd3: { hosts: etcdPorts.map((port) => `127.0.0.1:${port}`) },
    bootstrap: {
      dcs: {
        ttl: 20,
        loop_wait: 2,
        retry_timeout: 4,
        synchronous_mode: true,
        synchronous_mode_strict: true,
        postgresql: {
          use_pg_rewind: true,
          parameters: { max_connections: 100, shared_buffers: '32MB', wal_keep_size: '256MB' },
        },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C' }],
      pg_hba: ['host all all 127.0.0.1/32 scram-sha-256', 'host replication all 127.0.0.1/32 scram-sha-256'],
    },
    postgresql: {
      ...address(ports.postgres),
      data_dir: join(own, 'data'),
      bin_dir: postgresPrograms,
      pgpass: join(own, 'pgpass'),
      authentication: {
        superuser: user('postgres'),
        replication: user('replicator'),
        rewind: user('rewinder'),
      },
      parameters: { unix_socket_directories: '', password_encryption: 'scram-sha-256' },
      remove_data_directory_on_rewind_failure: true,
      remove_data_directory_on_diverged_timelines: true,
    },
  };
  // JSON is YAML.
  writeFileSync(join(own, 'patroni.yml'), JSON.stringify(config));
  return new DatabaseMachine(name, own, ports);
}

/** As docs/operations.md shows it. */
async function databaseProxy(folder: string, machines: readonly DatabaseMachine[]) {
  const own = newFolder(folder, 'haproxy');
  const port = await freePort();
  const socket = join(own, 'admin.sock');
  const servers = machines.map(
    ({ name, ports }) => `  server ${name} 127.0.0.1:${ports.postgres} check port ${ports.rest}`,
  );
  const config = `global
  stats socket ${socket} mode 600 level admin
listen database
  bind 127.0.0.1:${port}
  mode tcp
  option httpchk OPTIONS /primary
  http-check expect status 200
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout check 2s
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
${servers.join('\n')}
`;
  writeFileSync(join(own, 'haproxy.cfg'), config);
  const program = new Program('haproxy', own, ['/usr/sbin/haproxy', '-db', '-f', 'haproxy.cfg']);
  return { program, port, socket };
}
