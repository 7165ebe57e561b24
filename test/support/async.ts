/**
 * Repeats the probe until the condition holds. The pauses grow, because workers that poll every few milliseconds keep a
 * core busy. On a timeout the error contains the last value.
 */
export async function until<T>(
  what: string,
  probe: () => Promise<T>,
  holds: (seen: T) => boolean,
  timeoutMs = 40_000,
  mostPauseMs = 200,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (let pauseMs = 10; ; pauseMs = Math.min(pauseMs * 1.3, mostPauseMs)) {
    const seen = await probe();
    if (holds(seen)) return seen;
    if (Date.now() > deadline) throw new Error(`never saw ${what}; last: ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** Repeats the check until it does not throw, as long as `expect.poll` does. */
export async function eventually<T>(check: () => T | Promise<T>, timeoutMs = 40_000): Promise<T> {
  for (const deadline = Date.now() + timeoutMs; ; ) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Runs the job for 0 … count-1, at most `width` of them concurrently, and returns the results in order. */
export async function runConcurrently<T>(
  count: number,
  width: number,
  job: (index: number) => Promise<T>,
): Promise<T[]> {
  const results: T[] = new Array(count);
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      results[index] = await job(index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, worker));
  return results;
}
