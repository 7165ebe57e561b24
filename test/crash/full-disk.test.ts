import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { appendFileSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Service } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readPassword } from '../../packages/service/src/store/embedded/data-folder.ts';
import { MusterRunner } from '../agents/test-service.ts';
import { Agents } from '../support/agents.ts';
import { type Api, agent, apiOf } from '../support/api.ts';
import { eventually, until } from '../support/async.ts';
import { createKey, uniqueName, writeResource } from '../support/catalog.ts';
import { removeTree } from '../support/files.ts';
import { type Server, startServer } from '../support/server.ts';

const mebibyte = 1024 ** 2;

function mayMount(): boolean {
  try {
    execFileSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'], { stdio: 'ignore' });
    return true;
  } catch {
    process.stderr.write('\n*** TESTS OF A FULL DISK ARE SKIPPED: they need root and unshare\n\n');
    return false;
  }
}

let server: Server;
let api: Api;
let agents: Agents;
const isPossible = mayMount();
beforeAll(async () => {
  if (!isPossible) return;
  server = await startServer({
    diskMb: 600,
    env: { DATABASE_URL: undefined, MUSTER_DISK_RESERVE_GB: '0.2' },
  });
  api = apiOf(server);
  agents = new Agents(api, 'default');
});
afterAll(() => server?.close());

/** The data folder as the server sees it. */
const dataFolder = () => `/proc/${server.process.pid}/root${server.env.MUSTER_DATA}`;
const freeBytes = (): number => {
  const { bavail, bsize } = statfsSync(dataFolder());
  return bavail * bsize;
};
const postgresData = () => `${dataFolder()}/postgres/data`;
/** The database on the small disk, for a node that is elsewhere. */
async function urlOnDisk(): Promise<string> {
  const password = encodeURIComponent(await readPassword(postgresData()));
  return `postgres://muster:${password}@localhost:5432/muster?host=${encodeURIComponent(postgresData())}`;
}
const runners = async () => (await api.get<Service>('/v1/service')).body.runners;

test.skipIf(!isPossible)(
  'an agent that fills the disk is stopped, and the others and the database go on',
  async () => {
    await agents.spawn('quiet', { description: '!sleep 600' });
    await agents.spawn('writer', { description: '!run head -c 380M /dev/zero > big; sleep 600' });
    const stopped = await until(
      'the writer stopped',
      () => agents.status('writer'),
      ({ error }) => error !== null,
    );
    expect(stopped).toMatchObject({ phaseReason: 'RETRYING', error: { code: 'DISK_FULL' } });
    expect(stopped.error?.message).toMatch(/disk of the runner is almost full/);
    expect(stopped.error?.message).toBe(
      `${(await agents.timeline('writer', 'WARNING')).at(-1)?.text} (attempt 1)`,
    );
    await eventually(async () => expect(await runners()).toMatchObject([{ diskFull: true }]));
    expect(await agents.phase('quiet')).toBe('RUNNING/WORKING');
    expect((await api.get('/readyz')).status).toBe(200);

    await agents.kill('writer');
    await eventually(() => expect(freeBytes()).toBeGreaterThan(300 * mebibyte));
    await eventually(async () => expect(await runners()).toMatchObject([{ diskFull: false }]));
    await agents.spawn('next', { description: '!say served' });
    expect(await agents.wait('next')).toMatchObject({ response: 'served' });
  },
);

test.skipIf(!isPossible)(
  'a node whose database is elsewhere is not ready while that disk is full',
  async () => {
    const databaseUrl = await urlOnDisk();
    const other = await startServer({ databaseUrl, runner: false });
    const file = `${dataFolder()}/ballast`;
    try {
      const there = apiOf({ url: other.url, key: server.key });
      expect((await there.get('/readyz')).status).toBe(200);
      fill(file);
      const description = randomBytes(12 * 1024).toString('base64');
      await until(
        'a write refused',
        () => there.post('/v1/agent/spawn', { agentId: agent(uniqueName('large')), description }),
        ({ status }) => status !== 200,
      );
      const { status, body } = await there.get('/readyz');
      expect(status).toBe(503);
      expect(body).toMatchObject({
        message: expect.stringMatching(/disk of the database is full|not answer/),
      });
      rmSync(file);
      await eventually(async () => expect((await there.get('/readyz')).status).toBe(200));
    } finally {
      rmSync(file, { force: true });
      await other.close();
    }
  },
);

/** Leaves nothing free, also if PostgreSQL takes some of it meanwhile. */
function fill(file: string): void {
  try {
    appendFileSync(file, Buffer.alloc(freeBytes()));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}

/** PostgreSQL makes these files again when a session begins, and refuses the session if it can't. */
async function refuseSessions(file: string, direct: pg.Client): Promise<void> {
  for (const name of readdirSync(postgresData(), { recursive: true, encoding: 'utf8' }))
    if (name.endsWith('pg_internal.init')) rmSync(join(postgresData(), name), { force: true });
  fill(file);
  await direct.query(
    'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL',
  );
}

test.skipIf(!isPossible)(
  'a run continues after a time in which PostgreSQL, without disk space, refused every connection',
  async () => {
    const databaseUrl = await urlOnDisk();
    const node = await startServer({ databaseUrl, runner: false });
    const folder = mkdtempSync(join(tmpdir(), 'muster-runner-'));
    const file = `${dataFolder()}/ballast`;
    const direct = new pg.Client({ connectionString: databaseUrl });
    let runner: MusterRunner | undefined;
    try {
      await direct.connect();
      const there = apiOf({ url: node.url, key: server.key });
      const pool = uniqueName('pool');
      await writeResource(there, 'pool', pool, {});
      await writeResource(there, 'workspace', pool, { pool });
      const { key } = await createKey(there, { role: 'runner', pool });
      runner = await MusterRunner.start({ url: node.url, key, pool, folder, env: {} });
      const working = new Agents(there, pool);
      await working.spawn('reports', {
        description: '!run for i in $(seq 50); do echo $i; sleep 0.1; done\n!say kept',
      });
      await eventually(async () => expect(await working.phase('reports')).toBe('RUNNING/WORKING'));
      const statuses = new Set<number>();
      const refusals = () => node.output.join('').split('could not write init file').length - 1;
      await until(
        'requests and reports refused',
        async () => {
          if (refusals() === 0) await refuseSessions(file, direct);
          else statuses.add((await working.send('agent/status', 'reports')).status);
          return refusals();
        },
        (count) => count > 10,
      );
      expect([...statuses]).toEqual([503]);
      rmSync(file);
      await eventually(async () => expect(await working.phase('reports')).toBe('WAITING_FOR_INPUT/RESTING'));
      expect(await working.status('reports')).toMatchObject({ response: 'kept' });
      expect(await working.runs('reports')).toMatchObject([{ outcome: 'COMPLETED' }]);
    } finally {
      rmSync(file, { force: true });
      await direct.end();
      await runner?.kill();
      await node.close();
      removeTree(folder);
    }
  },
);

test.skipIf(!isPossible)('readiness names a full disk of the database', async () => {
  const file = `${dataFolder()}/ballast`;
  writeFileSync(file, Buffer.alloc(freeBytes() - 40 * mebibyte));
  const { status, body } = await api.get('/readyz');
  expect(status).toBe(503);
  expect(body).toMatchObject({ message: expect.stringMatching(/disk of the database is full: \d+ MiB/) });
  rmSync(file);
  await eventually(async () => expect((await api.get('/readyz')).status).toBe(200));
});
