import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type Tenant, tenantName } from '@muster/sdk/contract';
import { beforeAll, expect, test } from 'vitest';
import { ArchiveError } from '../../packages/service/src/store/archive/archive-format.ts';
import type { Node } from '../crash/node.ts';
import { lookInto } from '../crash/store.ts';
import { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { program } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import {
  dump,
  exportDatabase,
  importTenantInto,
  linesOf,
  muster,
  musterProcess,
  Places,
  pack,
} from './archives.ts';
import { populate } from './contents.ts';

/** What is refused with which message, and that nothing is left of it. */
const places = new Places();
let source: Node;
let target: Node;
let tenant: Tenant;
let name: string;
let key: string;
let file: string;
let lines: string[];

beforeAll(async () => {
  [source, target] = await Promise.all([places.node({ runner: false }), places.node({ runner: false })]);
  const operator = await operatorOf({ ...source.server, databaseUrl: await source.databaseUrl() });
  const made = await newTenant(operator);
  tenant = made.tenant;
  name = tenantName(tenant);
  key = made.admin.key;
  await populate(made.admin);
});

const here = (...args: string[]) => muster(args, source.server.env);
const there = (...args: string[]) => muster(args, target.server.env);

test('commands about a tenant that is unknown, open or the first one are refused', async () => {
  const target = places.path('refused.gz');
  const cases: [args: string[], code: number, words: string][] = [
    [['tenant', 'close', 'acme'], 2, '"acme": expected a tenant as <provider>/<org>'],
    [
      ['tenant', 'close', 'codehost_app/nobody'],
      3,
      'the tenant codehost_app/nobody does not exist in this database',
    ],
    [
      ['tenant', 'open', 'codehost_app/nobody'],
      3,
      'the tenant codehost_app/nobody does not exist in this database',
    ],
    [
      ['tenant', 'close', 'codehost_app/local'],
      5,
      "is the first tenant of this installation and can't be closed",
    ],
    [['export', '--tenant', 'elsewhere/acme', '-f', target], 2, '"elsewhere/acme": expected a tenant'],
    [
      ['export', '--tenant', 'codehost_app/nobody', '-f', target],
      1,
      'The tenant codehost_app/nobody does not exist in this database',
    ],
    [['export', '--tenant', name, '-f', target], 1, `is open: what it writes after the export would be lost`],
  ];
  for (const [args, code, words] of cases) {
    const said = await here(...args);
    expect(said, args.join(' ')).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(words) });
    expect(said.stderr.split('\n').length, said.stderr).toBe(2);
  }
});

test('archives that do not fit are refused, and nothing of them is left', async () => {
  expect(await here('tenant', 'close', name)).toMatchObject({ code: 0 });
  file = await exportDatabase(await source.databaseUrl(), places.path('tenant.gz'), tenant);
  lines = linesOf(file);
  const whole = await exportDatabase(await source.databaseUrl(), places.path('whole.gz'));
  const before = await dump(await target.databaseUrl());
  const changed = (change: (line: string) => string): string =>
    pack(places.path('changed.gz'), lines.map(change));
  const header = (fields: object) =>
    changed((line) =>
      line.startsWith('{"format"') ? JSON.stringify({ ...JSON.parse(line), ...fields }) : line,
    );
  const cases: [archive: string, words: string][] = [
    [whole, 'The archive has a whole database'],
    [
      header({ tenant: { ...tenant, org: 'other' } }),
      `The archive has the tenant codehost_app/other, not ${name}`,
    ],
    [header({ migration: 0 }), 'The archive has the schema of migration 0; this database has'],
    [changed((line) => line.replace('"admin"', '"operator"')), 'has the role operator'],
    [changed((line) => line.replace('{"table":"diffs"', '{"table":"runners"')), 'unknown table: runners'],
    [pack(places.path('cut.gz'), lines.slice(0, -1)), 'The archive is truncated'],
    [pack(places.path('less.gz'), lines.toSpliced(2, 1)), 'The archive is damaged: it has'],
    [
      pack(places.path('twice.gz'), lines.toSpliced(2, 0, lines[2] ?? '')),
      'Rows of keys exist here already (Key ',
    ],
  ];
  const url = await target.databaseUrl();
  for (const [archive, words] of cases) {
    const error: unknown = await importTenantInto(url, tenant, archive).catch((thrown) => thrown);
    expect(error, words).toBeInstanceOf(ArchiveError);
    expect((error as ArchiveError).message).toContain(words);
  }
  expect(await musterProcess(['import', '--tenant', name, '-f', whole], target.server.env)).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^muster: The archive has a whole database[^\n]*\n$/),
  });
  expect(await dump(url)).toEqual(before);

  const empty = await places.migratedDatabase();
  await expect(importTenantInto(empty, tenant, file)).rejects.toThrow('The database has no tenant yet');
  await expect(places.importedDatabase(file)).rejects.toThrow(`The archive has only the tenant ${name}`);
});

test('a killed import leaves nothing and delays nobody; rows reach no tenant but the new one', async () => {
  const url = await target.databaseUrl();
  const before = await dump(url);
  // Every row says that it belongs to the first tenant of the target.
  const columns = lines.flatMap((line) => (line.startsWith('{"table"') ? [JSON.parse(line).columns] : []));
  expect(columns.every(([first]) => first === 'tenant')).toBe(true);
  const foreign = pack(
    places.path('foreign.gz'),
    lines.map((line) => (line.startsWith('[') ? JSON.stringify(['1', ...JSON.parse(line).slice(1)]) : line)),
  );
  const bytes = readFileSync(foreign);
  const child = spawn(process.execPath, [program, 'import', '--tenant', name, '-f', '-'], {
    env: target.server.env,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  // It may be killed before it has read everything.
  child.stdin.on('error', () => {});
  child.stdin.write(bytes.subarray(0, bytes.length / 2));
  await lookInto(url, async (store) => {
    const importing = (state: string) =>
      store.count(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'muster-import' AND ${state}`,
      );
    await until(
      'rows are inserted',
      () => importing("state = 'idle in transaction' AND backend_xid IS NOT NULL"),
      (sessions) => sessions > 0,
    );
    await new Agents(target.api, 'default').spawn('meanwhile');
    await new Agents(target.api, 'default').kill('meanwhile');
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    await until(
      'the transaction is gone',
      () => importing('true'),
      (sessions) => sessions === 0,
    );
  });
  const after = await dump(url);
  const isMeanwhile = (row: string) => !before.includes(row);
  expect(after.filter(isMeanwhile).every((row) => / \(1,/.test(row))).toBe(true);
  expect((await target.api.as(key).get('/v1/whoami')).status).toBe(401);

  expect(await there('import', '--tenant', name, '-f', foreign)).toMatchObject({ code: 0 });
  const imported = await dump(url);
  const added = imported.filter((row) => !after.includes(row) && !row.startsWith('tenants '));
  expect(added.length).toBeGreaterThan(50);
  expect(added.filter((row) => / \((0|1),/.test(row))).toEqual([]);
  expect((await target.api.as(key).get('/v1/whoami')).body).toMatchObject({ tenant });
});
