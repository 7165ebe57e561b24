import { type AgentEntry, type AgentId, compareInt64, type MusterClient } from '@muster/sdk';
import { reportError } from '../session/session.ts';

/** What the person has seen of an agent, and whether it is pinned. */
export interface Mark {
  readonly agentId: AgentId;
  readonly seen?: string;
  readonly pinned?: boolean;
}

/** An agent that writes entries while its page is visible is marked again and again. */
const pauseMs = 2_000;
const marksPerRequest = 200;

/**
 * Marks on their way to the service, which keeps them for all browsers of the person. The page shows them immediately:
 * entries that arrive meanwhile have the earlier marks.
 */
export class Marks {
  readonly #client: Pick<MusterClient, 'markAgents'>;
  /** By the path of the agent's page. */
  readonly #pending = new Map<string, Mark>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isSending = false;
  #sentMs = Number.NEGATIVE_INFINITY;

  constructor(client: Pick<MusterClient, 'markAgents'>) {
    this.#client = client;
  }

  put(page: string, mark: Mark): void {
    this.#pending.set(page, { ...this.#pending.get(page), ...mark });
    this.#timer ??= setTimeout(this.flush, Math.max(0, this.#sentMs + pauseMs - Date.now()));
  }

  /** The entry with the marks that the service may not have yet. */
  applied(page: string, entry: AgentEntry): AgentEntry {
    const mark = this.#pending.get(page);
    if (!mark) return entry;
    const { seen = entry.seen, pinned = entry.pinned } = mark;
    const isOlder = seen !== '0' && compareInt64(seen, entry.seen) < 0;
    return { ...entry, seen: isOlder ? entry.seen : seen, pinned };
  }

  readonly flush = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#isSending && this.#pending.size > 0) void this.#send();
  };

  async #send(): Promise<void> {
    this.#isSending = true;
    this.#sentMs = Date.now();
    const sent = [...this.#pending].slice(0, marksPerRequest);
    try {
      await this.#client.markAgents(sent.map(([, mark]) => mark));
    } catch (error) {
      reportError(error);
    }
    for (const [page, mark] of sent) if (this.#pending.get(page) === mark) this.#pending.delete(page);
    this.#isSending = false;
    if (sent.length === marksPerRequest) this.flush();
    else if (this.#pending.size > 0) this.#timer ??= setTimeout(this.flush, pauseMs);
  }
}

/** Earlier versions stored marks in the browser. */
const storedPrefix = 'muster.seen ';
const storedForm = /^(\d{1,19}) \d{1,16} (\S{1,40})$/;

/** Removes them from the storage and returns those of listed agents. */
export function takeStoredMarks(
  storage: Storage,
  agentOf: (page: string) => AgentEntry | undefined,
): (readonly [page: string, Mark])[] {
  const keys = Array.from({ length: storage.length }, (_, at) => storage.key(at) ?? '');
  return keys
    .filter((key) => key.startsWith(storedPrefix))
    .flatMap((key) => {
      const page = key.slice(storedPrefix.length);
      const entry = agentOf(page);
      const [, seen, createdAt] = storedForm.exec(storage.getItem(key) ?? '') ?? [];
      storage.removeItem(key);
      return entry && seen && createdAt === entry.createdAt ? [[page, { agentId: entry.agentId, seen }]] : [];
    });
}
