import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import { prepareBinaries } from './binaries.ts';
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  EmbeddedPostgresUnavailableError,
  FolderInUseError,
  startEmbeddedPostgres,
} from './embedded-postgres.ts';
import { startTime } from './processes.ts';

const isRoot = process.getuid?.() === 0;
const isLinux = process.platform === 'linux';
const platformPackage = `@embedded-postgres/${process.platform}-${process.arch}`;
const require = createRequire(import.meta.url);

/** All files of these tests are below this folder, which every user may enter: some tests run as another user. */
const base = mkdtempSync(join(tmpdir(), 'muster-test-'));
chmodSync(base, 0o755);
/** A folder with a database, copied by tests that do not test initdb. */
const template = join(base, 'template');
/** The compiled launcher in a separate clone, whose package has no links, as without install scripts. */
const clone = join(base, 'home', 'clone');

const servers: EmbeddedPostgres[] = [];
const children: ChildProcess[] = [];

beforeAll(async () => {
  const server = await startEmbeddedPostgres({ folder: template });
  await query(server, 'CREATE TABLE note (text text)');
  await server.stop();
  buildClone();
});

afterEach(async () => {
  vi.unstubAllEnvs();
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await Promise.all(servers.splice(0).map((server) => server.stop()));
  await eventually(() => expect(processesIn(base), 'left behind').toEqual([]));
});

afterAll(() => rmSync(base, { recursive: true, force: true }));

describe('starting', () => {
  test('creates a durable database that only its owner can access, and reuses it', async () => {
    const folder = freshFolder();
    const interrupted = join(folder, 'initdb-abc', 'data');
    mkdirSync(interrupted, { recursive: true });
    writeFileSync(join(interrupted, 'PG_VERSION'), '18\n');
    const lines: string[] = [];
    const first = await start({ folder, settings: { work_mem: '5MB' }, log: (line) => lines.push(line) });
    expect(first.connection.database).toBe('muster');
    expect(existsSync(interrupted)).toBe(false);
    const settings = {
      fsync: 'on',
      synchronous_commit: 'on',
      full_page_writes: 'on',
      data_checksums: 'on',
      listen_addresses: '',
      unix_socket_permissions: '0700',
      server_encoding: 'UTF8',
      work_mem: '5MB',
    };
    const shown = Object.keys(settings).map((name) => `current_setting('${name}') AS ${name}`);
    expect(await query(first, `SELECT ${shown}`)).toEqual([settings]);
    for (const path of [folder, join(folder, 'data')]) expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, 'data', 'muster-password')).mode & 0o777).toBe(0o600);
    const guest = new Client({ ...first.connection, password: 'guess' });
    await expect(guest.connect()).rejects.toThrow('password authentication failed');

    await query(first, "CREATE TABLE note AS SELECT 'kept' AS text");
    const exited = vi.fn();
    void first.exited.then(exited);
    await Promise.all([first.stop(), first.stop()]);
    expect(await isGone(first.pid)).toBe(true);
    expect(exited, 'a stop that was asked for is no crash').not.toHaveBeenCalled();
    expect(lines.some((line) => line.includes('database system is shut down'))).toBe(true);

    const second = await start({ folder });
    expect(await query(second, 'SELECT text FROM note')).toEqual([{ text: 'kept' }]);
  });

  test('puts the socket into a shorter folder if the path is too long', async () => {
    const folder = folderWithDatabase(join('d'.repeat(60), 'e'.repeat(60)));
    vi.stubEnv('TMPDIR', mkdtempSync(join(base, 't-')));
    const server = await start({ folder });
    expect(dirname(server.connection.host)).toBe(process.env.TMPDIR);
    expect(statSync(server.connection.host).mode & 0o777).toBe(0o700);
    expect(await query(server, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('refuses a folder with other files and leaves it unchanged', async () => {
    const folder = freshFolder();
    writeFileSync(join(folder, 'thesis.txt'), 'do not touch');
    chmodSync(folder, 0o755);
    await expect(start({ folder })).rejects.toThrow('thesis.txt');
    expect(statSync(folder).mode & 0o777).toBe(0o755);
  });

  test('reports the output of PostgreSQL if it does not start', async () => {
    const folder = folderWithDatabase();
    await expect(start({ folder, settings: { shared_buffers: 'plenty' } })).rejects.toThrow(
      /invalid value for parameter "shared_buffers"/,
    );
    await start({ folder });
  });
});

describe('one service per folder', () => {
  test('refuses a second service, in the same process and in another', async () => {
    const folder = folderWithDatabase();
    await start({ folder });
    const again = startEmbeddedPostgres({ folder });
    await expect(again).rejects.toThrow(FolderInUseError);
    await expect(again).rejects.toThrow(`The folder ${folder} is in use by process ${process.pid}`);

    const other = await startInChild(folder);
    expect(other).toMatchObject({
      error: 'FolderInUseError',
      message: `The folder ${folder} is in use by process ${process.pid}; stop it first, or use another folder.`,
    });
  });

  test('starts one of two services that start at the same time on an empty folder', async () => {
    const folder = freshFolder();
    const answers = await Promise.all([startInChild(folder), startInChild(folder)]);
    expect(answers.map((answer) => answer.error ?? 'started').sort()).toEqual([
      'FolderInUseError',
      'started',
    ]);
  });

  test('does not disturb a PostgreSQL that was started by hand', async () => {
    const folder = folderWithDatabase();
    const server = await start({ folder });
    // To the launcher a server whose lock is another file is one that it knows nothing of.
    rmSync(join(folder, 'lock'));
    expect(await startInChild(folder)).toMatchObject({
      error: 'FolderInUseError',
      message: expect.stringContaining(`process ${server.pid}`),
    });
    expect(await query(server, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });
});

describe('after a crash', () => {
  test('the server ends with its owner, even after kill -9, and the folder can be used immediately', async () => {
    const folder = folderWithDatabase();
    const owner = await startInChild(folder);
    owner.child.kill('SIGKILL');
    await eventually(async () => expect(await isGone(started(owner).pid)).toBe(true));
    await eventually(() => expect(processesIn(folder)).toEqual([]));

    const nextOwner = await startInChild(folder);
    const { pid } = started(nextOwner);
    nextOwner.child.kill('SIGKILL');
    await once(nextOwner.child, 'exit');
    const server = await start({ folder });
    expect(await query(server, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect(await isGone(pid)).toBe(true);
    await server.stop();
    await eventually(() => expect(processesIn(folder)).toEqual([]));
  });

  test('starts despite a postmaster.pid that names an unrelated process, a zombie or none', async () => {
    const folder = folderWithDatabase();
    const bystander = spawn('sleep', ['60']);
    children.push(bystander);
    const gone = spawn('true');
    await once(gone, 'exit');
    const negligent = spawn('sh', ['-c', 'true & echo $!; exec sleep 60']);
    children.push(negligent);
    const [zombie] = await once(createInterface({ input: negligent.stdout }), 'line');
    for (const pid of [bystander.pid, gone.pid, zombie]) {
      const stale = `${pid}\n${join(folder, 'data')}\n1700000000\n5432\n.\n\n  1234567   42\nready   \n`;
      writeFileSync(join(folder, 'data', 'postmaster.pid'), stale);
      writeFileSync(join(folder, 'data', '.s.PGSQL.5432.lock'), stale);
      writeFileSync(join(folder, 'lock'), `${pid} 12345\n`);
      if (isRoot) for (const name of ['postmaster.pid', '.s.PGSQL.5432.lock']) giveLike(folder, name);
      const server = await start({ folder });
      expect(await query(server, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
      await server.stop();
    }
    expect(bystander.exitCode).toBeNull();
  });

  test('the owner learns of a killed postmaster and can restart it, even with a busy backend', async () => {
    const folder = folderWithDatabase();
    const first = await start({ folder });
    await query(first, "INSERT INTO note VALUES ('acknowledged')");
    const busy = new Client(first.connection);
    busy.on('error', () => {});
    await busy.connect();
    const endless = busy
      .query('SELECT count(*) FROM generate_series(1, 1000000000000)')
      .catch(() => 'cut off');
    await eventually(async () => {
      const active =
        "SELECT 1 AS one FROM pg_stat_activity WHERE query LIKE 'SELECT count%' AND state = 'active'";
      expect(await query(first, active)).toEqual([{ one: 1 }]);
    });

    process.kill(first.pid, 'SIGKILL');
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' });
    const second = await start({ folder });
    expect(await query(second, 'SELECT text FROM note')).toEqual([{ text: 'acknowledged' }]);
    expect(await endless).toBe('cut off');
    await first.stop();
  });
});

describe('as any user, in any folder', () => {
  test.runIf(isRoot && isLinux)(
    'root in a 0700 home, no install scripts: uses a user namespace',
    async () => {
      chmodSync(dirname(clone), 0o700);
      const folder = join(clone, 'fresh', 'postgres');
      const { pid } = started(await startInChild(folder, { app: clone }));
      expect(uidOf(pid)).toBe(0);
      expect(statSync(join(folder, 'data')).uid).toBe(0);
      expect(readdirSync(join(folder, 'lib'))).toContain('libpq.so.5');
      expect(readdirSync(join(packageIn(clone), 'native', 'lib'))).not.toContain('libpq.so.5');
    },
  );

  test.runIf(isRoot && isLinux)('root in a 0700 home, no namespaces: becomes nobody', async () => {
    chmodSync(dirname(clone), 0o700);
    const folder = join(clone, 'nobody', 'postgres');
    const temporary = freshFolder();
    chmodSync(temporary, 0o755);
    const env = { PATH: `${pathWithoutNamespaces()}:${process.env.PATH}`, TMPDIR: temporary };
    const answer = await startInChild(folder, { app: clone, env });
    const { pid } = started(answer);
    expect(uidOf(pid)).toBe(65534);
    expect(statSync(join(folder, 'data', 'base')).uid).toBe(65534);
    answer.child.kill('SIGKILL');
    await eventually(async () => expect(await isGone(pid)).toBe(true));

    const asRoot = started(await startInChild(folder, { app: clone }));
    expect(uidOf(asRoot.pid)).toBe(0);
    expect(statSync(join(folder, 'data', 'base')).uid).toBe(0);
  });

  test.runIf(isRoot && isLinux)('an ordinary user, with a package that is not writable', async () => {
    chmodSync(dirname(clone), 0o755);
    const home = freshFolder();
    chownSync(home, 65534, 65534);
    const folder = join(home, `it's "$HOME", \\n`, 'postgres');
    const { pid } = started(await startInChild(folder, { app: clone, uid: 65534 }));
    expect(uidOf(pid)).toBe(65534);
    expect(statSync(join(folder, 'data')).uid).toBe(65534);
  });

  test.runIf(isLinux)(
    'a path that LD_LIBRARY_PATH cannot contain: copies the package with its links',
    async () => {
      chmodSync(dirname(clone), 0o755);
      vi.stubEnv('TMPDIR', freshFolder());
      const folder = join(freshFolder(), 'a:b');
      mkdirSync(folder);
      const first = await prepareBinaries(folder, 'self', join(clone, 'x.js'));
      expect(first.env).toEqual({});
      expect(readdirSync(join(dirname(first.postgres), '..', 'lib'))).toContain('libpq.so.5');
      // A crash may leave an incomplete file.
      writeFileSync(first.initdb, 'half');
      const second = await prepareBinaries(folder, 'self', join(clone, 'x.js'));
      expect(execFileSync(second.initdb, ['--version'], { encoding: 'utf8' })).toContain('PostgreSQL');
    },
  );
});

describe('says why it cannot run, and names DATABASE_URL', () => {
  const unavailable = async (resolveFrom: string, why: RegExp) => {
    const attempt = prepareBinaries(freshFolder(), 'self', join(resolveFrom, 'x.js'));
    await expect(attempt).rejects.toThrow(EmbeddedPostgresUnavailableError);
    await expect(attempt).rejects.toThrow(why);
    await expect(attempt).rejects.toThrow('Set DATABASE_URL');
  };

  test('without the optional package', async () => {
    await unavailable(freshFolder(), /@embedded-postgres\/.* is not installed/);
  });

  test('with a glibc that is too old', async () => {
    const complaint = "postgres: libc.so.6: version \\`GLIBC_2.27' not found";
    await unavailable(fakePackage(`#!/bin/sh\necho "${complaint}" >&2\nexit 1\n`), /GLIBC_2\.27.*not Alpine/);
  });

  test('without glibc', async () => {
    await unavailable(fakePackage('#!/lib64/no-such-loader\n'), /ENOENT.*not Alpine/);
  });
});

const freshFolder = (): string => mkdtempSync(join(base, 'f-'));

function folderWithDatabase(below = ''): string {
  const folder = join(freshFolder(), below);
  mkdirSync(folder, { recursive: true });
  execFileSync('cp', ['-R', `${template}/.`, folder]);
  return folder;
}

function giveLike(folder: string, name: string): void {
  const { uid, gid } = statSync(join(folder, 'data'));
  chownSync(join(folder, 'data', name), uid, gid);
}

async function start(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres(options);
  servers.push(server);
  return server;
}

async function query(server: EmbeddedPostgres, sql: string): Promise<unknown[]> {
  const client = new Client(server.connection);
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

const isGone = async (pid: number): Promise<boolean> => (await startTime(pid)) === undefined;

const uidOf = (pid: number): number => Number(/^Uid:\s+(\d+)/m.exec(status(pid))?.[1]);

/** Servers, backends and watchers: the folder, or a folder in it, is their working directory. */
function processesIn(folder: string): string[] {
  if (!isLinux) return [];
  const worksHere = (pid: string) => {
    try {
      const cwd = readlinkSync(`/proc/${pid}/cwd`);
      return (cwd === folder || cwd.startsWith(`${folder}/`)) && !/^State:\s+Z/m.test(status(pid));
    } catch {
      return false;
    }
  };
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && worksHere(name));
}

const status = (pid: number | string): string => readFileSync(`/proc/${pid}/status`, 'utf8');

interface Answer {
  child: ChildProcess;
  pid?: number;
  error?: string;
  message?: string;
}

function started(answer: Answer): { pid: number } {
  if (answer.pid === undefined) throw new Error(`the server did not start: ${answer.message}`);
  return { pid: answer.pid };
}

interface ChildOptions {
  app?: string;
  env?: Record<string, string>;
  uid?: number;
}

/** Starts the server in a separate process, which runs until it is killed. */
async function startInChild(folder: string, options: ChildOptions = {}): Promise<Answer> {
  const app = options.app ?? clone;
  const identity = options.uid === undefined ? {} : { uid: options.uid, gid: options.uid };
  const child = spawn(process.execPath, [join(app, 'start.mjs'), folder], {
    cwd: '/',
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'inherit'],
    ...identity,
  });
  children.push(child);
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  return { child, ...JSON.parse(line) };
}

function buildClone(): void {
  const source = fileURLToPath(new URL('embedded-postgres.ts', import.meta.url));
  const outfile = join(clone, 'dist', 'embedded-postgres.js');
  const options = { bundle: true, platform: 'node', format: 'esm' } as const;
  buildSync({ entryPoints: [source], outfile, external: ['pg'], ...options });
  writeFileSync(join(clone, 'package.json'), '{ "type": "module" }');
  writeFileSync(
    join(clone, 'start.mjs'),
    `import { startEmbeddedPostgres } from './dist/embedded-postgres.js';
    setInterval(() => {}, 1000);
    const say = (answer) => console.log(JSON.stringify(answer));
    startEmbeddedPostgres({ folder: process.argv[2] }).then(
      ({ pid, connection }) => say({ pid, connection }),
      (error) => { say({ error: error.name, message: error.message }); process.exit(1); },
    );`,
  );
  mkdirSync(join(clone, 'node_modules'));
  symlinkSync(dirname(require.resolve('pg/package.json')), join(clone, 'node_modules', 'pg'));
  const original = dirname(dirname(require.resolve(platformPackage)));
  cpSync(original, packageIn(clone), {
    recursive: true,
    filter: (path) => !/lib(pq|icu\w+|ecpg\w*|pgtypes)\.so(\.\d+)?$/.test(path),
  });
}

const packageIn = (app: string): string => join(app, 'node_modules', platformPackage);

/** An `unshare` that fails as in a container with the default seccomp profile. */
function pathWithoutNamespaces(): string {
  const folder = freshFolder();
  writeFileSync(
    join(folder, 'unshare'),
    '#!/bin/sh\necho "unshare failed: Operation not permitted" >&2\nexit 1\n',
  );
  chmodSync(join(folder, 'unshare'), 0o755);
  return folder;
}

function fakePackage(program: string): string {
  const app = freshFolder();
  const root = packageIn(app);
  for (const folder of ['dist', 'native/lib', 'native/bin'])
    mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, 'package.json'), '{ "version": "0.0.0", "exports": "./dist/index.js" }');
  writeFileSync(join(root, 'dist', 'index.js'), '');
  writeFileSync(join(root, 'native', 'bin', 'postgres'), program);
  chmodSync(join(root, 'native', 'bin', 'postgres'), 0o755);
  return app;
}
