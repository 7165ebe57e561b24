import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { beforeAll, expect, test } from 'vitest';
import { ArchiveError } from '../../packages/service/src/store/archive/archive-format.ts';
import { lookInto } from '../crash/store.ts';
import { until } from '../support/async.ts';
import { program } from '../support/server.ts';
import {
  dump,
  exportDatabase,
  importDatabase,
  linesOf,
  muster,
  musterProcess,
  Places,
  pack,
} from './archives.ts';

/** What is refused with which message, and that the database stays empty. */
const places = new Places();
let url: string;
let file: string;
let lines: string[];
let empty: string;

beforeAll(async () => {
  url = await places.migratedDatabase();
  await lookInto(url, async (store) => {
    await store.rows("INSERT INTO tenants (id, provider, org) VALUES (7, 'PROVIDER_CODEHOST_APP', 'seven')");
    await store.rows(`INSERT INTO keys (tenant, key_id, hash, role, owner_provider, account, kind, name, created)
      VALUES (7, 'k', '\\x00', 'admin', '', 'ada', '', '', 1)`);
    await store.rows(`INSERT INTO resources (tenant, kind, name, generation, document)
      VALUES (7, 'persona', 'careful', 1, '{"model": "gpt-5.5"}')`);
    await store.rows(`INSERT INTO resource_history
      SELECT tenant, kind, name, generation, now(), 'ada', 'k', 'CREATE', '', '', document FROM resources`);
  });
  file = await exportDatabase(url, places.path('whole.gz'));
  lines = linesOf(file);
  empty = await places.database();
});

async function expectError(archive: string, words: string, url: string): Promise<void> {
  const error: unknown = await importDatabase(archive, url).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(ArchiveError);
  expect((error as ArchiveError).message).toContain(words);
}

async function expectRefused(archive: string, words: string): Promise<void> {
  await expectError(archive, words, empty);
  await expectEmpty();
}

/** Refused by the command, with an error of one line. */
async function expectCommandRefused(archive: string, words: string, run = muster): Promise<void> {
  const said = await run(['import', '-f', archive], places.env(empty));
  expect(said).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(words) });
  expect(said.stderr.split('\n').length, said.stderr).toBe(2);
  await expectEmpty();
}

async function expectEmpty(): Promise<void> {
  const [tenant, ...others] = await dump(empty);
  expect(tenant).toContain('tenants (0,');
  expect(others).toEqual([]);
}

const packed = (name: string, change: (lines: string[]) => string[]): string =>
  pack(places.path(name), change([...lines]));
const sectionAt = (table: string): number =>
  lines.findIndex((line) => line.startsWith(`{"table":"${table}"`));

test('a truncated archive is refused', async () => {
  const cut = places.path('cut.gz');
  writeFileSync(cut, readFileSync(file));
  truncateSync(cut, statSync(file).size - 12);
  await expectCommandRefused(cut, 'The archive is truncated', musterProcess);
  await expectRefused(
    packed('no-end.gz', (all) => all.slice(0, -1)),
    'The archive is truncated',
  );
  await expectRefused(
    packed('empty.gz', () => []),
    'The archive is truncated',
  );
});

test('an archive with a missing or additional row is refused', async () => {
  const key = sectionAt('keys') + 1;
  await expectRefused(
    packed('less.gz', (all) => all.toSpliced(key, 1)),
    'The archive is damaged: it has 0 rows of keys; its last line says 1',
  );
  await expectRefused(
    packed('twice.gz', (all) => all.toSpliced(key, 0, all[key] ?? '')),
    'The archive is damaged: PostgreSQL refused rows of keys',
  );
  await expectRefused(
    packed('after.gz', (all) => [...all, all[key] ?? '']),
    'The archive is damaged: there is more after its end',
  );
  await expectRefused(
    packed('garbled.gz', (all) => all.toSpliced(key, 1, '["1", nonsense')),
    'The archive is damaged: PostgreSQL refused rows of keys',
  );
});

test('an archive in the wrong order is refused', async () => {
  const [from, to] = [sectionAt('keys'), sectionAt('resources')];
  await expectRefused(
    packed('order.gz', (all) => [
      ...all.slice(0, from),
      ...all.slice(to, -1),
      ...all.slice(from, to),
      ...all.slice(-1),
    ]),
    'The archive is damaged: the table keys comes after notification_deliveries',
  );
  await expectRefused(
    packed('before.gz', (all) => [all[0] ?? '', all[2] ?? '', ...all.slice(1)]),
    'The archive is damaged: a row comes before its table',
  );
  await expectRefused(
    packed('headless.gz', (all) => all.slice(1)),
    'This is not an archive of `muster export`',
  );
});

test('an archive of a newer version, and other files, are refused', async () => {
  const headed = (name: string, change: Record<string, unknown>): string =>
    packed(name, ([header = '', ...rest]) => [JSON.stringify({ ...JSON.parse(header), ...change }), ...rest]);
  await expectRefused(
    headed('newer.gz', { migration: 9999 }),
    'The archive is from a newer Muster (migration 9999;',
  );
  await expectRefused(headed('version.gz', { version: 2 }), 'The archive has version 2; this Muster reads 1');
  await expectRefused(
    packed('table.gz', (all) => all.map((line) => line.replace('{"table":"keys"', '{"table":"kings"'))),
    'The archive has an unknown table: kings',
  );
  await expectRefused(
    packed('column.gz', (all) => all.map((line) => line.replace('"key_id"', '"king_id"'))),
    'The archive has an unknown column: keys.king_id',
  );
  const text = places.path('text.gz');
  writeFileSync(text, 'no archive\n');
  await expectCommandRefused(text, 'is not an archive of muster export, or it is damaged');
  expect(await muster(['import', '-f', places.path('nowhere.gz')], places.env(empty))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("can't read"),
  });
});

test('a database that is not empty is refused', async () => {
  const used = await places.importedDatabase(file);
  const before = await dump(used);
  await expectError(file, 'The store is not empty (there are rows in tenants, keys, resources', used);
  expect(await dump(used)).toEqual(before);
});

const newerTables = ['checkpoints', 'checkpoint_parts', 'threads', 'thread_comments', 'diffs'];

test('an older archive is imported into the columns that it has', async () => {
  const older = packed('older.gz', ([header = '', ...rest]) => [
    JSON.stringify({ ...JSON.parse(header), migration: 1 }),
    ...rest
      .filter((line) => !newerTables.some((name) => line.startsWith(`{"table":"${name}"`)))
      .map((line) => newerTables.reduce((left, name) => left.replace(`,"${name}":0`, ''), line)),
  ]);
  const loaded = await places.importedDatabase(older);
  expect(await dump(loaded)).toEqual(await dump(url));
  expect(await lookInto(loaded, (store) => store.violations())).toEqual([]);
});

test('an export over an existing file, or without a database, is refused', async () => {
  const before = readFileSync(file);
  const env = places.env(url);
  expect(await muster(['export', '-f', file], env)).toMatchObject({
    code: 5,
    stderr: `muster: ${file} already exists; --force replaces it\n`,
  });
  expect(readFileSync(file).equals(before)).toBe(true);
  expect(await muster(['export', '-f', file, '--force', '-o', 'json'], env)).toMatchObject({ code: 0 });
  expect(linesOf(file).slice(1)).toEqual(lines.slice(1));
  expect(statSync(file).mode & 0o777).toBe(0o600);

  const folder = places.path('no-data');
  const said = await muster(['export', '-f', places.path('x.gz')], {
    ...env,
    MUSTER_DATA: folder,
    DATABASE_URL: undefined,
  });
  expect(said).toMatchObject({ code: 3, stderr: expect.stringContaining(`no database in ${folder}`) });
  expect(existsSync(folder)).toBe(false);
  expect(await muster(['export', '-f', join(folder, 'x.gz')], env)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("can't write"),
  });
});

test('an archive can be piped', async () => {
  const other = await places.database();
  const from = spawn(process.execPath, [program, 'export'], {
    env: places.env(url),
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const to = spawn(process.execPath, [program, 'import', '-f', '-'], {
    env: places.env(other),
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  from.stdout.pipe(to.stdin);
  expect(await new Promise((resolve) => to.once('exit', resolve))).toBe(0);
  expect(await dump(other)).toEqual(await dump(url));
});

test('Ctrl-C leaves no file and an empty database', async () => {
  const used = await places.importedDatabase(file);
  const target = places.path('interrupted.gz');
  for (const args of [
    ['export', '-f', target],
    ['import', '-f', file],
  ]) {
    const said = await lookInto(used, async (store) => {
      const blocker = new pg.Client({ connectionString: used });
      await blocker.connect();
      await blocker.query('BEGIN');
      await blocker.query('LOCK TABLE agents IN ACCESS EXCLUSIVE MODE');
      const child = spawn(process.execPath, [program, ...args], { env: places.env(used), stdio: 'ignore' });
      const over = once(child, 'exit');
      await until(
        'the command at the lock',
        () =>
          store.count(
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
          ),
        (waiting) => waiting > 0,
      );
      child.kill('SIGINT');
      const [code] = await over;
      await blocker.end();
      return code;
    });
    expect(said, args[0]).toBe(130);
  }
  expect(existsSync(target)).toBe(false);
});
