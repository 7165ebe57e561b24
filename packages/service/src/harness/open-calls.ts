import { limits } from '@muster/sdk/contract';

/** More than are open at a time. */
const mostOpen = 1000;
/** Longer ones are not those of a harness. */
const mostIdLength = limits.partialKeyLength;
const mostTextLength = 4096;

/**
 * What is kept of calls until their results come, by their ids. The agent can write to the output of its harness, and begin
 * any number of calls with ids of any size: so only the newest are kept, and none with a long id.
 */
export class OpenCalls<V> extends Map<string, V> {
  readonly #most: number;

  constructor(most = mostOpen) {
    super();
    this.#most = most;
  }

  override set(id: string, value: V): this {
    if (typeof id !== 'string' || id.length > mostIdLength) return this;
    super.set(id, value);
    for (const oldest of this.keys()) {
      if (this.size <= this.#most) break;
      this.delete(oldest);
    }
    return this;
  }
}

/** A text that may be kept. The beginning of a longer one would keep all of it in memory. */
export const keptText = (text: string): string => (text.length <= mostTextLength ? text : '');
