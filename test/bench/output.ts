import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { runnerKey } from './instant-runner.ts';
import { ceiling, gate, say, seconds } from './report.ts';
import {
  alternated,
  here,
  percentile,
  post,
  queriesOf,
  type Service,
  seedAgents,
  spawnTemplate,
  startService,
} from './tools.ts';
import type { Order, Written } from './writing-runner.ts';

const agents = 200;
const messagesPerSecond = 50;
const reportsAlone = 500;

/** Many agents that write all the time, and what a caller notices of it. */
export async function output(): Promise<void> {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  const runner = await startWritingRunner(service);
  await spawnTemplate(service);
  await seedAgents(service, 'bench-', 0, 1_000);
  const written: Written[] = [];
  const load = async (order: Order): Promise<void> => {
    const [result] = (await Promise.all([once(runner, 'message'), runner.send(order)]))[0] as [Written];
    written.push(result);
  };

  await load({ alone: 50 });
  const before = await queriesOf(service);
  await load({ alone: reportsAlone });
  const queries = ((await queriesOf(service)) - before) / reportsAlone;

  await queueAddP99(service, 2);
  const { quiet, busy } = await alternated({
    quiet: () => queueAddP99(service, 2 * seconds),
    busy: async () => {
      const writing = load({ seconds: 2 * seconds + 1 });
      // All agents write by then.
      await pause(1_000);
      const p99 = await queueAddP99(service, 2 * seconds);
      await writing;
      return p99;
    },
  });
  const stored = await storedEntries(service);
  runner.kill();
  await service.close();

  const loads = written.slice(2);
  const sum = (all: readonly Written[], field: 'entries' | 'inTime' | 'reports') =>
    all.reduce((total, one) => total + one[field], 0);
  say(`      ${agents} agents, 10 entries a second each, in ${sum(loads, 'reports')} reports`);
  for (const { p50, p99 } of loads)
    say(`      an entry → acknowledged: p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`);
  say(
    `      queue-add at ${messagesPerSecond}/s, p99: quiet ${quiet.toFixed(1)} ms, under that load ${busy.toFixed(1)} ms`,
  );
  gate('entries acknowledged while the agents wrote', sum(loads, 'inTime') / sum(loads, 'entries'), 0.95);
  ceiling('queue-add p99 while 200 agents write, against quiet', busy / quiet, 3);
  ceiling('entries that are missing in the timeline', sum(written, 'entries') - stored.distinct, 0);
  ceiling('entries that are in the timeline twice', stored.all - stored.distinct, 0);
  ceiling('agents with a gap in their timeline', stored.gaps, 0);
  // Other nodes are notified too, by a statement at most every 10 ms that no report waits for.
  ceiling('database statements of a report of output, with notifications', queries, 2);
}

async function startWritingRunner(service: Service): Promise<ChildProcess> {
  const names = Array.from({ length: agents }, (_, i) => `writing-${i}`);
  for (const name of names)
    await post(service, '/v1/agent/spawn', {
      agentId: { agent: [name] },
      description: 'Fix the login flow.',
    });
  const env = { URL: service.url, KEY: await runnerKey(service), AGENTS: String(agents) };
  const runner = fork(here('writing-runner.ts'), { execArgv: ['--import', 'tsx'], env });
  process.once('exit', () => runner.kill());
  await once(runner, 'message');
  runner.once('exit', (code) => {
    if (code) throw new Error(`the writing runner ended with ${code}`);
  });
  return runner;
}

/** Follow-ups that are sent at fixed times, whether or not the earlier ones were answered. */
async function queueAddP99(service: Service, forSeconds: number): Promise<number> {
  const delays: number[] = [];
  const pending: Promise<void>[] = [];
  const count = forSeconds * messagesPerSecond;
  const from = performance.now();
  for (let i = 0; i < count; i += 1) {
    const dueMs = from + (i * 1_000) / messagesPerSecond;
    await pause(Math.max(0, dueMs - performance.now()));
    const message = {
      agentId: { agent: [`bench-${1 + (i % 1_000)}`] },
      description: 'Please also add a test.',
    };
    pending.push(
      post(service, '/v1/agent/queue', message).then(() => void delays.push(performance.now() - dueMs)),
    );
  }
  await Promise.all(pending);
  return percentile(delays, 0.99);
}

async function storedEntries({ database }: Service) {
  const { rows } = await database.query<{ all: number; distinct: number; gaps: number }>(
    `SELECT count(*)::int AS all, count(DISTINCT data ->> 'entry')::int AS distinct, (
       SELECT count(*)::int FROM (
         SELECT 1 FROM timeline t JOIN agents a ON a.tenant = t.tenant AND a.id = t.agent
         WHERE a.path LIKE 'writing-%' GROUP BY t.agent HAVING count(*) <> max(t.sequence)
       ) t
     ) AS gaps
     FROM timeline WHERE data ->> 'entry' IS NOT NULL`,
  );
  return rows[0] ?? { all: 0, distinct: 0, gaps: 0 };
}
