import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { prepareBinaries } from '../../packages/service/src/store/embedded/binaries.ts';
import {
  dataArgument,
  ensureData,
  readPassword,
} from '../../packages/service/src/store/embedded/data-folder.ts';
import { takeFolder } from '../../packages/service/src/store/embedded/folder-lock.ts';
import { chooseIdentity, ownFolder } from '../../packages/service/src/store/embedded/processes.ts';
import { until } from './async.ts';

/** A server that ends with this process, even after `kill -9`. */
export interface DatabaseServer {
  /** A URL of a database on it. */
  url(database: string): string;
  stop(): Promise<void>;
}

/** A TCP port of the loopback that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

interface Watched {
  readonly folder: string;
  readonly command: readonly string[];
  readonly env?: Record<string, string>;
  readonly isReady: () => Promise<boolean>;
}

/** Starts a server in `folder`/data, with the user that PostgreSQL would run as. Returns what stops it. */
async function startWatched({ folder, command, env = {}, isReady }: Watched): Promise<() => Promise<void>> {
  const identity = await chooseIdentity();
  const watched = await takeFolder({ identity, folder, command, env, log: () => {} });
  let hasEnded = false;
  void watched.exit.then(() => {
    hasEnded = true;
  });
  watched.go();
  await until(`${command[0]} ready`, isReady, (ready) => {
    if (hasEnded) return true;
    return ready;
  });
  if (hasEnded) throw new Error(`${command[0]} ended: ${await watched.logTail()}`);
  return async () => {
    watched.kill('SIGQUIT');
    await watched.exit;
  };
}

const deleteFolder = (folder: string): void =>
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });

/** PgBouncer in transaction mode before the server of this URL. Few sessions, so that its clients share them. */
export async function startPgBouncer(
  databaseUrl: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<DatabaseServer> {
  const { username, password, hostname, port, searchParams } = new URL(databaseUrl);
  const folder = mkdtempSync(join(tmpdir(), 'pgb-'));
  const data = join(folder, 'data');
  mkdirSync(data);
  const all = {
    auth_type: 'scram-sha-256',
    auth_file: 'users.txt',
    unix_socket_dir: data,
    listen_port: '5432',
    pool_mode: 'transaction',
    default_pool_size: '4',
    ...settings,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`);
  const server = `host=${searchParams.get('host') ?? hostname} port=${port || 5432}`;
  writeFileSync(
    join(data, 'pgbouncer.ini'),
    `[databases]\n* = ${server}\n[pgbouncer]\n${lines.join('\n')}\n`,
  );
  writeFileSync(join(data, 'users.txt'), `"${username}" "${decodeURIComponent(password)}"\n`, {
    mode: 0o600,
  });
  await ownFolder(folder, await chooseIdentity());
  const stop = await startWatched({
    folder,
    command: ['/usr/sbin/pgbouncer', 'pgbouncer.ini'],
    isReady: async () => existsSync(join(data, '.s.PGSQL.5432')),
  });
  return {
    url: (database) =>
      `postgres://${username}:${password}@localhost:5432/${database}?host=${encodeURIComponent(data)}`,
    stop: async () => {
      await stop();
      deleteFolder(folder);
    },
  };
}

/** A PostgreSQL at a port of the loopback. */
export interface OwnPostgres extends DatabaseServer {
  readonly password: string;
  readonly data: string;
  restart(): Promise<void>;
}

/** `prepare` may change the data folder, and returns settings. */
export async function startPostgres(
  prepare: (data: string) => Readonly<Record<string, string>> = () => ({}),
): Promise<OwnPostgres> {
  const folder = mkdtempSync(join(tmpdir(), 'muster-postgres-'));
  const identity = await chooseIdentity();
  await ownFolder(folder, identity);
  const binaries = await prepareBinaries(folder, identity);
  await ensureData(folder, binaries, identity);
  const data = join(folder, 'data');
  const port = await freePort();
  const settings = {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    ...prepare(data),
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const start = async () => {
    await ownFolder(data, identity);
    return startWatched({
      folder,
      command: [binaries.postgres, '-D', dataArgument(data), ...flags],
      env: binaries.env,
      isReady: async () => {
        const file = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '');
        return /^(ready|standby)/m.test(file);
      },
    });
  };
  let stop = await start();
  const password = await readPassword(data);
  return {
    data,
    password,
    url: (database) => `postgres://muster:${password}@localhost:${port}/${database}`,
    restart: async () => {
      await stop();
      stop = await start();
    },
    stop: async () => {
      await stop();
      deleteFolder(folder);
    },
  };
}

/** PostgreSQL that accepts connections with TLS only, at `localhost`. */
export async function startTlsPostgres(): Promise<OwnPostgres> {
  const server = await startPostgres((data) => {
    makeCertificate(join(data, 'server.key'), join(data, 'server.crt'));
    writeFileSync(join(data, 'pg_hba.conf'), 'hostssl all all 127.0.0.1/32 scram-sha-256\n');
    return {
      ssl: 'on',
      ssl_cert_file: 'server.crt',
      ssl_key_file: 'server.key',
      timezone: 'Asia/Tokyo',
    };
  });
  const query = `sslmode=verify-full&sslrootcert=${encodeURIComponent(join(server.data, 'server.crt'))}`;
  return { ...server, url: (database) => `${server.url(database)}?${query}` };
}

/** A certificate of localhost that ends in two days. */
export function makeCertificate(key: string, certificate: string): void {
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const files = ['-keyout', key, '-out', certificate];
  execFileSync('openssl', ['req', '-x509', ...curve, '-nodes', '-days', '2', ...subject, ...files], {
    stdio: 'ignore',
  });
}
