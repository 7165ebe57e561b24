/** What became of one item. */
export type Outcome = { readonly isDone: true } | { readonly isDone: false; readonly error: unknown };

const concurrency = 6;

export class StoppedError extends Error {
  override readonly message = 'Not done: you stopped before.';
}

/** Does all of it, a few at a time. What has not begun when the signal aborts is not begun. */
export async function runEach<Item>(
  items: readonly Item[],
  act: (item: Item) => Promise<unknown>,
  report: (item: Item, outcome: Outcome) => void,
  signal: AbortSignal,
): Promise<void> {
  const waiting = items.values();
  const work = async (): Promise<void> => {
    for (const item of waiting) {
      if (signal.aborted) {
        report(item, { isDone: false, error: new StoppedError() });
        continue;
      }
      try {
        await act(item);
        report(item, { isDone: true });
      } catch (error) {
        report(item, { isDone: false, error });
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
}
