import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { repoUrls } from '../../packages/service/src/codehost/names.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import {
  askAll,
  askByHead,
  askByName,
  type ChangeRequestRow,
  dueChangeRequests,
  insertChangeRequest,
  noteProblem,
  postponeChangeRequest,
  saveChangeRequest,
  syncByName,
} from '../../packages/service/src/store/statements/change-requests.ts';
import {
  dueItems,
  insertItems,
  type NewItem,
  readItem,
  settleItem,
} from '../../packages/service/src/store/statements/outbox.ts';
import {
  duePushedBranches,
  findPushedBranch,
  settlePushedBranch,
} from '../../packages/service/src/store/statements/pushed-branches.ts';
import { freshDatabase, insertAgentRow } from '../support/database.ts';

/** Work for code hosts that waits in the database: who gets it, and what happens to it meanwhile. */
const leaseMs = 15_000;
const tenants = [1, 2, 3, 4, 5, 6];
let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let agent: string;

beforeAll(async () => {
  database = await freshDatabase();
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  for (const tenant of tenants)
    await client.query("INSERT INTO tenants (id, provider, org) VALUES ($1, 'PROVIDER_CODEHOST_APP', $2)", [
      tenant,
      `org-${tenant}`,
    ]);
  agent = await insertAgentRow(client, 1, { tenant: 1, owner_provider: 'PROVIDER_CODEHOST_OAUTH' });
  await client.end();
  pool = openDatabase({ connectionString: database.url }, () => {});
});
afterEach(() => pool.query('TRUNCATE change_requests, pushed_branches, outbox'));
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const item = (tenant: number, key: string): NewItem => ({
  ...{ tenant, topic: 'codehost', target: 'host', lane: key, kind: 'comment', agent: null, data: {}, key },
});
const now = () => new Date().toISOString();

test('tenants with many rows do not keep others from being claimed', async () => {
  const items = tenants.flatMap((tenant) => Array.from({ length: 40 }, (_, i) => item(tenant, `item-${i}`)));
  await insertItems(pool, items, now());
  const claimed = [];
  for (let i = 0; i < 60; i++) claimed.push(...(await dueItems.claim(pool, 4, 1, leaseMs, [], [], true)));
  expect(claimed).toHaveLength(60);
  expect(new Set(claimed.map(({ tenant }) => tenant)).size).toBe(tenants.length);
});

test('a tenant gets no more than its number at a time, with what is being worked on', async () => {
  await insertItems(
    pool,
    [1, 2, 3].flatMap((tenant) => Array.from({ length: 9 }, (_, i) => item(tenant, `item-${i}`))),
    now(),
  );
  const claimed = await dueItems.claim(pool, 4, 16, leaseMs, [1, 2], [3, 4], true);
  expect(claimed.map(({ tenant }) => tenant).sort()).toEqual([1, 3, 3, 3, 3]);
});

test('a claim does not read the whole table', async () => {
  const items = tenants.flatMap((tenant) => Array.from({ length: 800 }, (_, i) => item(tenant, `item-${i}`)));
  await insertItems(pool, items, now());
  await pool.query('ANALYZE outbox');
  const client = await pool.connect();
  const scans = async () =>
    (await client.query("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'outbox'")).rows;
  try {
    await client.query('BEGIN');
    const before = await scans();
    expect(await dueItems.claim(client, 4, 16, leaseMs, [], [], true)).toHaveLength(16);
    expect(await scans()).toEqual(before);
  } finally {
    await client.query('ROLLBACK');
    client.release();
  }
});

const changeRequest = (): ChangeRequestRow => ({
  ...{
    tenant: 1,
    name: 'project-7',
    integration: 'host',
    repo: 'team/project',
    repo_url: '',
    number: 7,
    agent,
  },
  ...{
    url: '',
    title: '',
    state: 'OPEN',
    branch: 'b',
    base: 'main',
    head_sha: '',
    rounds: 0,
    check_rounds: 0,
  },
  ...{
    checks: { state: 'NONE', failing: [] },
    paused: false,
    told: {},
    created_at: now(),
    updated_at: now(),
  },
  review: { state: 'NONE', openThreads: 0, resolvedThreads: 0 },
});
const claimChangeRequests = () => dueChangeRequests.claim(pool, 4, 16, leaseMs, [], [], true);

test('a change request that is asked for while it is compared is compared again afterwards', async () => {
  await insertChangeRequest(pool, changeRequest());
  const [first] = await claimChangeRequests();
  await askByName(pool, 1, 'project-7', 0);
  expect(await claimChangeRequests()).toEqual([]);
  if (first) await saveChangeRequest(pool, { ...first, rounds: 1 }, 3_600_000, 0);
  expect(await claimChangeRequests()).toMatchObject([{ name: 'project-7', rounds: 1 }]);
  await postponeChangeRequest(pool, 1, 'project-7', 3_600_000);
  expect(await claimChangeRequests()).toEqual([]);
  await syncByName(pool, 1, null, 0, true);
  expect(await claimChangeRequests()).toHaveLength(1);
});

test('checks of a commit that the comparison in progress has found are not missed', async () => {
  await insertChangeRequest(pool, changeRequest());
  const [row] = await claimChangeRequests();
  // Their result comes after they were read, and before the record has the commit.
  expect(await askByHead(pool, 1, 'host', 'team/project', 'new', 0)).toHaveLength(1);
  if (row) await saveChangeRequest(pool, { ...row, head_sha: 'new' }, 3_600_000, 0);
  expect(await claimChangeRequests()).toHaveLength(1);
  await postponeChangeRequest(pool, 1, 'project-7', 3_600_000);
  expect(await askByHead(pool, 1, 'host', 'team/project', 'another', 0)).toEqual([]);
  expect(await claimChangeRequests()).toEqual([]);
});

test('what happens to a change request within some seconds is one comparison; a start compares all at once', async () => {
  await insertChangeRequest(pool, changeRequest());
  await postponeChangeRequest(pool, 1, 'project-7', 3_600_000);
  for (let i = 0; i < 3; i++) await askByName(pool, 1, 'project-7', 60_000);
  expect(await claimChangeRequests()).toEqual([]);
  await askAll(pool);
  const [row] = await claimChangeRequests();
  expect(row).toMatchObject({ name: 'project-7' });
  await askByName(pool, 1, 'project-7', 0);
  if (row) await saveChangeRequest(pool, row, null, 60_000);
  expect(await claimChangeRequests()).toEqual([]);
});

test('what was not posted stays on the record of a change request that is compared meanwhile', async () => {
  await insertChangeRequest(pool, changeRequest());
  const [row] = await claimChangeRequests();
  const note = (problem: string) => noteProblem(pool, 1, 'project-7', 'postProblem', problem);
  expect(await note('reply: 403')).toHaveLength(1);
  expect(await note('reply: 403')).toHaveLength(0);
  if (row) await saveChangeRequest(pool, row, 0, 0);
  const [again] = await claimChangeRequests();
  expect(again?.told.postProblem).toBe('reply: 403');
  expect(await note('')).toHaveLength(1);
});

test('an item that failed is sent again when it is written again', async () => {
  await insertItems(pool, [item(1, 'open')], now());
  const [first] = await dueItems.claim(pool, 4, 16, leaseMs, [], [], true);
  await settleItem(pool, 1, first?.id ?? 0, 'FAILED', '', 'no permission');
  await insertItems(pool, [item(1, 'open')], now());
  expect(await readItem(pool, 1, 'open')).toEqual([{ state: 'SENDING', error: '' }]);
  const [second] = await dueItems.claim(pool, 4, 16, leaseMs, [], [], true);
  expect(second).toMatchObject({ id: first?.id, marker: first?.marker, attempts: 0 });
  await settleItem(pool, 1, first?.id ?? 0, 'SENT', '1', '');
  await insertItems(pool, [item(1, 'open')], now());
  expect(await readItem(pool, 1, 'open')).toEqual([{ state: 'SENT', error: '' }]);
});

test('a branch that was pushed to again while it was considered is considered again', async () => {
  const key = [1, 'https://host/team/project', 'b'] as const;
  await pool.query(
    'INSERT INTO pushed_branches (tenant, repo, branch, agent, is_new, next_at) VALUES ($1, $2, $3, $4, false, now())',
    [...key, agent],
  );
  const claim = () => duePushedBranches.claim(pool, 4, 16, leaseMs, [], [], true);
  expect(await claim()).toHaveLength(1);
  // As the end of a run does.
  await pool.query('UPDATE pushed_branches SET next_at = now()');
  await settlePushedBranch(pool, ...key);
  expect(await claim()).toHaveLength(1);
  await settlePushedBranch(pool, ...key);
  expect((await pool.query('SELECT next_at FROM pushed_branches')).rows).toEqual([{ next_at: null }]);
});

test('the agent of a branch is found when its workspace writes the path in another case', async () => {
  await pool.query(
    `INSERT INTO pushed_branches (tenant, repo, branch, agent, is_new)
     VALUES (1, 'git@host:Team/Project.git', 'b', $1, false)`,
    [agent],
  );
  const urls = repoUrls('https://host', 'team/project');
  expect(await findPushedBranch(pool, 1, urls, 'b')).toMatchObject([{ agent }]);
  expect(await findPushedBranch(pool, 2, urls, 'b')).toEqual([]);
});
