export type Headers = Readonly<Record<string, string | undefined>>;

/**
 * A call to a host failed. `refused`: the host answered that it can't be done (4xx), so that trying again changes nothing.
 * `limited`: it asked to wait. `unknown`: no complete answer, or a 5xx: it may have been done.
 */
export class HostError extends Error {
  override readonly name = 'HostError';
  readonly kind: 'refused' | 'limited' | 'unknown';
  /** The HTTP status; 0 without an answer. */
  readonly status: number;
  /** How long to wait, if it is limited. */
  readonly retryAfterMs: number;

  constructor(kind: HostError['kind'], status: number, message: string, retryAfterMs = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}
