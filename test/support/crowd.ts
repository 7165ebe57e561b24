/** Runs the job for 0 … count-1, at most `width` at once, and keeps the results in order. */
export async function crowd<T>(
  count: number,
  width: number,
  job: (index: number) => Promise<T>,
): Promise<T[]> {
  const results: T[] = new Array(count);
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      results[index] = await job(index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, lane));
  return results;
}
