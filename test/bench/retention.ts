import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkDisk, type Fill, familiesOf, fill } from './fill.ts';
import { ceiling, gate, say } from './report.ts';
import { here, percentile, post, type Service, startProgram, startService } from './tools.ts';

const sampleMs = 25;
const requestMs = 20;

/** 480 days of entries. Of those more than a year old whole months are dropped. */
const fillingOf = (tooOld: number): Fill => ({
  agents: Math.floor(tooOld / 70) * 4,
  rows: Math.floor(tooOld * 1.15),
  days: 480,
  long: 4,
});

/** The longest that was seen, in milliseconds. */
class Longest {
  ms = 0;
  what = '';

  see(ms: number, what: string): void {
    if (ms > this.ms) [this.ms, this.what] = [ms, what];
  }
}

interface Sample {
  what: 'transaction' | 'lock';
  ms: number;
  query: string;
}

/** Every transaction of the node that does maintenance, and every wait for a lock on the server. */
const sampleText = `SELECT 'transaction' AS what, extract(epoch FROM clock_timestamp() - xact_start)::float8 * 1000 AS ms, query
   FROM pg_stat_activity
   WHERE application_name = 'muster' AND state <> 'idle' AND xact_start IS NOT NULL
   UNION ALL
   SELECT 'lock', extract(epoch FROM clock_timestamp() - l.waitstart)::float8 * 1000, a.query
   FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND l.waitstart IS NOT NULL`;

async function sampled({ database }: Service, signal: AbortSignal) {
  const longest = { transaction: new Longest(), lock: new Longest() };
  let samples = 0;
  for (; !signal.aborted; samples += 1) {
    const { rows } = await database.query<Sample>(sampleText);
    for (const { what, ms, query } of rows) longest[what].see(ms, query);
    await sleep(sampleMs);
  }
  return { ...longest, samples };
}

/** What callers notice: messages to live agents, and pages of a long timeline. */
async function called(
  service: Pick<Service, 'url' | 'key'>,
  filling: Fill,
  signal: AbortSignal,
): Promise<number[]> {
  const families = familiesOf(filling);
  const delays: number[] = [];
  const open = new Set<Promise<void>>();
  for (let n = 0; !signal.aborted; n += 1) {
    const startMs = performance.now();
    const request =
      n % 2 === 0
        ? post(service, '/v1/agent/queue', {
            agentId: { agent: [`agent-${families - 10 - (n % 150)}`] },
            description: 'Please also look at the login flow.',
          })
        : post(service, '/v1/agent/timeline', { agentId: { agent: [`agent-${families}`] }, limit: 100 });
    const done: Promise<void> = request.then(() => {
      delays.push(performance.now() - startMs);
      open.delete(done);
    });
    open.add(done);
    await sleep(requestMs);
  }
  await Promise.all(open);
  return delays;
}

/** A second node on the same database, for callers. */
async function startNode({ data, pgEnv }: Service) {
  const url = new URL(`postgres://${pgEnv.PGUSER}:${pgEnv.PGPASSWORD}@localhost/${pgEnv.PGDATABASE}`);
  url.search = new URLSearchParams({ host: pgEnv.PGHOST ?? '', application_name: 'callers' }).toString();
  return startProgram(here('../../packages/service/bin/muster.js'), ['serve'], {
    PATH: process.env.PATH,
    HOME: data,
    MUSTER_DATA: join(data, 'second'),
    MUSTER_PORT: '0',
    MUSTER_LOG: 'warn',
    MUSTER_RUNNER: 'off',
    DATABASE_URL: url.href,
  });
}

const isDone = async ({ url }: Service): Promise<boolean> =>
  /^muster_maintenance_seconds_count\{task="timelines"\} [1-9]/m.test(
    await (await fetch(`${url}/metrics`)).text(),
  );

const countEntries = async ({ database }: Service): Promise<number> =>
  Number((await database.query('SELECT count(*) FROM timeline')).rows[0].count);

/** Lets the service delete this many entries, in whole months, of ended agents and of live ones, while it is used. */
export async function retention(tooOld: number): Promise<void> {
  const filling = fillingOf(tooOld);
  checkDisk(filling);
  const env = { MUSTER_RUNNER: 'off' };
  const filled = await startService(env);
  await fill(filled, filling);
  // Half of the long timelines are of agents that ended.
  await filled.database.query(
    `UPDATE agents SET phase = 'PHASE_COMPLETED', reason = 'FINISHED', ended_at = now() - interval '31 days'
     WHERE path IN ($1, $2)`,
    [0, 1].map((n) => `agent-${familiesOf(filling) - 2 - n}`),
  );
  const before = await countEntries(filled);
  await filled.database.query(
    "UPDATE maintenance SET lease_until = '-infinity', history_until = '-infinity'",
  );
  await filled.stop();

  // A node begins with maintenance when it starts.
  const startMs = performance.now();
  const service = await startService(env, [], filled.data);
  const stop = new AbortController();
  const sampling = sampled(service, stop.signal);
  const { url, child } = await startNode(service);
  const calling = called({ url, key: service.key }, filling, stop.signal);
  while (!(await isDone(service))) await sleep(500);
  stop.abort();
  const { transaction, lock, samples } = await sampling;
  const delays = await calling;
  const seconds = (performance.now() - startMs) / 1000;
  const after = await countEntries(service);
  child.kill();
  await service.close();

  say(`      ${before - after} entries fewer after ${seconds.toFixed(0)} s, ${samples} samples`);
  const [p50, p99, most] = [0.5, 0.99, 1].map((p) => percentile(delays, p).toFixed(0));
  say(`      ${delays.length} requests meanwhile: p50 ${p50} ms, p99 ${p99} ms, longest ${most} ms`);
  for (const [name, { ms, what }] of Object.entries({ transaction, 'wait for a lock': lock }))
    say(`      longest ${name}: ${ms.toFixed(0)} ms ${what.replace(/\s+/g, ' ').slice(0, 80)}`);
  gate('entries deleted against too old', (before - after) / tooOld, 1);
  ceiling('longest transaction during retention, in seconds', transaction.ms / 1000, 1);
  ceiling('longest wait for a lock during retention, in seconds', lock.ms / 1000, 1);
}
