import { Transform, type TransformCallback } from 'node:stream';
import { isObject } from '../../lib/json.ts';
import { FrameSplitter } from './event-frames.ts';
import type { AnswerUsage, UsageReader } from './provider-protocols.ts';

export interface MeterOptions {
  readonly reader: UsageReader;
  readonly format: AnswerFormat;
  /** About as many as the request has, for an answer that is cut off before it says so; undefined where none costs. */
  readonly inputTokens: number | undefined;
  /** Called at most once: when the usage is complete, or when the answer ends or breaks off before that. */
  readonly onUsage: (usage: AnswerUsage) => void;
  /** An error event in a stream whose status was a success. */
  readonly onFailure: (event: Readonly<Record<string, unknown>>) => void;
  readonly onByte: () => void;
}

/** A stream of server-sent events, one of AWS's binary events, or a single body. */
export type AnswerFormat = 'events' | 'frames' | 'body';

export function formatOf(contentType = ''): AnswerFormat {
  if (/^text\/event-stream/i.test(contentType)) return 'events';
  return /^application\/vnd\.amazon\.eventstream/i.test(contentType) ? 'frames' : 'body';
}

/** Only events with one of these can hold usage or an error. The many others are not parsed. */
const relevantEvent = /"usage"|"message_stop"|"error"/;

/** Forwards an answer and meters its usage, which is reported before the client has the end of the answer. */
export class Meter extends Transform {
  readonly #options: MeterOptions;
  readonly #events: { write(chunk: Buffer): void; end(): void } | undefined;
  /** The body of an answer that is not a stream of events. */
  readonly #body = new BoundedText();
  #isSettled = false;
  #hasFailed = false;
  /** What has arrived of the output, about. */
  #outputTokens = 0;

  constructor(options: MeterOptions) {
    super();
    this.#options = options;
    const read = (data: string, isWhole: boolean) => this.#readEvent(data, isWhole);
    if (options.format === 'events') this.#events = new EventSplitter(read);
    if (options.format === 'frames') this.#events = new FrameSplitter(read);
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#options.onByte();
    if (this.#events) this.#events.write(chunk);
    else {
      this.#body.add(chunk);
      this.#outputTokens += chunk.length / bytesPerToken;
    }
    done(null, chunk);
  }

  override _flush(done: TransformCallback): void {
    // A body is complete. Of a stream, only its last event says so.
    this.#end({ isCut: this.#events !== undefined && this.#outputTokens > 0 });
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.settle();
    done(error);
  }

  /** The answer is cut off: reports the usage that is known by now, and about as much as has arrived. */
  settle(): void {
    this.#end({ isCut: true });
  }

  #end({ isCut }: { readonly isCut: boolean }): void {
    if (this.#isSettled) return;
    if (this.#events) this.#events.end();
    else {
      const { text, isWhole } = this.#body.take();
      this.#read(text, isWhole);
    }
    this.#report(isCut && !this.#hasFailed);
  }

  #readEvent(data: string, isWhole: boolean): void {
    this.#outputTokens += 1;
    this.#read(data, isWhole);
  }

  #read(data: string, isWhole: boolean): void {
    if (this.#isSettled || !relevantEvent.test(data)) return;
    const event = isWhole ? parsed(data) : usageAtEnd(data);
    if (!event) return;
    if (event.type === 'error' || event.type === 'response.failed') {
      this.#hasFailed = true;
      this.#options.onFailure(event);
    }
    if (this.#options.reader.read(event)) this.#report(false);
  }

  #report(isCut: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    const { reader, inputTokens, onUsage } = this.#options;
    const known = reader.usage();
    const usage =
      isCut && inputTokens !== undefined ? cutUsage(known, inputTokens, this.#outputTokens) : known;
    if (usage) onUsage(usage);
  }
}

/** Of JSON with the text of an answer. An event has about one token. */
const bytesPerToken = 4;

/**
 * What an answer has used that was cut off: at least its input, so that cutting it off on purpose never makes it free.
 */
export function cutUsage(
  known: AnswerUsage | undefined,
  inputTokens: number,
  outputTokens: number,
): AnswerUsage {
  const output = Math.ceil(outputTokens);
  if (!known) {
    const tokens = { input: inputTokens, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output };
    return { model: '', fast: false, tier: undefined, tokens, estimated: true };
  }
  if (known.tokens.output >= output) return known;
  return { ...known, tokens: { ...known.tokens, output }, estimated: true };
}

/**
 * The usage from the end of a long answer. OpenAI repeats the request in its answer, so an agent chooses the length and
 * may write `"usage"` itself; the real usage is the last one.
 */
function usageAtEnd(data: string): Record<string, unknown> | undefined {
  const at = data.lastIndexOf('"usage":');
  const [usage] = at === -1 ? [] : (/^"usage":\s*\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}/.exec(data.slice(at)) ?? []);
  return usage === undefined ? undefined : parsed(`{${usage}}`);
}

function parsed(data: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(data);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const newline = 0x0a;

/** A longer text is not kept: 32 answers may arrive at the same time, and they are parsed on the runner's main thread. */
const mostBytes = 256 * 1024;
const tailBytes = 64 * 1024;

/** Collects a text that arrives in parts; of a long one, only the end. */
export class BoundedText {
  #parts: Buffer[] = [];
  #bytes = 0;
  #isWhole = true;

  add(part: Buffer): void {
    if (part.length === 0) return;
    this.#parts.push(part);
    this.#bytes += part.length;
    if (this.#bytes <= mostBytes) return;
    const end = Buffer.concat(this.#parts).subarray(-tailBytes);
    // A copy, or the tail would keep the whole buffer in memory.
    this.#parts = [Buffer.from(end)];
    this.#bytes = end.length;
    this.#isWhole = false;
  }

  /** Returns the text and starts again with an empty one. */
  take(): { readonly text: string; readonly isWhole: boolean } {
    const taken = { text: Buffer.concat(this.#parts).toString(), isWhole: this.#isWhole };
    this.#parts = [];
    this.#bytes = 0;
    this.#isWhole = true;
    return taken;
  }
}

/**
 * Finds the data of server-sent events in a stream of bytes. The providers send each event's data on one line. Of a
 * line that is too long, only the end is passed on.
 */
class EventSplitter {
  readonly #onData: (data: string, isWhole: boolean) => void;
  readonly #line = new BoundedText();

  constructor(onData: (data: string, isWhole: boolean) => void) {
    this.#onData = onData;
  }

  write(chunk: Buffer): void {
    let from = 0;
    for (let to = chunk.indexOf(newline); to !== -1; to = chunk.indexOf(newline, from)) {
      this.#line.add(chunk.subarray(from, to));
      this.end();
      from = to + 1;
    }
    this.#line.add(chunk.subarray(from));
  }

  /** Handles an unfinished line too: a stream may break off before the line break. */
  end(): void {
    const { text, isWhole } = this.#line.take();
    if (!isWhole) this.#onData(text, false);
    else if (text.startsWith('data:')) this.#onData(text.slice('data:'.length).trim(), true);
  }
}
