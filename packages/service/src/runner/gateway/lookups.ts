import { type LookupAddress, lookup } from 'node:dns';
import { promisify } from 'node:util';
import { Capacity, type Holder } from './capacity.ts';

const resolve = promisify(lookup);

/**
 * A DNS lookup occupies one of the four threads with which this process also reads files, possibly for half a minute.
 * An agent can cause any number of them: one lookup at a time per run, two for all runs.
 */
const allLookups = new Capacity(2);

/** The DNS lookups of one run. */
export class Lookups {
  readonly #capacity = new Capacity(1, allLookups);

  /** The addresses of a name. Undefined when the client disconnected. */
  async find(host: string, client: Holder): Promise<LookupAddress[] | undefined> {
    const release = await this.#capacity.take(1, client);
    try {
      return release && (await resolve(host, { all: true }));
    } finally {
      release?.();
    }
  }
}
