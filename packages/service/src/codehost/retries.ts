const firstMs = 1_000;
const longestMs = 10 * 60_000;

/** How long to wait after so many failed attempts: twice as long each time, with some spread. */
export const retryMs = (attempts: number): number =>
  Math.min(firstMs * 2 ** Math.min(attempts, 20), longestMs) * (0.75 + Math.random() / 2);
