/** About this long: what has failed together is not tried again together. */
export const spread = (ms: number): number => ms * (0.75 + Math.random() / 2);

/** How long to wait after a number of failures in a row: twice as long each time, up to a bound. */
export const backOffMs = (failures: number, firstMs: number, longestMs: number): number =>
  spread(Math.min(firstMs * 2 ** Math.min(failures - 1, 30), longestMs));
