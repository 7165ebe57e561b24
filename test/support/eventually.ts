import { vi } from 'vitest';

/** Waits as long as `expect.poll` does: `vi.waitFor` gives up after a second, which a busy machine may need. */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(check, { timeout: 40_000, interval: 100 });
