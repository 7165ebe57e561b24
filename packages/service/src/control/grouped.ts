/**
 * Group commit's sibling for reads: calls that arrive while a query is in flight share the next one. A lone caller
 * waits for nobody; under load one round trip serves many.
 */
export function grouped<K, V>(
  read: (keys: readonly K[]) => Promise<readonly V[]>,
  { lanes = 2, maxGroup = 200 }: { lanes?: number; maxGroup?: number } = {},
): (key: K) => Promise<V> {
  interface Call {
    readonly key: K;
    readonly resolve: (value: V) => void;
    readonly reject: (error: unknown) => void;
  }
  let waiting: Call[] = [];
  let busy = 0;

  async function run(): Promise<void> {
    busy += 1;
    await Promise.resolve();
    while (waiting.length > 0) {
      const calls = waiting.slice(0, maxGroup);
      waiting = waiting.slice(maxGroup);
      try {
        const values = await read(calls.map((call) => call.key));
        for (const [i, call] of calls.entries()) call.resolve(values[i] as V);
      } catch (error) {
        for (const call of calls) call.reject(error);
      }
    }
    busy -= 1;
  }

  return (key) =>
    new Promise((resolve, reject) => {
      waiting.push({ key, resolve, reject });
      if (busy < lanes) void run();
    });
}
