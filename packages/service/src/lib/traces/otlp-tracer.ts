import { randomFillSync } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { cutText } from '../cut-text.ts';
import { messageOf } from '../errors.ts';
import type { RunnerLog } from '../log.ts';
import { nodeFetch } from '../node-fetch.ts';
import { errorType, floats } from './attributes.ts';
import type { ExportSettings } from './settings.ts';
import type { Attributes, AttributeValue, Span, SpanContext, SpanOptions, Tracer } from './tracer.ts';

const kinds = { internal: 1, server: 2, client: 3 } as const;
const statusError = 2;
const largestTextBytes = 16 * 1024;
const mostAttributes = 128;
const longestPauseMs = 60_000;

/** Sends spans as OTLP/JSON, in batches and in the background. What does not fit into the queue is counted and dropped. */
export class OtlpTracer implements Tracer {
  readonly #settings: ExportSettings;
  readonly #log: RunnerLog;
  readonly #queue: FinishedSpan[] = [];
  #dropped = 0;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(settings: ExportSettings, log: RunnerLog) {
    this.#settings = settings;
    this.#log = log;
  }

  get capturesContent(): boolean {
    return this.#settings.capturesContent;
  }

  get dropped(): number {
    return this.#dropped;
  }

  start(name: string, { kind = 'internal', parent, links = [], attributes }: SpanOptions = {}): Span {
    const traceId = parent?.traceId ?? randomHex(16);
    const isSampled = this.#settings.isSampled(traceId, parent);
    const context = { traceId, spanId: randomHex(8), isSampled };
    if (!isSampled) return { context, set: () => {}, end: () => {} };
    const startedMs = nowMs();
    const collected: Record<string, AttributeValue | undefined> = { ...attributes };
    let isEnded = false;
    return {
      context,
      set: (more) => void Object.assign(collected, more),
      end: (error) => {
        if (isEnded) return;
        isEnded = true;
        if (error !== undefined) collected[errorType] = error;
        const endedMs = Math.max(startedMs, nowMs());
        const times = { startTimeUnixNano: nanoseconds(startedMs), endTimeUnixNano: nanoseconds(endedMs) };
        this.#add({ name, kind, context, parent, links, attributes: collected, times });
      },
    };
  }

  drop(spans: number): void {
    if (spans === 0) return;
    const before = this.#dropped;
    this.#dropped += spans;
    // At each power of two, so that a collector that is gone does not fill the log.
    if (Math.floor(Math.log2(this.#dropped)) > Math.floor(Math.log2(before)))
      this.#log.warn({ dropped: this.#dropped }, 'spans dropped');
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    const timer = setTimeout(() => this.#closing.abort(), this.#settings.timeoutMs);
    while (this.#queue.length > 0 && !this.#closing.signal.aborted) {
      await this.#send();
      if (this.#failures > 0) break;
    }
    clearTimeout(timer);
    this.#closing.abort();
    this.drop(this.#queue.splice(0).length);
  }

  #add(span: FinishedSpan): void {
    const { queueSize, batchSize, delayMs } = this.#settings;
    if (this.#queue.length >= queueSize || this.#closing.signal.aborted) return this.drop(1);
    this.#queue.push(span);
    if (this.#queue.length >= batchSize && this.#failures === 0) void this.#send();
    else this.#sendAfter(delayMs);
  }

  #sendAfter(ms: number): void {
    this.#timer ??= setTimeout(() => void this.#send(), ms).unref();
  }

  /** Sends everything that is queued, one batch at a time. Never rejects. */
  #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sending ??= this.#sendBatches().finally(() => {
      this.#sending = undefined;
      if (this.#queue.length === 0 || this.#closing.signal.aborted) return;
      const { delayMs } = this.#settings;
      this.#sendAfter(Math.min(longestPauseMs, delayMs * 2 ** Math.min(this.#failures, 10)));
    });
    return this.#sending;
  }

  async #sendBatches(): Promise<void> {
    const { batchSize } = this.#settings;
    for (let isFirst = true; isFirst || this.#queue.length >= batchSize; isFirst = false) {
      const batch = this.#queue.slice(0, batchSize);
      const result = await this.#post(batch).catch((error: unknown) => failed(messageOf(error)));
      if (result.isTemporary) {
        this.#failures += 1;
        if (this.#failures === 1)
          this.#log.warn({ reason: result.reason }, 'collector of traces unavailable');
        return;
      }
      this.#failures = 0;
      this.#queue.splice(0, batch.length);
      if (!result.reason) continue;
      this.#log.warn({ reason: result.reason }, 'collector refused spans');
      this.drop(batch.length);
    }
  }

  async #post(batch: readonly FinishedSpan[]): Promise<SendResult> {
    const { url, headers, isCompressed, timeoutMs, resource } = this.#settings;
    const text = JSON.stringify(requestOf(batch, resource));
    const reply = await nodeFetch(url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        ...(isCompressed && { 'content-encoding': 'gzip' }),
      },
      body: isCompressed ? await promisify(gzip)(text) : text,
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#closing.signal]),
    });
    // Read so that the connection can be used again.
    await reply.text();
    if (reply.ok) return sent;
    const reason = `HTTP ${reply.status}`;
    return [429, 502, 503, 504].includes(reply.status) ? failed(reason) : { isTemporary: false, reason };
  }
}

interface FinishedSpan extends Required<Pick<SpanOptions, 'kind' | 'links' | 'attributes'>> {
  readonly name: string;
  readonly context: SpanContext;
  readonly parent: SpanContext | undefined;
  readonly times: { readonly startTimeUnixNano: string; readonly endTimeUnixNano: string };
}

interface SendResult {
  readonly isTemporary: boolean;
  /** Empty if the collector has the spans. */
  readonly reason: string;
}

const sent: SendResult = { isTemporary: false, reason: '' };
const failed = (reason: string): SendResult => ({ isTemporary: true, reason });

/** The field names of `opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest` in JSON. */
const requestOf = (spans: readonly FinishedSpan[], resource: Attributes) => ({
  resourceSpans: [
    {
      resource: { attributes: keyValues(resource) },
      scopeSpans: [{ scope: { name: 'muster' }, spans: spans.map(encoded) }],
    },
  ],
});

const encoded = ({ name, kind, context, parent, links, attributes, times }: FinishedSpan) => ({
  traceId: context.traceId,
  spanId: context.spanId,
  ...(parent && { parentSpanId: parent.spanId }),
  flags: 1,
  name: cutText(name, 256).text,
  kind: kinds[kind],
  ...times,
  attributes: keyValues(attributes),
  ...(links.length > 0 && {
    links: links.map(({ context: { traceId, spanId }, attributes: of = {} }) => ({
      traceId,
      spanId,
      attributes: keyValues(of),
    })),
  }),
  ...(attributes[errorType] !== undefined && { status: { code: statusError } }),
});

function keyValues(attributes: Attributes) {
  const pairs: { key: string; value: unknown }[] = [];
  for (const key in attributes) {
    const value = attributes[key];
    if (value !== undefined && pairs.length < mostAttributes)
      pairs.push({ key, value: anyValue(key, value) });
  }
  return pairs;
}

function anyValue(key: string, value: AttributeValue): unknown {
  if (typeof value === 'string') return { stringValue: textOf(value) };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number')
    return Number.isInteger(value) && !floats.has(key) ? { intValue: String(value) } : { doubleValue: value };
  return {
    arrayValue: { values: value.slice(0, mostAttributes).map((text) => ({ stringValue: textOf(text) })) },
  };
}

/** Agents write anything, and half of a character is not valid in UTF-8. */
const textOf = (text: string): string => cutText(text, largestTextBytes).text.toWellFormed();

const randomBytes = Buffer.alloc(4096);
let usedBytes = randomBytes.length;

function randomHex(bytes: number): string {
  if (usedBytes + bytes > randomBytes.length) {
    randomFillSync(randomBytes);
    usedBytes = 0;
  }
  usedBytes += bytes;
  return randomBytes.toString('hex', usedBytes - bytes, usedBytes);
}

let clockOffsetMs = Date.now() - performance.now();

/** The time of day, finer than a millisecond. It follows the system's clock when that is set. */
function nowMs(): number {
  const driftMs = Date.now() - performance.now() - clockOffsetMs;
  if (Math.abs(driftMs) > 20) clockOffsetMs += driftMs;
  return clockOffsetMs + performance.now();
}

function nanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  return `${whole}${String(Math.floor((ms - whole) * 1e6)).padStart(6, '0')}`;
}
