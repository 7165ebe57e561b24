import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Log } from '../../packages/service/src/lib/log.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { dueChangeRequests } from '../../packages/service/src/store/statements/change-requests.ts';
import {
  dueDeliveries,
  dueHooks,
  repeatDelivery,
} from '../../packages/service/src/store/statements/deliveries.ts';
import { type DueRows, dueTables } from '../../packages/service/src/store/statements/due-rows.ts';
import { dueTargets } from '../../packages/service/src/store/statements/notifications.ts';
import { dueItems, insertItems, settleItem } from '../../packages/service/src/store/statements/outbox.ts';
import { duePushedBranches } from '../../packages/service/src/store/statements/pushed-branches.ts';
import { dueSchedules } from '../../packages/service/src/store/statements/schedules.ts';
import { SuspectPlace, WorkLoop } from '../../packages/service/src/work/work-loop.ts';
import { until } from '../support/async.ts';
import { freshDatabase, insertAgentRow } from '../support/database.ts';

/** Work that ends the process, again after every start. */
const leaseMs = 15_000;
let database: Awaited<ReturnType<typeof freshDatabase>>;
let pool: pg.Pool;
let agent: string;

beforeAll(async () => {
  database = await freshDatabase();
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(
    "INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'a'), (2, 'PROVIDER_CODEHOST_APP', 'b')",
  );
  agent = await insertAgentRow(client, 1, { tenant: 1, owner_provider: 'PROVIDER_CODEHOST_OAUTH' });
  await client.end();
  pool = openDatabase({ connectionString: database.url }, () => {});
});
afterEach(() => pool.query(`TRUNCATE ${dueTables.join(', ')} CASCADE`));
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const deliver = () =>
  pool.query(`INSERT INTO deliveries
    (tenant, integration, id, event, state, reason, headers, body, bytes, attempts, received_at, next_at)
    VALUES (1, 'host', 'd', 'issues', 'RECEIVED', '', '{}', '', 0, 0, now(), now())`);

/** Which row it is does not matter here. */
const anyRow = <Row>(due: DueRows<Row>) => due as unknown as DueRows<{ readonly tenant: number }>;

const kinds: readonly [DueRows<{ readonly tenant: number }>, () => Promise<unknown>][] = [
  [anyRow(dueDeliveries), deliver],
  [
    anyRow(dueHooks),
    () => pool.query("INSERT INTO hooks (tenant, integration, id, next_at) VALUES (1, 'h', 'x', now())"),
  ],
  [
    anyRow(duePushedBranches),
    () =>
      pool.query(
        "INSERT INTO pushed_branches (tenant, repo, branch, agent, is_new, next_at) VALUES (1, 'r', 'b', $1, false, now())",
        [agent],
      ),
  ],
  [anyRow(dueItems), () => write('a')],
  [
    anyRow(dueSchedules),
    () => pool.query("INSERT INTO schedules (tenant, name, next_at) VALUES (1, 'nightly', now())"),
  ],
  [
    anyRow(dueTargets),
    () =>
      pool.query(
        `INSERT INTO notification_targets (tenant, name, type, events, workspace, account, labels, paused, settings, next_at)
         VALUES (1, 'team', 'webhook', '{}', '', '', '{}', false, '{}', now())`,
      ),
  ],
  [
    anyRow(dueChangeRequests),
    () =>
      pool.query(
        `INSERT INTO change_requests (tenant, name, integration, repo, repo_url, number, agent, url, title, state, branch,
           base, head_sha, checks, review, rounds, check_rounds, paused, told, created_at, updated_at, next_at, asked)
         VALUES (1, 'c', 'h', 'r', '', 1, $1, '', '', 'OPEN', '', '', '', '{}', '{}', 0, 0, false, '{}', now(), now(), now(), 0)`,
        [agent],
      ),
  ],
];

const write = (...keys: string[]) =>
  insertItems(
    pool,
    keys.map((key) => ({
      ...{
        tenant: 1,
        topic: 'codehost',
        target: 'host',
        lane: key,
        kind: 'comment',
        agent: null,
        data: {},
        key,
      },
    })),
    new Date().toISOString(),
  );

const states = async () =>
  Object.fromEntries(
    (await pool.query('SELECT key, state FROM outbox')).rows.map(({ key, state }) => [key, state]),
  );

const leasesEnd = (table: string) =>
  pool.query(`UPDATE ${table} SET next_at = now() WHERE next_at IS NOT NULL`);

test('every kind of work counts claims before the work begins', async () => {
  expect(kinds.map(([{ table }]) => table).sort()).toEqual([...dueTables].sort());
  for (const [due, insert] of kinds) {
    await insert();
    const claimed = [];
    for (let i = 0; i < 4; i++) {
      claimed.push(...(await due.claim(pool, 4, 16, leaseMs, [], [], true)));
      await leasesEnd(due.table);
    }
    expect(claimed.map(({ claims }) => claims)).toEqual([0, 1, 2, 3]);
    const [row] = claimed;
    if (row) await due.end(pool, row);
    expect(await due.claim(pool, 4, 16, leaseMs, [], [], false)).toMatchObject([{ claims: 0 }]);
  }
});

test('a row that ends the process three times is given up, and nothing that was worked on with it', async () => {
  const given: string[] = [];
  const log = {
    warn() {},
    error: (fields: object, text: string) => given.push(`${text} ${JSON.stringify(fields)}`),
  };
  const hanging: (() => void)[] = [];
  const loops: { close(): Promise<void> }[] = [];
  /** A process: in the first one everything hangs, in the others only the work that kills. */
  const start = (isFirst: boolean) => {
    const working = new Set<string>();
    const loop = new WorkLoop({
      ...{ name: 'outbox', database: pool, due: dueItems, suspects: new SuspectPlace() },
      log: log as unknown as Log,
      work: async ({ tenant, id, key }) => {
        working.add(key);
        if (isFirst || key === 'killer') await new Promise<void>((resolve) => hanging.push(resolve));
        else await settleItem(pool, tenant, id, 'SENT', '', '');
      },
      giveUp: ({ tenant, id }, reason) => settleItem(pool, tenant, id, 'FAILED', '', reason),
      onWork: () => {},
    });
    loops.push(loop);
    return { loop, working };
  };
  await write('a', 'b', 'killer', 'c');
  for (let kills = 0; kills < 3; kills++) {
    const { loop, working } = start(kills === 0);
    const seen = async () => {
      loop.nudge();
      return working.size;
    };
    if (kills === 0) await until('all work', seen, (size) => size === 4);
    else await until('the work that kills', seen, () => working.has('killer'));
    await leasesEnd('outbox');
  }
  const { loop } = start(false);
  const all = async () => {
    loop.nudge();
    return Object.values(await states());
  };
  await until('settled items', all, (found) =>
    found.every((state) => state === 'SENT' || state === 'FAILED'),
  );
  expect(await states()).toEqual({ killer: 'FAILED', a: 'SENT', b: 'SENT', c: 'SENT' });
  expect(given).toEqual([expect.stringMatching(/^outbox: given up .*"tenant":1.*ended 3 times/)]);
  for (const end of hanging) end();
  await Promise.all(loops.map((one) => one.close()));
});

test('a delivery that was given up is processed again when an admin asks for it', async () => {
  await deliver();
  await pool.query('UPDATE deliveries SET claims = 3');
  await repeatDelivery(pool, 1, 'host', 'd');
  expect(await dueDeliveries.claim(pool, 4, 16, leaseMs, [], [], false)).toMatchObject([
    { id: 'd', claims: 0 },
  ]);
});
