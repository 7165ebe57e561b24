import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { MusterClient } from '@muster/sdk';
import { type Claim, limits, type ReportRequest } from '@muster/sdk/contract';
import { ValueMask } from '../../packages/service/src/lib/value-mask.ts';
import { LiveOutput } from '../../packages/service/src/runner/live-output.ts';
import { ReportStream } from '../../packages/service/src/runner/run/report-stream.ts';
import { percentile } from './tools.ts';

/**
 * A runner whose agents only write. Its reports are those of a real runner, by the same code; no harness is behind them,
 * so that what is measured is the service. The benchmark starts it as a process of its own.
 */
export interface Written {
  readonly entries: number;
  /** How many of them were acknowledged while the agents wrote. */
  readonly inTime: number;
  readonly reports: number;
  /** From an entry to its acknowledgement. */
  readonly p50: number;
  readonly p99: number;
}

/** How long all agents write, or how many reports are sent one by one. */
export type Order = { readonly seconds: number } | { readonly alone: number };

const { URL: url = '', KEY: apiKey = '', AGENTS: agents = '' } = process.env;
const entriesPerSecond = 10;
const runnerId = randomUUID();
const streams: ReportStream[] = [];
const runs: Pick<Claim, 'agentKey' | 'runId'>[] = [];
let entries = 0;
let reports = 0;
let delays: number[] = [];

const client = new MusterClient({ url, apiKey });
const post = client.call.bind(client);
/** Counts what is acknowledged. */
client.call = async (name, body, options) => {
  const reply = await post(name, body, options);
  if (name !== 'runnerReport') return reply;
  const now = performance.now();
  reports += 1;
  for (const { data } of (body as ReportRequest).items ?? []) delays.push(now - Number(data?.writtenMs));
  return reply;
};

async function poll(number: number, waitMs: number): Promise<void> {
  const { claims } = await client.call('runnerPoll', {
    runnerId,
    name: 'bench-writing',
    poll: number,
    capabilities: ['deferral', 'sandbox'],
    backends: ['BACKEND_A', 'BACKEND_B'],
    rehearses: true,
    free: { real: 0, rehearsed: Number(agents) - runs.length },
    runs,
    waitMs,
  });
  await Promise.all(claims.map(start));
}

const mask = new ValueMask();
const live = new LiveOutput(async () => {});

async function start({ agentKey, runId, token }: Claim): Promise<void> {
  const fail = (error: unknown) => {
    throw error;
  };
  const stream = new ReportStream({
    client,
    runnerId,
    agentKey,
    runId,
    token,
    mask,
    output: live.open({ agentKey, runId }, mask, token),
    images: { accept: () => undefined, upload: async () => [] },
    mayAct: () => true,
    renewLease: () => {},
    maxItems: limits.reportItems,
    textLength: limits.reportedTextLength,
    onPush: () => {},
    onReply: () => {},
    onFenced: () => fail(new Error('fenced')),
    onDropped: fail,
    onFailed: ({ error }) => fail(new Error(error?.message)),
  });
  runs.push({ agentKey, runId });
  await stream.send({ started: true });
  streams.push(stream);
}

const kinds = ['TOOL_CALL', 'TOOL_RESULT', 'THINKING', 'MESSAGE'] as const;

function write({ queue }: ReportStream): void {
  const type = kinds[entries % kinds.length] ?? 'MESSAGE';
  entries += 1;
  if (type === 'TOOL_CALL') queue.action('Running npm test');
  const text = `Entry ${entries}: the test of the login flow fails because the session has expired.`;
  queue.item({ type, text, data: { entry: entries, writtenMs: performance.now() } });
}

/** What was written and acknowledged. `work` resolves with how many entries were acknowledged in time. */
async function measured(work: () => Promise<number>): Promise<Written> {
  const before = { entries, reports };
  delays = [];
  const inTime = await work();
  return {
    entries: entries - before.entries,
    inTime,
    reports: reports - before.reports,
    p50: percentile(delays, 0.5),
    p99: percentile(delays, 0.99),
  };
}

/** All agents write, each at its own moment of a tenth of a second. */
async function writeFor(seconds: number): Promise<number> {
  const perMs = (streams.length * entriesPerSecond) / 1_000;
  const from = performance.now();
  let written = 0;
  for (let ms = 0; ms < seconds * 1_000; await pause(1)) {
    ms = Math.min(performance.now() - from, seconds * 1_000);
    for (; written < ms * perMs; written += 1) write(streams[written % streams.length] as ReportStream);
  }
  const inTime = delays.length;
  await Promise.all(streams.map((stream) => stream.send()));
  return inTime;
}

/** One report after another, each alone. */
async function reportAlone(count: number): Promise<number> {
  for (let n = 0; n < count; n += 1) {
    const stream = streams[n % streams.length] as ReportStream;
    write(stream);
    await stream.send();
  }
  return delays.length;
}

let polls = 1;
while (streams.length < Number(agents)) await poll(polls++, 1_000);
process.send?.('ready');
process.on('message', async (order: Order) => {
  process.send?.(
    await measured(() => ('seconds' in order ? writeFor(order.seconds) : reportAlone(order.alone))),
  );
});
// The heartbeat, until the benchmark ends this process.
for (;;) await poll(polls++, 5_000);
