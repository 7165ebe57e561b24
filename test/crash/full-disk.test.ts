import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import type { Service } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readPassword } from '../../packages/service/src/store/embedded/data-folder.ts';
import { Agents } from '../support/agents.ts';
import { type Api, agent, apiOf } from '../support/api.ts';
import { eventually, until } from '../support/async.ts';
import { uniqueName } from '../support/catalog.ts';
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
    const data = `${dataFolder()}/postgres/data`;
    const password = encodeURIComponent(await readPassword(data));
    const databaseUrl = `postgres://muster:${password}@localhost:5432/muster?host=${encodeURIComponent(data)}`;
    const other = await startServer({ databaseUrl, runner: false });
    const file = `${dataFolder()}/ballast`;
    try {
      const there = apiOf({ url: other.url, key: server.key });
      expect((await there.get('/readyz')).status).toBe(200);
      writeFileSync(file, Buffer.alloc(freeBytes()));
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

test.skipIf(!isPossible)('readiness names a full disk of the database', async () => {
  const file = `${dataFolder()}/ballast`;
  writeFileSync(file, Buffer.alloc(freeBytes() - 40 * mebibyte));
  const { status, body } = await api.get('/readyz');
  expect(status).toBe(503);
  expect(body).toMatchObject({ message: expect.stringMatching(/disk of the database is full: \d+ MiB/) });
  rmSync(file);
  await eventually(async () => expect((await api.get('/readyz')).status).toBe(200));
});
