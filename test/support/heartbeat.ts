import type { PlayedRunner } from './runner.ts';

/** Keeps a played runner's lease for as long as the suite runs; it claims nothing. Returns how to stop. */
export function keepLease(runner: PlayedRunner): () => Promise<void> {
  let last: Promise<unknown> = Promise.resolve();
  const timer = setInterval(() => {
    last = runner.poll({ free: { real: 0, rehearsed: 0 } }).catch(() => undefined);
  }, 5_000);
  return async () => {
    clearInterval(timer);
    await last;
  };
}
