export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/** Active in production too: a violated invariant must abort the transaction that would store it. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InvariantError(`invariant violated: ${message}`);
}

/** The message of anything that was thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
