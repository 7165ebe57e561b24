import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { freshDatabase } from '../../../../test/support/database.ts';
import { openLog } from '../lib/log.ts';
import { ServiceSecret } from '../lib/service-secret.ts';
import { migrate } from '../store/migrate.ts';
import { openSecrets, secretProblem } from './open-secrets.ts';

const [older, newer, third] = ['o', 'n', 't'].map((letter) => letter.repeat(32)) as [string, string, string];
const own = await freshDatabase();
const folder = mkdtempSync(join(tmpdir(), 'muster-secret-'));
const file = join(folder, 'secret');
const database = new pg.Pool({ connectionString: own.url });
await migrate({ connectionString: own.url });

beforeEach(async () => {
  rmSync(file, { force: true });
  await database.query('DELETE FROM service_secret');
});

afterAll(async () => {
  await database.end();
  await own.drop();
  rmSync(folder, { recursive: true, force: true });
});

const settings = (
  secret: string | null,
  previousSecret: string | null = null,
  lostSecret: string | null = null,
) => ({ dataFolder: folder, secret, previousSecret, lostSecret });
const open = (...secrets: Parameters<typeof settings>) =>
  openSecrets(settings(...secrets), database, openLog('silent'));

test('a node starts if it has the secret of the last start as its own or as the previous one', async () => {
  const starts: [current: string, previous: string | null, isAccepted: boolean][] = [
    [older, null, true],
    [newer, null, false],
    [older, newer, true],
    [newer, older, true],
    // A node that was not restarted with the new secret yet, and dies meanwhile.
    [older, newer, true],
    [newer, null, false],
    [newer, older, true],
    [older, null, false],
    [third, older, false],
    [newer, null, true],
    // Another rotation, in one step, and back.
    [third, newer, true],
    [newer, third, true],
    [newer, null, true],
  ];
  const accepted: unknown[] = [];
  for (const [current, previous] of starts)
    accepted.push([current, previous, await open(current, previous).then(Boolean, () => false)]);
  expect(accepted).toEqual(starts);
});

test('of two nodes that start at the same time on an empty database with different secrets, one starts', async () => {
  const outcomes = await Promise.allSettled([open(older), open(newer)]);
  expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
});

test('a secret is made only for a database without one, and kept in the data folder', async () => {
  const { current } = await open(null);
  expect(new ServiceSecret(readFileSync(file, 'utf8')).id).toBe(current.id);
  expect((await open(null)).current.id).toBe(current.id);
  rmSync(file);
  await expect(open(null)).rejects.toThrow(
    `MUSTER_SECRET is not set, and there is no file ${file}. The database was last used with the secret that has the fingerprint ${current.id}.`,
  );
  await expect(open(null)).rejects.toThrow(`used with this database, as ${file}`);
  expect(existsSync(file)).toBe(false);
});

test.each(['', 'half of a secr'])(
  'a file with the incomplete secret "%s" is neither used nor replaced',
  async (content) => {
    writeFileSync(file, content);
    await expect(open(null)).rejects.toThrow(`the service secret in ${file} is incomplete`);
    expect(await secretProblem(settings(null), database)).toContain('Restore the file');
    expect(readFileSync(file, 'utf8')).toBe(content);
  },
);

test('a lost secret is replaced by naming its fingerprint, which allows nothing else', async () => {
  const { current } = await open(older);
  await expect(open(newer, null, '0'.repeat(24))).rejects.toThrow(`MUSTER_SECRET_LOST=${current.id}`);
  await open(newer, null, current.id);
  await open(newer, null, current.id);
  await expect(open(third, null, current.id)).rejects.toThrow('MUSTER_SECRET has another service secret');
  writeFileSync(file, third);
  await expect(open(null, null, current.id)).rejects.toThrow(`the file ${file} has another service secret`);
});
