import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Claim, PollReply } from '@muster/sdk/contract';
import { runnerKey } from './instant-runner.ts';
import { processorMs } from './processor-time.ts';
import { ceiling, gate, say, seconds } from './report.ts';
import { here, median, post, type Service, startService } from './tools.ts';

const runs = 256;
const callers = 64;
const rows = 1_000_000;
const agents = 20_000;
/** Other work on the machine changes from second to second: short rounds in turn, and the processor time of each. */
const pairs = Number(process.env.MUSTER_BENCH_PAIRS ?? 24);
const roundMs = (seconds * 1_000) / 3;

type Run = Pick<Claim, 'agentKey' | 'runId'>;

/** What it costs to count usage, and to add up that of a month out of a year. */
export async function usageBench(): Promise<void> {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  await reports(service);
  await sums(service);
  await service.close();
}

/** Reports that say what a request used, against reports that change as much of the agent without that. */
async function reports(service: Service): Promise<void> {
  for (let i = 0; i < runs; i += 1)
    await post(service, '/v1/agent/spawn', {
      agentId: { agent: [`used-${i}`] },
      description: 'Fix the login flow.',
    });
  const runner = { url: service.url, key: await runnerKey(service) };
  const runnerId = randomUUID();
  const claimed: Run[] = [];
  for (let poll = 1; claimed.length < runs; poll += 1) {
    const { claims } = await post<PollReply>(runner, '/v1/runner/poll', {
      ...{ runnerId, name: 'bench-usage', poll, backends: ['BACKEND_A', 'BACKEND_B'], rehearses: true },
      free: { real: 0, rehearsed: runs - claimed.length },
      runs: claimed,
    });
    for (const { agentKey, runId } of claims) {
      await post(runner, '/v1/runner/report', { runnerId, agentKey, runId, report: 1, started: true });
      claimed.push({ agentKey, runId });
    }
  }
  const runsOf = { service, runner, runnerId, claimed, number: { report: 1 } };
  const short = await comparePairs(runsOf, [message]);
  say(`      of reports with one line, processor time without usage against with: ${short.toFixed(2)}`);
  const typical = await comparePairs(runsOf, toolRequest);
  gate('processor time of reports without usage against with', typical, 0.95);
}

/** Rounds with and without usage in turn. Returns the processor time without, divided by that with. */
async function comparePairs(runsOf: Runs, items: readonly object[]): Promise<number> {
  const round = (more: object) => reportRound(runsOf, { items, ...more });
  for (const more of [{}, { usage }]) await round(more);
  const all: { readonly plain: Round; readonly metered: Round }[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    // The later one of a pair has more to store beside.
    const isFirst = pair % 2 === 0;
    const first = await round(isFirst ? {} : { usage });
    const second = await round(isFirst ? { usage } : {});
    all.push(isFirst ? { plain: first, metered: second } : { plain: second, metered: first });
  }
  const medianOf = (of: (pair: (typeof all)[number]) => number) => median(all.map(of));
  for (const what of ['perSecond', 'serviceMs', 'databaseMs'] as const) {
    const [plain, metered] = [medianOf((pair) => pair.plain[what]), medianOf((pair) => pair.metered[what])];
    say(`      ${what}: ${plain.toFixed(2)} without usage; ${metered.toFixed(2)} with usage`);
  }
  const totalMs = (one: Round) => one.serviceMs + one.databaseMs;
  say(`      rate: ${medianOf(({ plain, metered }) => metered.perSecond / plain.perSecond).toFixed(2)}`);
  return medianOf(({ plain, metered }) => totalMs(plain) / totalMs(metered));
}

const message = { type: 'MESSAGE', text: 'The test passes now.' };
/** What a harness reports of a request that calls a tool. */
const toolRequest = [
  message,
  { type: 'TOOL_CALL', text: 'Bash', data: { id: 'toolu_01', name: 'Bash', input: { command: 'npm test' } } },
  {
    type: 'TOOL_RESULT',
    text: 'ok 1 - signs in again after a restart\n'.repeat(50),
    data: { id: 'toolu_01' },
  },
];

const used = { inputTokens: 1_000, cachedInputTokens: 900, outputTokens: 100, costUsd: 0.0125 };
const usage = { ...used, parts: [{ ...used, model: 'claude-opus-4-8', account: 'anthropic/0123456789ab' }] };

interface Round {
  readonly perSecond: number;
  /** Processor time of a report. */
  readonly serviceMs: number;
  readonly databaseMs: number;
}

interface Runs {
  readonly service: Service;
  readonly runner: Pick<Service, 'url' | 'key'>;
  readonly runnerId: string;
  readonly claimed: readonly Run[];
  /** Of the last report of each. */
  readonly number: { report: number };
}

/** By 64 callers, each with runs of its own, because the reports of a run have to arrive in order. */
async function reportRound(
  { service, runner, runnerId, claimed, number }: Runs,
  more: object,
): Promise<Round> {
  const before = processorMs(service.pid);
  const from = performance.now();
  const untilMs = from + roundMs;
  const first = number.report + 1;
  let sent = 0;
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      const own = claimed.filter((_, i) => i % callers === caller);
      for (let report = first; performance.now() < untilMs; report += 1) {
        number.report = Math.max(number.report, report);
        for (const run of own) {
          const body = {
            runnerId,
            ...run,
            report,
            omitTasks: true,
            session: `session-${report}`,
            ...more,
          };
          await post(runner, '/v1/runner/report', body);
          sent += 1;
        }
      }
    }),
  );
  const perSecond = (sent * 1_000) / (performance.now() - from);
  const after = processorMs(service.pid);
  return {
    perSecond,
    serviceMs: (after.own - before.own) / sent,
    databaseMs: (after.children - before.children) / sent,
  };
}

async function sums(service: Service): Promise<void> {
  await service.database.query(readFileSync(here('usage-fill.sql'), 'utf8'), [rows, agents]);
  await service.database.query('ANALYZE usage_hours');
  const medianMs = async (request: object): Promise<number> => {
    const times: number[] = [];
    for (let time = 0; time < 9; time += 1) {
      const from = performance.now();
      await post(service, '/v1/usage', request);
      times.push(performance.now() - from);
    }
    return median(times);
  };
  const days = (count: number) => new Date(Date.now() - count * 86_400_000).toISOString();
  const month = { from: days(30), groupBy: ['workspace'] };
  for (const [name, request] of [
    ['30 days, one sum', { from: days(30), interval: 'total' }],
    ['30 days by model and account', { from: days(30), groupBy: ['model', 'account'] }],
    ['30 days by agent', { from: days(30), interval: 'total', groupBy: ['agent'] }],
  ] as const)
    say(`      ${name}: ${(await medianMs(request)).toFixed(0)} ms`);
  ceiling('30 days by day and workspace, of a million rows of a year, in ms', await medianMs(month), 300);
}
