import type { AgentEntry } from '../contract/agent.ts';
import { isPassing } from './persistence.ts';

/** When the first look for those that left is due after a reconnection, and the later ones: each after so much quiet. */
const looksMs = [500, 2_000, 8_000];

export interface AgentStreamSource {
  /** Opens again by itself; `null` says that it has just been opened. */
  events(signal: AbortSignal): AsyncGenerator<AgentEntry | null, void, void>;
  /** Every agent that the list could show, whatever its phase. */
  everyone(signal: AbortSignal): AsyncIterable<AgentEntry>;
}

/**
 * A stream of list entries that shows each change once, across reconnections too. The service begins anew with each
 * connection, by sending the page as it is: entries that did not change meanwhile are dropped here. An agent that left
 * the filter meanwhile is on no page any more; so, when the page seems complete, those who were shown before and are
 * missing are looked up. That the page is complete, nobody says; the look is repeated for what came late.
 */
export async function* agentStream(
  { events, everyone }: AgentStreamSource,
  signal: AbortSignal | undefined,
): AsyncGenerator<AgentEntry, void, void> {
  const inner = new AbortController();
  const stop = () => inner.abort(signal?.reason);
  signal?.addEventListener('abort', stop);
  if (signal?.aborted) stop();
  const stream = events(inner.signal);
  const shown = new Map<string, string>();
  let missing = new Set<string>();
  let looks = 0;

  const isNews = (entry: AgentEntry): boolean => {
    const who = JSON.stringify(entry.agentId);
    const what = JSON.stringify(entry);
    missing.delete(who);
    if (shown.get(who) === what) return false;
    shown.set(who, what);
    return true;
  };

  /** What those who are missing have become. */
  async function* departed(): AsyncGenerator<AgentEntry, void, void> {
    try {
      for await (const entry of everyone(inner.signal)) {
        if (missing.size === 0) return;
        const who = JSON.stringify(entry.agentId);
        if (missing.has(who) && shown.get(who) !== JSON.stringify(entry) && isNews(entry)) yield entry;
      }
    } catch (error) {
      if (!isPassing(error)) throw error;
    }
  }

  try {
    let next: Promise<IteratorResult<AgentEntry | null, void>> | undefined;
    for (;;) {
      next ??= stream.next();
      // It may fail while nobody looks; the next look at it tells.
      next.catch(() => {});
      const lookMs = missing.size > 0 ? looksMs[looks] : undefined;
      const turn = lookMs === undefined ? await next : await within(lookMs, next);
      if (turn === undefined) {
        looks += 1;
        yield* departed();
        continue;
      }
      next = undefined;
      if (turn.done) return;
      if (turn.value === null) {
        missing = new Set(shown.keys());
        looks = 0;
      } else if (isNews(turn.value)) yield turn.value;
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    inner.abort();
  }
}

/** Undefined when the time is up first. */
async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
