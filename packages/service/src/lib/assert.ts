export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/** Stays on in production: a broken invariant must stop the transaction that would store it. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InvariantError(`invariant broken: ${message}`);
}

/** The end of an exhaustive switch. */
export function unreachable(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`);
}
