import { readFileSync } from 'node:fs';
import { say } from './report.ts';
import { here, post, type Service, seedAgents, spawnTemplate, startService } from './tools.ts';

const agents = 10_000;
const rounds = 5;
const agentsPerRound = 100;

/** Bytes per row of each table, and of write-ahead log per turn of an agent: what docs/scaling.md computes with. */
export async function sizes(): Promise<void> {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  await spawnTemplate(service);
  await seedAgents(service, 'copy-', 0, agents);
  const { database } = service;
  await database.query(readFileSync(here('sizes.sql'), 'utf8'));
  await database.query('VACUUM FULL agent_states');
  await database.query('VACUUM ANALYZE');
  say('\nbytes per row: table, with what is stored beside it (TOAST); indexes');
  await saySizes(service);
  await database.query("UPDATE runs SET response = NULL; UPDATE follow_ups SET description = ''");
  await database.query('VACUUM FULL ANALYZE runs');
  await database.query('VACUUM FULL ANALYZE follow_ups');
  say('without results of runs and texts of messages:');
  await saySizes(service, ['runs', 'follow_ups']);
  await service.close();
  await sayLog();
}

async function saySizes({ database }: Service, only: string[] | null = null): Promise<void> {
  const { rows } = await database.query<Record<'name' | 'rows' | 'table' | 'indexes', string>>(
    `SELECT coalesce(p.relname, c.relname) AS name, sum(c.reltuples)::int::text AS rows,
       (sum(pg_table_size(c.oid)) / nullif(sum(c.reltuples), 0))::int::text AS "table",
       (sum(pg_indexes_size(c.oid)) / nullif(sum(c.reltuples), 0))::int::text AS indexes
     FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.reltuples > 100
       AND ($1::text[] IS NULL OR c.relname = ANY ($1))
     GROUP BY 1 ORDER BY sum(pg_total_relation_size(c.oid)) DESC`,
    [only],
  );
  for (const { name, rows: count, table, indexes } of rows)
    say(`  ${name.padEnd(18)} ${count.padStart(8)} rows ${table.padStart(7)} ${indexes.padStart(6)}`);
}

/** Of turns that begin with a message and say something of 300 bytes, once or thirty times. */
async function sayLog(): Promise<void> {
  const service = await startService({ MUSTER_REHEARSAL_MS: '0' });
  const read = async (sql: string): Promise<number> =>
    Number((await service.database.query<{ n: string }>(`SELECT ${sql} AS n`)).rows[0]?.n);
  const agentId = (n: number) => ({ agent: [`agent-${n}`] });
  const each = async (path: string, body: object = {}): Promise<void> => {
    for (let n = 0; n < agentsPerRound; n += 1) await post(service, path, { agentId: agentId(n), ...body });
  };
  await each('/v1/agent/spawn', { description: '!say ready' });
  await each('/v1/agent/wait');
  for (const times of [1, 30]) {
    const description = Array.from({ length: times }, () => `!say ${'words '.repeat(50)}`).join('\n');
    const wal = "pg_current_wal_lsn() - '0/0'";
    const [before, reports] = [await read(wal), await read('(SELECT sum(reports) FROM runs)')];
    for (let round = 0; round < rounds; round += 1) {
      await each('/v1/agent/queue', { description });
      await each('/v1/agent/wait');
    }
    const turns = rounds * agentsPerRound;
    const bytes = Math.round(((await read(wal)) - before) / turns);
    const sent = ((await read('(SELECT sum(reports) FROM runs)')) - reports) / turns;
    say(`write-ahead log of a turn with ${times} texts, in ${sent.toFixed(1)} reports: ${bytes} bytes`);
  }
  await service.close();
}
