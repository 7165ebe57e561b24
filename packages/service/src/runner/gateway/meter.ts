import { Transform, type TransformCallback } from 'node:stream';
import { isObject } from '../../lib/json.ts';
import type { Reading, WireReader } from './provider-protocols.ts';
import { BoundedText, EventSplitter } from './sse.ts';

export interface MeterOptions {
  readonly reader: WireReader;
  readonly isEventStream: boolean;
  /** At most once: when the answer has said its last word about it, or when it ends or is cut before. */
  readonly onReading: (reading: Reading) => void;
  /** An event of the stream that tells of a failure, after an answer that began well. */
  readonly onFailure: (event: Readonly<Record<string, unknown>>) => void;
  readonly onByte: () => void;
}

/** Only these can say what was used, or that it failed: the many others are not worth parsing. */
const telling = /"usage"|"message_stop"|"error"/;

/** Passes an answer on as it comes, and reads in passing what it used: before whoever waits for it can act on it. */
export class Meter extends Transform {
  readonly #options: MeterOptions;
  readonly #events = new EventSplitter((data, isWhole) => this.#read(data, isWhole));
  /** Of an answer that is not streamed. */
  readonly #body = new BoundedText();
  #isSettled = false;

  constructor(options: MeterOptions) {
    super();
    this.#options = options;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#options.onByte();
    if (this.#options.isEventStream) this.#events.write(chunk);
    else this.#body.add(chunk);
    done(null, chunk);
  }

  override _flush(done: TransformCallback): void {
    this.settle();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.settle();
    done(error);
  }

  /** Tells what is known by now. */
  settle(): void {
    if (this.#isSettled) return;
    if (this.#options.isEventStream) this.#events.end();
    else {
      const { text, isWhole } = this.#body.take();
      this.#read(text, isWhole);
    }
    this.#tell();
  }

  #read(data: string, isWhole: boolean): void {
    if (this.#isSettled || !telling.test(data)) return;
    const event = isWhole ? parsed(data) : usageAtEnd(data);
    if (!event) return;
    if (event.type === 'error' || event.type === 'response.failed') this.#options.onFailure(event);
    if (this.#options.reader.read(event)) this.#tell();
  }

  #tell(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    const reading = this.#options.reader.reading();
    if (reading) this.#options.onReading(reading);
  }
}

/**
 * What a long answer used, from its end alone. OpenAI repeats the request in the answer, so its length is the agent's
 * to choose; what was used comes behind all that the agent has written, and is the last that is called so.
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
