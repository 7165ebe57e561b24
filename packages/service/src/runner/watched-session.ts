import { setTimeout as pause } from 'node:timers/promises';
import type { HarnessSession, TurnResult } from '../harness/harness.ts';
import type { OpenEndpoint, ProviderFailure } from './gateway/gateway.ts';

/** How long a harness may take to come to rest once its provider has refused it, and again once it is interrupted. */
const restMs = 3000;
const firstLimitMs = 500;
const longestLimitMs = 5 * 60_000;

/**
 * A session whose provider is watched at the gateway. What the provider says there, its limit or its refusal, ends
 * the turn at once; the harness alone would try again for minutes.
 */
export class WatchedSession {
  readonly #session: HarnessSession;
  readonly #endpoint: OpenEndpoint;
  readonly #attempt: number;

  constructor(session: HarnessSession, endpoint: OpenEndpoint, attempt: number) {
    this.#session = session;
    this.#endpoint = endpoint;
    this.#attempt = attempt;
  }

  async deliver(text: string): Promise<TurnResult> {
    const delivering = this.#session.deliver(text);
    const failure = await Promise.race([delivering.then(() => undefined), this.#endpoint.failure]);
    if (!failure) return this.#judged(await delivering);
    const rested = delivering.then(
      () => true,
      () => true,
    );
    const hasRested = () => Promise.race([rested, pause(restMs, false, { ref: false })]);
    // It ends by itself if it can: the model would read of an interrupt as the user's.
    if (!(await hasRested())) {
      this.#session.interrupt();
      if (!(await hasRested())) await this.#session.kill();
    }
    return this.#resultOf(failure);
  }

  /** A provider that is down comes back: the service has the batch tried again later. */
  #judged(result: TurnResult): TurnResult {
    const outage = this.#endpoint.outage();
    if (result.type !== 'failed' || outage === undefined) return result;
    return { ...result, code: 'PROVIDER_UNAVAILABLE', message: `${outage} ${result.message}` };
  }

  #resultOf(failure: ProviderFailure): TurnResult {
    if (failure.type === 'refused') return { type: 'failed', code: failure.code, message: failure.message };
    // A limit that names a moment, again and again, is knocked at less and less often.
    const leastMs = Math.min(longestLimitMs, firstLimitMs * 2 ** Math.min(this.#attempt - 1, 10));
    const until = new Date(Math.max(failure.until.getTime(), Date.now() + leastMs));
    return {
      type: 'parked',
      until,
      message: `${failure.message}. The run goes on at ${until.toISOString()}.`,
    };
  }
}
