import { runInNewContext } from 'node:vm';

/**
 * Runs synchronous work that somebody else's input may make endless, such as a regular expression of a tenant's
 * schema, and throws when it takes longer. The watchdog of `vm` ends whatever runs in the isolate; a worker thread
 * would do the same at far greater cost.
 */
export function withinTime<T>(timeoutMs: number, work: () => T): T {
  return runInNewContext('work()', { work }, { timeout: timeoutMs }) as T;
}
