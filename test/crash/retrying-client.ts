import { type Answer, type Api, answerOf, sendRequest } from '../support/api.ts';

/** A request that can be sent again exactly as it is. */
export interface Sent {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  /** Instead of a body. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

type Target = Pick<Api, 'url' | 'key'>;

/** What a client with a timeout sees: an answer, a broken connection, or nothing. */
export type Attempt = Answer<unknown> | 'lost' | 'hung';

export async function attempt(target: Target, sent: Sent, timeoutMs = 20_000): Promise<Attempt> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const response = await sendRequest(`${target.url}${sent.path}`, {
      method: sent.method ?? 'POST',
      headers: {
        authorization: `Bearer ${target.key}`,
        // A browser adds it; only a sign-in asks for it.
        origin: target.url,
        ...(sent.body !== undefined && { 'content-type': 'application/json' }),
        ...sent.headers,
      },
      body: sent.text ?? (sent.body === undefined ? undefined : JSON.stringify(sent.body)),
      signal: timeout,
    });
    return await answerOf(response);
  } catch {
    return timeout.aborted ? 'hung' : 'lost';
  }
}

export interface RetryingClientOptions {
  /** After how long a request without an answer counts as hanging. */
  readonly timeoutMs?: number;
  /** How long a request is repeated. */
  readonly withinMs?: number;
  /** Throws if the service has ended, so that the client does not wait for it. */
  readonly check?: () => void;
}

export interface Answered<T> {
  readonly answer: Answer<T>;
  /** After more than one attempt, the caller does not know what the first one did. */
  readonly attempts: number;
}

/**
 * A client as the guarantees expect it: it sends the same request until it gets an answer other than 503. Whatever a
 * crash must not cause is counted: a 5xx of another kind, and a request that hangs.
 */
export class RetryingClient {
  readonly unexpected: string[] = [];
  retries = 0;
  readonly #target: Target;
  readonly #options: RetryingClientOptions;

  constructor(target: Target, options: RetryingClientOptions = {}) {
    this.#target = target;
    this.#options = options;
  }

  async send<T = Record<string, unknown>>(sent: Sent): Promise<Answered<T>> {
    const deadline = Date.now() + (this.#options.withinMs ?? 60_000);
    for (let attempts = 1; Date.now() < deadline; attempts += 1) {
      this.#options.check?.();
      const seen = await attempt(this.#target, sent, this.#options.timeoutMs);
      if (seen === 'hung') this.unexpected.push(`${sent.path} hung`);
      else if (seen !== 'lost' && seen.status < 500) return { answer: seen as Answer<T>, attempts };
      else if (seen !== 'lost' && seen.status !== 503)
        this.unexpected.push(`${sent.path}: ${seen.status} ${JSON.stringify(seen.body)}`);
      this.retries += 1;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    throw new Error(`${sent.path} was never answered`);
  }

  async accepted<T = Record<string, unknown>>(sent: Sent): Promise<T> {
    const { answer } = await this.send<T>(sent);
    if (answer.status !== 200)
      throw new Error(`${sent.path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }
}
