import { isObject } from '../../lib/json.ts';
import type { Tokens } from './prices.ts';

/** What one answer of a model used, as far as it is known. */
export interface Reading {
  readonly model: string;
  readonly fast: boolean;
  readonly tier: string | undefined;
  readonly tokens: Tokens;
}

type Fields = Readonly<Record<string, unknown>>;

/** Reads what an answer says of itself: each event of a stream, or the one object of an answer that is not streamed. */
export interface WireReader {
  /** True when this was the last word about what was used. */
  read(event: Fields): boolean;
  reading(): Reading | undefined;
}

/**
 * Anthropic counts up: `message_start` has the input, each `message_delta` the output so far. Input, cache reads and
 * cache writes are told apart.
 */
export class AnthropicReader implements WireReader {
  #model = '';
  #usage: Fields | undefined;

  read(event: Fields): boolean {
    if (event.type === 'message_stop') return true;
    const message = event.type === 'message_start' ? fieldsOf(event.message) : event;
    if (typeof message.model === 'string') this.#model = message.model;
    if (isObject(message.usage)) this.#usage = { ...this.#usage, ...grown(this.#usage, message.usage) };
    return event.type === 'message';
  }

  reading(): Reading | undefined {
    if (!this.#usage) return undefined;
    const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens } = this.#usage;
    const written = countOf(cache_creation_input_tokens);
    const cacheWrite1h = Math.min(
      countOf(fieldsOf(this.#usage.cache_creation).ephemeral_1h_input_tokens),
      written,
    );
    return {
      model: this.#model,
      fast: this.#usage.speed === 'fast',
      tier: textOf(this.#usage.service_tier),
      tokens: {
        input: countOf(input_tokens),
        cachedInput: countOf(cache_read_input_tokens),
        cacheWrite: written - cacheWrite1h,
        cacheWrite1h,
        output: countOf(output_tokens),
      },
    };
  }
}

/** Counts only rise, whatever a later event leaves at zero; what is not said stays as it was. */
function grown(before: Fields | undefined, after: Fields): Fields {
  return Object.fromEntries(
    Object.entries(after)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => [
        name,
        typeof value === 'number' ? Math.max(value, countOf(before?.[name])) : value,
      ]),
  );
}

const lastEvents = ['response.completed', 'response.incomplete', 'response.failed'];

/** OpenAI tells once, at the end. Its input includes what was read from and written to the cache. */
export class OpenaiReader implements WireReader {
  #reading: Reading | undefined;

  read(event: Fields): boolean {
    const isLast = lastEvents.includes(String(event.type));
    const response = isLast ? fieldsOf(event.response) : event;
    if (isObject(response.usage)) this.#reading = openaiReading(response, response.usage);
    return isLast || this.#reading !== undefined;
  }

  reading(): Reading | undefined {
    return this.#reading;
  }
}

function openaiReading(response: Fields, usage: Fields): Reading {
  const details = fieldsOf(usage.input_tokens_details);
  const input = countOf(usage.input_tokens);
  const cachedInput = Math.min(countOf(details.cached_tokens), input);
  const cacheWrite = Math.min(countOf(details.cache_write_tokens), input - cachedInput);
  return {
    model: textOf(response.model) ?? '',
    fast: false,
    tier: textOf(response.service_tier),
    tokens: {
      input: input - cachedInput - cacheWrite,
      cachedInput,
      cacheWrite,
      cacheWrite1h: 0,
      output: countOf(usage.output_tokens),
    },
  };
}

const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {});

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** A provider's count, or nothing: what it says must not break a report. */
const countOf = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0;
