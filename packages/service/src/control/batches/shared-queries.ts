import { setImmediate as nextTurn } from 'node:timers/promises';
import { FairShare, OverloadedError } from './tenant-limits.ts';

export interface SharedQueriesOptions<K> {
  readonly concurrency?: number;
  readonly maxBatch?: number;
  /** How many reads may wait or be under way; tenants share them. */
  readonly maxWaiting?: number;
  /** The tenant whose share a read takes. */
  readonly tenantOf?: (key: K) => number;
  /** Calls with the same id in one query get the same value. */
  readonly idOf?: (key: K) => unknown;
}

/**
 * Calls that arrive in one turn of the event loop, or while a query is in flight, share the next one, as commands do in the
 * group commit. A single caller hardly waits; under load one round trip serves many callers.
 */
export function shareQueries<K, V>(
  read: (keys: readonly K[]) => Promise<readonly V[]>,
  {
    concurrency = 2,
    maxBatch = 200,
    maxWaiting = 100_000,
    tenantOf = () => 0,
    idOf = (key) => key,
  }: SharedQueriesOptions<K> = {},
): (key: K) => Promise<V> {
  interface Call {
    readonly key: K;
    readonly resolve: (value: V) => void;
    readonly reject: (error: unknown) => void;
  }
  const places = new FairShare(maxWaiting);
  let waiting: Call[] = [];
  let busy = 0;

  async function run(): Promise<void> {
    busy += 1;
    await nextTurn();
    while (waiting.length > 0) {
      const calls = waiting.slice(0, maxBatch);
      waiting = waiting.slice(maxBatch);
      try {
        const distinct = new Map(calls.map(({ key }) => [idOf(key), key]));
        const values = await read([...distinct.values()]);
        const found = new Map([...distinct.keys()].map((id, i) => [id, values[i] as V]));
        for (const { key, resolve } of calls) resolve(found.get(idOf(key)) as V);
      } catch (error) {
        for (const call of calls) call.reject(error);
      } finally {
        for (const { key } of calls) places.release(tenantOf(key));
      }
    }
    busy -= 1;
  }

  return (key) =>
    new Promise((resolve, reject) => {
      if (!places.take(tenantOf(key)))
        return reject(new OverloadedError('too many reads of this tenant are waiting; try again'));
      waiting.push({ key, resolve, reject });
      if (busy < concurrency) void run();
    });
}
