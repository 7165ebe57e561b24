import type { Answer, Api } from '../support/api.ts';

/** A request that can be sent again exactly as it is. */
export interface Sent {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

type Target = Pick<Api, 'url' | 'key'>;

/** What a client that gives up after a while sees: an answer, a connection that broke, or nothing at all. */
export type Attempt = Answer<unknown> | 'lost' | 'hung';

export async function attempt(target: Target, sent: Sent, patienceMs = 20_000): Promise<Attempt> {
  const patience = AbortSignal.timeout(patienceMs);
  try {
    const response = await fetch(`${target.url}${sent.path}`, {
      method: sent.method ?? 'POST',
      headers: {
        authorization: `Bearer ${target.key}`,
        // A browser adds it; only a sign-in asks for it.
        origin: target.url,
        ...(sent.body !== undefined && { 'content-type': 'application/json' }),
        ...sent.headers,
      },
      ...(sent.body !== undefined && { body: JSON.stringify(sent.body) }),
      signal: patience,
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: JSON.parse(text) as unknown };
  } catch {
    return patience.aborted ? 'hung' : 'lost';
  }
}

export interface InsistenceOptions {
  /** After how long a request without an answer counts as hanging. */
  readonly patienceMs?: number;
  /** Throws where the service is gone for good, so that nobody waits for it. */
  readonly check?: () => void;
}

export interface Insisted<T> {
  readonly answer: Answer<T>;
  /** More than 1: what became of the first is not known to the caller. */
  readonly attempts: number;
}

/**
 * A client as the guarantees expect it: it sends the same request until it gets an answer other than 503. Whatever a
 * crash must not cause is counted: a 5xx of another kind, and a request that hangs.
 */
export class Insistence {
  readonly unexpected: string[] = [];
  retries = 0;
  readonly #target: Target;
  readonly #options: InsistenceOptions;

  constructor(target: Target, options: InsistenceOptions = {}) {
    this.#target = target;
    this.#options = options;
  }

  async send<T = Record<string, unknown>>(sent: Sent): Promise<Insisted<T>> {
    const deadline = Date.now() + 60_000;
    for (let attempts = 1; Date.now() < deadline; attempts += 1) {
      this.#options.check?.();
      const seen = await attempt(this.#target, sent, this.#options.patienceMs);
      if (seen === 'hung') this.unexpected.push(`${sent.path} hung`);
      else if (seen !== 'lost' && seen.status < 500) return { answer: seen as Answer<T>, attempts };
      else if (seen !== 'lost' && seen.status !== 503)
        this.unexpected.push(`${sent.path}: ${seen.status} ${JSON.stringify(seen.body)}`);
      this.retries += 1;
      await new Promise((resolve) => setTimeout(resolve, 80));
    }
    throw new Error(`${sent.path} was never answered`);
  }

  /** What must be accepted in the end. */
  async accepted<T = Record<string, unknown>>(sent: Sent): Promise<T> {
    const { answer } = await this.send<T>(sent);
    if (answer.status !== 200)
      throw new Error(`${sent.path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }
}
