import pg from 'pg';
import { afterAll, expect, test } from 'vitest';
import { runConcurrently, until } from '../support/async.ts';
import { postResource, uniqueName, writeResource } from '../support/catalog.ts';
import { freshDatabase } from '../support/database.ts';
import { TestSchedule } from '../support/schedules.ts';
import { type Server, startServer } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';

const server = await startServer({ runner: false });
afterAll(() => server.close());
const operator = await operatorOf(server);

const looks = 10;

/** What a node sends to the database while it looks for work this many times. */
async function queriesWhileIdle(node: Server, database: pg.Client): Promise<number> {
  // Each look reads the addresses of integrations, too.
  const count = async (): Promise<number> => {
    const { rows } = await database.query(
      "SELECT seq_scan + idx_scan AS looks FROM pg_stat_user_tables WHERE relname = 'hooks'",
    );
    return Number(rows[0]?.looks);
  };
  const sent = async (): Promise<number> => {
    const { text } = await answerText(`${node.url}/metrics`);
    return Number(/^muster_store_queries_total (\d+)/m.exec(text)?.[1]);
  };
  const first = await count();
  const before = await sent();
  await until('an idle node that has looked often', count, (now) => now >= first + looks);
  return (await sent()) - before;
}

const answerText = async (url: string) => ({ text: await (await fetch(url)).text() });

test('10,000 schedules that are not due cause no more queries than none', async () => {
  const { url, drop } = await freshDatabase();
  const node = await startServer({ runner: false, databaseUrl: url });
  const database = new pg.Client({ connectionString: url });
  await database.connect();
  try {
    const none = await queriesWhileIdle(node, database);
    await database.query(`BEGIN; INSERT INTO schedules (tenant, name, scheduled_at, next_at)
      SELECT 1, 's' || i, now() + interval '1 day', now() + interval '1 day' FROM generate_series(1, 10000) i;
      ANALYZE schedules; COMMIT`);
    // Maintenance may do something in one of the two, but less than once per look.
    expect((await queriesWhileIdle(node, database)) - none).toBeLessThan(looks / 2);
    const { rows } = await database.query('EXPLAIN SELECT FROM schedules WHERE next_at <= now()');
    expect(JSON.stringify(rows)).toContain('schedules_by_time');
  } finally {
    await database.end();
    await node.close();
    await drop();
  }
});

test('100 schedules of one tenant that fire each minute do not delay another tenant', async () => {
  const { admin } = await newTenant(operator);
  const t = await newTestTenant(admin);
  await t.rested('a');
  const names = await runConcurrently(100, 8, async () => {
    const name = uniqueName('each-minute');
    const document = {
      cron: '* * * * *',
      agentId: t.id('a'),
      message: 'again',
      missed: 'all',
      overlap: 'allow',
    };
    await writeResource(admin, 'schedule', name, document);
    return name;
  });
  const { admin: other } = await newTenant(operator);
  const served = await newTestTenant(other);
  await served.rested('a');
  const own = await TestSchedule.write(other, server.databaseUrl, {
    agentId: served.id('a'),
    message: 'wake up',
  });
  // 24 of each are due at the same time.
  await own.query(
    `UPDATE schedules SET scheduled_at = date_trunc('minute', now()) - interval '20 minutes', next_at = now()
     WHERE name = ANY ($1)`,
    [names],
  );
  const fire = await own.fires();
  expect(fire).toMatchObject({ outcome: 'FIRED' });
  const [left] = await own.query<{ waiting: number }>(
    'SELECT count(*)::int AS waiting FROM schedules WHERE name = ANY ($1) AND next_at <= now()',
    [names],
  );
  // Those of the first tenant are still under way.
  expect(left?.waiting).toBeGreaterThan(0);
  await runConcurrently(100, 8, (i) =>
    postResource(admin, 'schedule', names[i] ?? '', { paused: true }, { updateMask: 'paused' }),
  );
});
