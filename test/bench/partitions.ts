import type pg from 'pg';
import { say } from './report.ts';
import { alternated, median, type Service, startService } from './tools.ts';

/** The timeline partitioned in three ways: a year of entries, and what is done with them, in turns. */
const months = 12;
const hashes = 8;
const liveAgents = 1_000;
const batchRows = 32;

const monthsOfYear = Array.from({ length: months }, (_, n) => n + 1);
const firstOf = (month: number): string => new Date(Date.UTC(2025, month - 1)).toISOString();
const named = (table: string, month: number): string => `${table}_${month}`;

const monthly = (table: string, month: number, suffix = ''): string =>
  `CREATE TABLE ${named(table, month)} PARTITION OF ${table}
     FOR VALUES FROM ('${firstOf(month)}') TO ('${firstOf(month + 1)}') ${suffix};`;

const hashed = (table: string): string =>
  Array.from(
    { length: hashes },
    (_, n) =>
      `CREATE TABLE ${table}_h${n} PARTITION OF ${table} FOR VALUES WITH (MODULUS ${hashes}, REMAINDER ${n});`,
  ).join('\n');

const schemes: Readonly<Record<string, { by: string; partitions: (table: string) => string }>> = {
  month: {
    by: 'RANGE (at)',
    partitions: (table) => monthsOfYear.map((month) => monthly(table, month)).join('\n'),
  },
  'month and hash': {
    by: 'RANGE (at)',
    partitions: (table) =>
      monthsOfYear
        .map((month) => monthly(table, month, 'PARTITION BY HASH (agent)') + hashed(named(table, month)))
        .join('\n'),
  },
  // The time finds what is too old: entries were written in its order.
  hash: {
    by: 'HASH (agent)',
    partitions: (table) => `CREATE INDEX ON ${table} USING brin (at); ${hashed(table)}`,
  },
};

const tableOf = (scheme: string): string => `bench_${scheme.replaceAll(' ', '_')}`;
const agent = (n: string): string => `md5('agent' || (${n}))::uuid`;

async function create(database: pg.Client, scheme: string, rows: number): Promise<void> {
  const table = tableOf(scheme);
  const { by, partitions } = schemes[scheme] ?? { by: '', partitions: () => '' };
  await database.query(`CREATE TABLE ${table} (LIKE timeline, PRIMARY KEY (tenant, agent, sequence, at)) PARTITION BY ${by};
    CREATE INDEX ON ${table} (tenant, agent, sequence) WHERE type IN ('RUN_STARTED', 'PUSH');
    ${partitions(table)}`);
  // One agent in ten lives through the whole year; the others have twenty entries within a day.
  await database.query(
    `INSERT INTO ${table} (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
     SELECT 1, CASE WHEN n % 10 = 0 THEN ${agent(`n / 10 % ${liveAgents}`)} ELSE ${agent(`-n / 20`)} END, n,
       '${firstOf(1)}'::timestamptz + n * (interval '364 days' / $1::int), 1, 'MESSAGE', '', repeat(md5(n::text), 6), '{}'
     FROM generate_series(1, $1::int) n`,
    [rows],
  );
  await database.query(`VACUUM (ANALYZE) ${table}`);
}

/** Milliseconds of one execution. */
async function timed(count: number, work: (n: number) => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  for (let n = 0; n < count; n += 1) await work(n);
  return (performance.now() - startMs) / count;
}

const insertText = (table: string): string =>
  `INSERT INTO ${table} (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
   SELECT 1, ${agent(`n * 31 % ${liveAgents}`)}, $1::bigint + n, '2025-12-31T12:00:00Z', 1, 'MESSAGE', '', repeat(md5(n::text), 6), '{}'
   FROM generate_series(1, ${batchRows}) n`;

const pageText = (table: string): string =>
  `SELECT sequence, at, run, type, follow_up_id, text, data FROM ${table}
   WHERE tenant = 1 AND agent = $1::uuid AND at >= $2 AND sequence < $3 ORDER BY sequence DESC LIMIT 100`;

let inserted = 1e9;

const measures: Readonly<Record<string, (service: Service, scheme: string) => Promise<number>>> = {
  [`insert of ${batchRows} entries`]: ({ database }, scheme) =>
    timed(300, () => {
      inserted += batchRows;
      const text = insertText(tableOf(scheme));
      return database.query({ name: `insert ${scheme}`, text, values: [inserted] });
    }),
  'page of an agent that lives for a year': ({ database }, scheme) => page(database, scheme, firstOf(1)),
  'page of an agent of this month': ({ database }, scheme) => page(database, scheme, firstOf(months)),
  'plan of a page': async ({ database }, scheme) => {
    const times: number[] = [];
    for (let n = 0; n < 50; n += 1) {
      const text = pageText(tableOf(scheme))
        .replace('$1', `md5('agent${n}')`)
        .replace('$2', `'${firstOf(1)}'`)
        .replace('$3', '1000000000');
      const { rows } = await database.query(`EXPLAIN (SUMMARY, FORMAT JSON) ${text}`);
      times.push(rows[0]['QUERY PLAN'][0]['Planning Time']);
    }
    return median(times);
  },
};

async function page(database: pg.Client, scheme: string, since: string): Promise<number> {
  const { rows } = await database.query(`SELECT ${agent('n')} AS id FROM generate_series(0, 299) n`);
  return timed(300, (n) =>
    database.query({
      name: `page ${scheme}`,
      text: pageText(tableOf(scheme)),
      values: [rows[n].id, since, 1e12],
    }),
  );
}

/** The end of one of the parts of the first month. */
const windowEnd = (n: number, windows: number): string =>
  `'${firstOf(1)}'::timestamptz + interval '31 days' * ${n / windows}`;

/** What deleting a month takes: the longest statement, and all of them with the vacuum that they make necessary. */
async function retained({ database }: Service, scheme: string, rows: number) {
  const windows = Math.ceil(rows / months / 5_000);
  const table = tableOf(scheme);
  const statements =
    scheme === 'hash'
      ? Array.from(
          { length: windows },
          (_, n) => `DELETE FROM ${table} WHERE at < ${windowEnd(n + 1, windows)}`,
        )
      : [`DROP TABLE ${named(table, 1)}`];
  const tookMs: number[] = [];
  for (const text of statements) tookMs.push(await timed(1, () => database.query(text)));
  const vacuumMs = await timed(1, () => database.query(`VACUUM ${table}`));
  return { longestMs: Math.max(...tookMs), allMs: tookMs.reduce((sum, ms) => sum + ms, vacuumMs) };
}

export async function partitions(rows: number): Promise<void> {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  for (const scheme of Object.keys(schemes)) await create(service.database, scheme, rows);
  for (const [name, measure] of Object.entries(measures)) {
    const took = await alternated(
      Object.fromEntries(Object.keys(schemes).map((scheme) => [scheme, () => measure(service, scheme)])),
      7,
    );
    const figures = Object.entries(took).map(([scheme, ms]) => `${scheme} ${ms.toFixed(2)} ms`);
    say(`      ${name}: ${figures.join(', ')}`);
  }
  for (const scheme of Object.keys(schemes)) {
    const { longestMs, allMs } = await retained(service, scheme, rows);
    say(`      a month deleted, ${scheme}: longest ${longestMs.toFixed(0)} ms, all ${allMs.toFixed(0)} ms`);
  }
  await service.close();
}
