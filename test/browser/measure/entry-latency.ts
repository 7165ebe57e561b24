import type { Browser } from 'playwright-core';
import { median, percentile, type Service } from '../../bench/tools.ts';
import { Visitor } from '../../support/browser.ts';
import { type FleetAtWork, nameOf } from './fleet-at-work.ts';
import { paintedIn, transcriptPlace, watchPaint } from './painted.ts';

export interface Latency {
  readonly p50Ms: number;
  readonly p95Ms: number;
}

/** What an agent said, and not the order to say it, which is on the page too. */
const mark = /(?<!!say )tick-\d+/;
const warmUpMs = 5_000;

/**
 * How long after it was written an entry is received by a bare client, and is on the screen. Both look at the same agent
 * at the same time, and all clocks are this machine's. It was written when its transaction began: `at`.
 */
export async function entryLatency(
  browser: Browser,
  { service, client }: FleetAtWork,
  seconds: number,
): Promise<{ bare: Latency; page: Latency; entries: number }> {
  const { agentId, dashboardUrl } = await client.status(nameOf(0));
  const visitor = await Visitor.arrive(browser, service, {
    path: new URL(dashboardUrl).pathname,
    prepare: (context) => watchPaint(context, mark, transcriptPlace),
  });
  await visitor.page.getByText(mark).first().waitFor();
  const stop = new AbortController();
  const received = receive(service, { agentId }, stop.signal);
  await pause(warmUpMs + seconds * 1000);
  stop.abort();
  const painted = await paintedIn(visitor.page);
  const { bareMs, pageMs } = compared(await received, painted);
  await visitor.leave();
  return { bare: latency(bareMs), page: latency(pageMs), entries: bareMs.length };
}

/** Those that both saw, but for the first seconds, in which a page and a stream begin. */
function compared(received: readonly Received[], painted: Readonly<Record<string, number>>) {
  const firstMs = (received[0]?.receivedMs ?? 0) + warmUpMs;
  const both = received.filter(({ text, receivedMs }) => receivedMs > firstMs && painted[text] !== undefined);
  const missing = received.filter(
    ({ text, receivedMs }) => receivedMs > firstMs && painted[text] === undefined,
  );
  // The last one may still be on its way to the screen.
  if (missing.length > 1) throw new Error(`${missing.length} entries never were on the screen`);
  const early = both.filter(({ atMs, text }) => (painted[text] ?? 0) < atMs);
  if (early.length > 0)
    throw new Error(`${early.length} entries were on the screen before they were written`);
  return {
    bareMs: both.map(({ atMs, receivedMs }) => receivedMs - atMs),
    pageMs: both.map(({ atMs, text }) => (painted[text] ?? Number.NaN) - atMs),
  };
}

const latency = (values: readonly number[]): Latency => ({
  p50Ms: median(values),
  p95Ms: percentile(values, 0.95),
});

interface Received {
  readonly text: string;
  readonly atMs: number;
  readonly receivedMs: number;
}

/** The stream of an agent's timeline, from here on, with nothing but `fetch`. */
async function receive(service: Service, body: object, signal: AbortSignal): Promise<Received[]> {
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
      const receivedMs = performance.timeOrigin + performance.now();
      const events = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) {
        const data = /^data: ?(.*)$/m.exec(event)?.[1];
        if (data === undefined) continue;
        const { text, at, type } = JSON.parse(data) as { text: string; at: string; type: string };
        if (type === 'MESSAGE') received.push({ text, atMs: Date.parse(at), receivedMs });
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return received;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
