import type { Browser } from 'playwright-core';
import { median, percentile, type Service } from '../../bench/tools.ts';
import { Visitor } from '../../support/browser.ts';
import { type FleetAtWork, watched } from './fleet-at-work.ts';
import { paintedIn, transcriptPlace, watchPaint } from './painted.ts';

/** What an agent said, and not the order to say it, which is on the page too. */
const mark = /(?<!!say )tick-\d+/;
const warmUpMs = 5_000;

export interface Latency {
  readonly entries: number;
  /** Since the agent read the clock, which it does just before it writes. */
  readonly bareMs: readonly number[];
  readonly pageMs: readonly number[];
  /** Since the service began to store it: without the agent's own part, and the runner's. */
  readonly storedBareMs: readonly number[];
  readonly storedPageMs: readonly number[];
}

/**
 * How long after it was written an entry is received by a bare client, and how long until it is on the screen. Both look
 * at the same agent at the same time, and all clocks are this machine's.
 */
export async function entryLatency(
  browser: Browser,
  { service, client }: FleetAtWork,
  seconds: number,
): Promise<Latency> {
  const { agentId, dashboardUrl } = await client.status(watched);
  const visitor = await Visitor.arrive(browser, service, {
    path: new URL(dashboardUrl).pathname,
    prepare: (context) => watchPaint(context, mark, transcriptPlace),
  });
  await visitor.page.getByText(mark).first().waitFor();
  const stop = new AbortController();
  const receiving = receive(service, { agentId }, stop.signal);
  await new Promise((resolve) => setTimeout(resolve, warmUpMs + seconds * 1000));
  stop.abort();
  const painted = await paintedIn(visitor.page);
  await visitor.leave();
  return compared(await receiving, painted);
}

/** Without the first seconds, in which a page and a stream begin, and the last one, which may still be on its way. */
function compared(received: readonly Received[], painted: Readonly<Record<string, number>>): Latency {
  const firstMs = (received[0]?.receivedMs ?? 0) + warmUpMs;
  const looked = received
    .filter(({ receivedMs }) => receivedMs > firstMs)
    .slice(0, -1)
    .map((entry) => ({ ...entry, paintedMs: painted[entry.text] ?? Number.NaN }));
  const wrong = looked.filter(({ paintedMs, atMs }) => !(paintedMs >= atMs));
  if (wrong.length > 0) throw new Error(`never on the screen, or too early: ${JSON.stringify(wrong)}`);
  return {
    entries: looked.length,
    bareMs: looked.map(({ writtenMs, receivedMs }) => receivedMs - writtenMs),
    pageMs: looked.map(({ writtenMs, paintedMs }) => paintedMs - writtenMs),
    storedBareMs: looked.map(({ atMs, receivedMs }) => receivedMs - atMs),
    storedPageMs: looked.map(({ atMs, paintedMs }) => paintedMs - atMs),
  };
}

export const latencyWords = (values: readonly number[]): string =>
  `${median(values).toFixed(1)} ms / ${percentile(values, 0.95).toFixed(1)} ms`;

interface Received {
  readonly text: string;
  readonly writtenMs: number;
  readonly atMs: number;
  readonly receivedMs: number;
}

/** The stream of an agent's timeline with nothing but `fetch`. */
async function receive(service: Service, body: object, signal: AbortSignal): Promise<Received[]> {
  const received: Received[] = [];
  let writtenMs = Number.NaN;
  const take = (event: string, receivedMs: number): void => {
    const data = /^data: ?(.*)$/m.exec(event)?.[1];
    if (data === undefined) return;
    const { text, at, type } = JSON.parse(data) as { text: string; at: string; type: string };
    if (type === 'TOOL_RESULT') writtenMs = Number(text) / 1e6;
    if (type === 'MESSAGE') received.push({ text, writtenMs, atMs: Date.parse(at), receivedMs });
  };
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
      const receivedMs = performance.timeOrigin + performance.now();
      const events = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) take(event, receivedMs);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return received;
}
