import { type LookupAddress, lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
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

  /**
   * For one connection: its name is resolved once, so an address that changes after the check has no effect. `choose`
   * returns the addresses that may be used; it throws if none may.
   */
  forConnection(
    client: Holder,
    choose: (name: string, found: readonly LookupAddress[]) => LookupAddress[],
  ): LookupFunction {
    return (name, options, done) => {
      this.find(name, client)
        .then((found = []) => {
          if (found.length === 0) throw new Error(`${name} has no address`);
          return choose(name, found);
        })
        .then(
          (chosen) => {
            if (options.all) done(null, chosen);
            else done(null, chosen[0]?.address ?? '', chosen[0]?.family);
          },
          (error: Error) => done(error, '', 0),
        );
    };
  }
}
