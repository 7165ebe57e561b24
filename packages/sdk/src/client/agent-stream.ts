import type { AgentEntry } from '../contract/agent.ts';
import type { AgentId } from '../contract/identity.ts';
import type { ServerSentEvent } from './event-parser.ts';
import { isTransient } from './retries.ts';

export interface AgentStreamSource {
  /** Reopens itself; `null` says that the stream was just opened. */
  events(signal: AbortSignal): AsyncGenerator<ServerSentEvent | null, void, void>;
  /** Every agent that the list could contain, in any phase. */
  allAgents(signal: AbortSignal): AsyncIterable<AgentEntry>;
  readonly onOpen?: (() => void) | undefined;
  readonly onWhole?: (() => void) | undefined;
  readonly onGone?: ((agentId: AgentId) => void) | undefined;
}

/**
 * A stream of list entries that yields each change once, also across reconnections. After each connect the service sends
 * the whole list; entries that did not change are dropped here. An agent that left the filter while the stream was
 * disconnected is missing from the list. When the list is complete, missing agents are looked up and yielded once more;
 * those that are not found were deleted.
 */
export async function* agentStream(
  { events, allAgents, onOpen, onWhole, onGone }: AgentStreamSource,
  signal: AbortSignal | undefined,
): AsyncGenerator<AgentEntry, void, void> {
  const inner = new AbortController();
  const stop = () => inner.abort(signal?.reason);
  signal?.addEventListener('abort', stop);
  if (signal?.aborted) stop();
  const sent = new SentEntries();
  try {
    for (let mustReconnect = true; mustReconnect; ) {
      mustReconnect = false;
      let isWhole = false;
      for await (const event of events(inner.signal)) {
        if (event === null) {
          sent.expectAll();
          onOpen?.();
        } else if (event.type === 'entry') {
          const entry = JSON.parse(event.data) as AgentEntry;
          if (sent.record(entry, event.data, isWhole)) yield entry;
        } else if (event.type === 'whole') {
          try {
            if (sent.hasMissing) yield* departed(sent, allAgents(inner.signal), onGone);
            isWhole = true;
            onWhole?.();
          } catch (error) {
            if (!isTransient(error)) throw error;
            // Missing agents can't be looked up now: a new connection sends the whole list again.
            mustReconnect = true;
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

/** The missing agents as they are now. They are forgotten, so that one that comes back is new. */
async function* departed(
  sent: SentEntries,
  allAgents: AsyncIterable<AgentEntry>,
  onGone: AgentStreamSource['onGone'],
): AsyncGenerator<AgentEntry, void, void> {
  for await (const entry of allAgents) {
    if (!sent.isMissing(entry)) continue;
    const isChanged = sent.differs(entry);
    sent.forget(entry);
    if (isChanged) yield entry;
    if (!sent.hasMissing) return;
  }
  for (const agentId of sent.forgetMissing()) onGone?.(agentId);
}

interface SentEntry {
  readonly agentId: AgentId;
  /** Of the text that the stream sent. */
  readonly digest: number;
  /** Of a change: an agent that has left the list is looked up, with its fields in any order. */
  readonly sorted: number | null;
}

/** The last entry sent of each agent. Only digests are stored, because lists and entries may be long. */
class SentEntries {
  readonly #sent = new Map<string, SentEntry>();
  #missing = new Set<string>();

  get hasMissing(): boolean {
    return this.#missing.size > 0;
  }

  /** Every agent counts as missing until it is recorded again. */
  expectAll(): void {
    this.#missing = new Set(this.#sent.keys());
  }

  isMissing(entry: AgentEntry): boolean {
    return this.#missing.has(keyOf(entry));
  }

  /** Returns whether the entry differs from the last one of this agent. A long list is recorded before it is shown. */
  record(entry: AgentEntry, text: string, isChange: boolean): boolean {
    const key = keyOf(entry);
    const digest = digestOf(text);
    this.#missing.delete(key);
    if (this.#sent.get(key)?.digest === digest) return false;
    this.#sent.set(key, { agentId: entry.agentId, digest, sorted: isChange ? sortedDigest(entry) : null });
    return true;
  }

  /** Whether an agent that was looked up differs. One that left the list unnoticed does. */
  differs(entry: AgentEntry): boolean {
    return this.#sent.get(keyOf(entry))?.sorted !== sortedDigest(entry);
  }

  forget(entry: AgentEntry): void {
    const key = keyOf(entry);
    this.#missing.delete(key);
    this.#sent.delete(key);
  }

  forgetMissing(): AgentId[] {
    const gone = [...this.#missing].flatMap((key) => this.#sent.get(key)?.agentId ?? []);
    for (const key of this.#missing) this.#sent.delete(key);
    this.#missing.clear();
    return gone;
  }
}

/** Unique within a tenant, because none of these parts contains a slash. */
const keyOf = ({ agentId: { ownerProvider, account, workspace, agent } }: AgentEntry): string =>
  `${ownerProvider}/${account}/${workspace}/${agent.join('/')}`;

/** The service may send the fields of an entry in another order when it is looked up. */
const withSortedFields = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;

const sortedDigest = (entry: AgentEntry): number => digestOf(JSON.stringify(entry, withSortedFields));

/** A 53-bit hash. */
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
