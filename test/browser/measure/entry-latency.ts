import type { AgentId } from '@muster/sdk/contract';
import type { Browser } from 'playwright-core';
import { median, percentile, type Service } from '../../bench/tools.ts';
import { apiOf } from '../../support/api.ts';
import { Visitor } from '../../support/browser.ts';
import { newTestTenant } from '../../support/test-tenant.ts';
import type { FleetAtWork } from './fleet-at-work.ts';
import { forgetPainted, paintedIn, transcriptPlace, watchPaint } from './painted.ts';

const warmUpEntries = 5;

/** Milliseconds until a plain HTTP client has received an entry, and until the entry is on the screen. */
export interface Latency {
  readonly bareMs: readonly number[];
  readonly pageMs: readonly number[];
}

/** The watched agent. Each measured entry is a mark such as `tick-17`. */
interface Watched {
  readonly agentId: AgentId;
  readonly dashboardUrl: string;
}

interface Seen {
  /** The entries that the plain client received, in order. */
  readonly received: readonly Received[];
  /** When each mark was painted. */
  readonly paintedMs: Readonly<Record<string, number>>;
}

/**
 * Measures from the time when a rehearsed agent writes: each second it runs a command that prints the time, and writes a
 * message when the command has ended.
 */
export async function latencyFromAgent(
  browser: Browser,
  { service, client }: FleetAtWork,
  seconds: number,
): Promise<Latency> {
  const ticks = Array.from({ length: seconds + warmUpEntries }, (_, at) => at);
  const watched = await client.spawn({
    path: 'watched',
    description: ['!sleep 5', ...ticks.map((at) => `!run date +%s%N\n!say tick-${at}\n!sleep 1`)].join('\n'),
    model: 'rehearsal-a',
  });
  const { received, paintedMs } = await watchAgent(browser, service, watched, async () => {
    await client.wait('watched');
  });
  const toldMs = new Map(
    received.map(({ text }, at) => [text, Number(received[at - 1]?.text) / 1e6] as const),
  );
  return compared(received, paintedMs, ({ text }) => toldMs.get(text));
}

/** Measures from the time when a runner sends, and from the time when the service stores. Uses a fake runner. */
export async function latencyFromRunner(
  browser: Browser,
  { service }: FleetAtWork,
  seconds: number,
): Promise<{ readonly sent: Latency; readonly stored: Latency }> {
  const tenant = await newTestTenant(apiOf(service));
  const watched = await tenant.spawn('played', { description: 'Say something each second.' });
  const claim = await tenant.start('played');
  const sentMs = new Map<string, number>();
  const { received, paintedMs } = await watchAgent(browser, service, watched, async () => {
    for (let second = 0; second < seconds + warmUpEntries; second += 1) {
      // At a random time within a frame and within a second.
      await pause(900 + Math.random() * 200);
      sentMs.set(`tick-${second}`, nowMs());
      await tenant.report(claim, { items: [{ type: 'MESSAGE', text: `tick-${second}` }] });
    }
  });
  return {
    sent: compared(received, paintedMs, ({ text }) => sentMs.get(text)),
    stored: compared(received, paintedMs, ({ atMs }) => atMs),
  };
}

/** A page and a plain client watch the same agent while the fleet works. All times are from this machine's clock. */
async function watchAgent(
  browser: Browser,
  service: Service,
  { agentId, dashboardUrl }: Watched,
  write: () => Promise<void>,
): Promise<Seen> {
  const visitor = await Visitor.arrive(browser, service, {
    path: new URL(dashboardUrl).pathname,
    prepare: (context) => watchPaint(context, /tick-\d+/, transcriptPlace),
  });
  await visitor.page.getByText('Run 1 started').waitFor();
  // The description may contain marks too.
  await forgetPainted(visitor.page);
  const stop = new AbortController();
  const receiving = receive(service, { agentId }, stop.signal);
  await write();
  await pause(1000);
  stop.abort();
  const paintedMs = await paintedIn(visitor.page);
  await visitor.leave();
  return { received: await receiving, paintedMs };
}

/** Without the first entries, which warm up the caches. */
function compared(
  received: readonly Received[],
  paintedMs: Seen['paintedMs'],
  from: (entry: Received) => number | undefined,
): Latency {
  const looked = received
    .filter(({ text }) => /^tick-\d+$/.test(text))
    .slice(warmUpEntries)
    .map((entry) => ({ ...entry, fromMs: from(entry), paintedMs: paintedMs[entry.text] }));
  const until = (moment: 'receivedMs' | 'paintedMs'): number[] =>
    looked.map((entry) => {
      const ms = (entry[moment] ?? Number.NaN) - (entry.fromMs ?? Number.NaN);
      // The database stores whole milliseconds.
      if (!(ms > -1)) throw new Error(`an entry was lost, or came before its time: ${JSON.stringify(entry)}`);
      return ms;
    });
  return { bareMs: until('receivedMs'), pageMs: until('paintedMs') };
}

export const latencyWords = (values: readonly number[]): string =>
  `${median(values).toFixed(1)} ms / ${percentile(values, 0.95).toFixed(1)} ms`;

interface Received {
  readonly text: string;
  readonly atMs: number;
  readonly receivedMs: number;
}

/** Reads the timeline stream with `fetch`, and records when each entry arrived. */
async function receive(service: Service, body: object, signal: AbortSignal): Promise<readonly Received[]> {
  const received: Received[] = [];
  const response = await fetch(`${service.url}/v1/agent/timeline/stream`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  let rest = '';
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body ?? []) {
      const receivedMs = nowMs();
      const events = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) {
        const data = /^data: ?(.*)$/m.exec(event)?.[1];
        const { text, at } = JSON.parse(data ?? '{}') as { text?: string; at?: string };
        if (text && at) received.push({ text, atMs: Date.parse(at), receivedMs });
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return received;
}

const nowMs = (): number => performance.timeOrigin + performance.now();
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
