import type { Browser } from 'playwright-core';
import { median, percentile, type Service } from '../../bench/tools.ts';
import { apiOf } from '../../support/api.ts';
import { Visitor } from '../../support/browser.ts';
import { newStage } from '../../support/stage.ts';
import type { FleetAtWork } from './fleet-at-work.ts';
import { paintedIn, transcriptPlace, watchPaint } from './painted.ts';

const warmUpEntries = 5;

export interface Latency {
  /** From the moment in which the agent's runner sends it. */
  readonly bareMs: readonly number[];
  readonly pageMs: readonly number[];
  /** From the moment in which the service begins to store it. */
  readonly storedBareMs: readonly number[];
  readonly storedPageMs: readonly number[];
}

/**
 * How long after it was written an entry is received by a bare client, and how long until it is on the screen. Both look
 * at the same agent at the same time, while the fleet is at work beside it; all clocks are this machine's. The agent that
 * is looked at is played, since only its runner knows when it writes.
 */
export async function entryLatency(
  browser: Browser,
  { service }: FleetAtWork,
  seconds: number,
): Promise<Latency> {
  const stage = await newStage(apiOf(service));
  const { agentId, dashboardUrl } = await stage.spawn('watched', {
    description: 'Say something each second.',
  });
  const claim = await stage.start('watched');
  const visitor = await Visitor.arrive(browser, service, {
    path: new URL(dashboardUrl).pathname,
    prepare: (context) => watchPaint(context, /tick-\d+/, transcriptPlace),
  });
  await visitor.page.getByText('Say something each second.').first().waitFor();
  const stop = new AbortController();
  const receiving = receive(service, { agentId }, stop.signal);

  const writtenMs = new Map<string, number>();
  for (let second = 0; second < seconds + warmUpEntries; second += 1) {
    // At any moment of a frame, and of a second.
    await pause(900 + Math.random() * 200);
    const text = `tick-${second}`;
    writtenMs.set(text, nowMs());
    await stage.report(claim, { items: [{ type: 'MESSAGE', text }] });
  }
  await pause(1000);
  stop.abort();
  const painted = await paintedIn(visitor.page);
  await visitor.leave();
  return compared(writtenMs, await receiving, painted);
}

function compared(
  written: ReadonlyMap<string, number>,
  received: ReadonlyMap<string, Received>,
  painted: Readonly<Record<string, number>>,
): Latency {
  const looked = [...written].slice(warmUpEntries).map(([text, writtenMs]) => {
    const { atMs, receivedMs } = received.get(text) ?? {};
    return { text, writtenMs, atMs, receivedMs, paintedMs: painted[text] };
  });
  const since = (from: 'writtenMs' | 'atMs', to: 'receivedMs' | 'paintedMs'): number[] =>
    looked.map((entry) => {
      const ms = (entry[to] ?? Number.NaN) - (entry[from] ?? Number.NaN);
      // The time of the store has whole milliseconds.
      if (!(ms > -1)) throw new Error(`an entry was lost, or came before its time: ${JSON.stringify(entry)}`);
      return ms;
    });
  return {
    bareMs: since('writtenMs', 'receivedMs'),
    pageMs: since('writtenMs', 'paintedMs'),
    storedBareMs: since('atMs', 'receivedMs'),
    storedPageMs: since('atMs', 'paintedMs'),
  };
}

export const latencyWords = (values: readonly number[]): string =>
  `${median(values).toFixed(1)} ms / ${percentile(values, 0.95).toFixed(1)} ms`;

interface Received {
  readonly atMs: number;
  readonly receivedMs: number;
}

/** The stream of an agent's timeline with nothing but `fetch`: when each message came. */
async function receive(service: Service, body: object, signal: AbortSignal): Promise<Map<string, Received>> {
  const received = new Map<string, Received>();
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
        if (text && at) received.set(text, { atMs: Date.parse(at), receivedMs });
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return received;
}

const nowMs = (): number => performance.timeOrigin + performance.now();
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
