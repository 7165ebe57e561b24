import type { AgentEntry } from '../contract/agent.ts';
import type { ServerSentEvent } from './event-parser.ts';
import { isPassing } from './persistence.ts';

export interface AgentStreamSource {
  /** Opens again by itself; `null` says that it has just been opened. */
  events(signal: AbortSignal): AsyncGenerator<ServerSentEvent | null, void, void>;
  /** Every agent that the list could show, whatever its phase. */
  everyone(signal: AbortSignal): AsyncIterable<AgentEntry>;
  readonly onOpen?: (() => void) | undefined;
  readonly onWhole?: (() => void) | undefined;
}

/**
 * A stream of list entries that shows each change once, across reconnections too. The service begins anew with each
 * connection, by sending the whole list as it is: entries that did not change meanwhile are dropped here. An agent that
 * left the filter meanwhile is not in the list any more; so, when the list is whole, those who were shown before and
 * did not come again are looked up, once, and shown as they are now.
 */
export async function* agentStream(
  { events, everyone, onOpen, onWhole }: AgentStreamSource,
  signal: AbortSignal | undefined,
): AsyncGenerator<AgentEntry, void, void> {
  const inner = new AbortController();
  const stop = () => inner.abort(signal?.reason);
  signal?.addEventListener('abort', stop);
  if (signal?.aborted) stop();
  const shown = new Shown();
  try {
    for (let isOver = false; !isOver; ) {
      isOver = true;
      for await (const event of events(inner.signal)) {
        if (event === null) {
          shown.expectAll();
          onOpen?.();
        } else if (event.type === 'entry') {
          const entry = JSON.parse(event.data) as AgentEntry;
          if (shown.isNews(entry, event.data)) yield entry;
        } else if (event.type === 'whole') {
          try {
            if (shown.isAnyoneMissing) yield* departed(shown, everyone(inner.signal));
            onWhole?.();
          } catch (error) {
            if (!isPassing(error)) throw error;
            // Who left can't be told now: everything is had once more.
            isOver = false;
            break;
          }
        }
      }
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    inner.abort();
  }
}

/** What those who are missing have become. They are forgotten then: who comes back is new. */
async function* departed(
  shown: Shown,
  everyone: AsyncIterable<AgentEntry>,
): AsyncGenerator<AgentEntry, void, void> {
  for await (const entry of everyone) {
    if (!shown.isMissing(entry)) continue;
    const isNews = shown.isNews(entry, JSON.stringify(entry));
    shown.forget(entry);
    if (isNews) yield entry;
    if (!shown.isAnyoneMissing) return;
  }
  shown.forgetMissing();
}

/** What was shown last of each agent, as a digest: a list may be long, and so may be what an entry says. */
class Shown {
  readonly #digests = new Map<string, number>();
  #missing = new Set<string>();

  get isAnyoneMissing(): boolean {
    return this.#missing.size > 0;
  }

  /** Everyone should come again. */
  expectAll(): void {
    this.#missing = new Set(this.#digests.keys());
  }

  isMissing(entry: AgentEntry): boolean {
    return this.#missing.has(keyOf(entry));
  }

  /** Whether the entry, which is this text, differs from what was shown last. */
  isNews(entry: AgentEntry, text: string): boolean {
    const key = keyOf(entry);
    const digest = digestOf(text);
    this.#missing.delete(key);
    if (this.#digests.get(key) === digest) return false;
    this.#digests.set(key, digest);
    return true;
  }

  forget(entry: AgentEntry): void {
    this.#digests.delete(keyOf(entry));
  }

  forgetMissing(): void {
    for (const key of this.#missing) this.#digests.delete(key);
    this.#missing.clear();
  }
}

/** A list is of one tenant, and none of these parts has a slash in it. */
const keyOf = ({ agentId: { ownerProvider, account, workspace, agent } }: AgentEntry): string =>
  `${ownerProvider}/${account}/${workspace}/${agent.join('/')}`;

/** 53 bits: two states of one agent will not have the same. */
function digestOf(text: string): number {
  let high = 0x9e3779b9;
  let low = 0x85ebca6b;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    high = Math.imul(high ^ code, 0x9e3779b1);
    low = Math.imul(low ^ code, 0x5f356495);
  }
  high = Math.imul(high ^ (high >>> 16), 0x85ebca6b) ^ Math.imul(low ^ (low >>> 13), 0xc2b2ae35);
  low = Math.imul(low ^ (low >>> 16), 0x85ebca6b) ^ Math.imul(high ^ (high >>> 13), 0xc2b2ae35);
  return (high >>> 11) * 2 ** 32 + (low >>> 0);
}
