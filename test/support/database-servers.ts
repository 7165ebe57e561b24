import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { prepareBinaries } from '../../packages/service/src/store/embedded/binaries.ts';
import {
  dataArgument,
  ensureData,
  readPassword,
  readPostmasterFile,
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
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  };
}

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
    stop,
  };
}

/** PostgreSQL that accepts connections with TLS only, at `localhost`. */
export async function startTlsPostgres(): Promise<
  DatabaseServer & { readonly password: string; readonly certificate: string }
> {
  const folder = mkdtempSync(join(tmpdir(), 'muster-tls-'));
  const identity = await chooseIdentity();
  await ownFolder(folder, identity);
  const binaries = await prepareBinaries(folder, identity);
  await ensureData(folder, binaries, identity);
  const data = join(folder, 'data');
  const [key, certificate] = [join(data, 'server.key'), join(data, 'server.crt')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const files = ['-keyout', key, '-out', certificate];
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
      ...subject,
      ...files,
    ],
    { stdio: 'ignore' },
  );
  writeFileSync(join(data, 'pg_hba.conf'), 'hostssl all all 127.0.0.1/32 scram-sha-256\n');
  await ownFolder(data, identity);
  const port = await freePort();
  const settings = {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    ssl: 'on',
    ssl_cert_file: 'server.crt',
    ssl_key_file: 'server.key',
    fsync: 'off',
    timezone: 'Asia/Tokyo',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const stop = await startWatched({
    folder,
    command: [binaries.postgres, '-D', dataArgument(data), ...flags],
    env: binaries.env,
    isReady: async () => (await readPostmasterFile(data))?.ready ?? false,
  });
  const password = await readPassword(data);
  const query = `sslmode=verify-full&sslrootcert=${encodeURIComponent(certificate)}`;
  return {
    password,
    certificate,
    url: (database) => `postgres://muster:${password}@localhost:${port}/${database}?${query}`,
    stop,
  };
}
