import { type AgentEntry, compareInt64 } from '@muster/sdk';
import { Listeners } from '../../parts/model/listeners.ts';

/** Up to which entry a user of this browser has seen an agent. */
interface Mark {
  readonly sequence: string;
  /** A new agent may reuse the path of an old one; the old mark must not apply to it. */
  readonly createdAt: string;
  readonly atMs: number;
}

export type SeenState = Pick<AgentEntry, 'sequence' | 'createdAt'>;

const prefix = 'muster.seen ';
const pattern = /^(\d{1,19}) (\d{1,16}) (\S{1,40})$/;

/**
 * Which agents were seen in this browser. Each mark is its own storage item, under the path of the agent's page, which
 * includes the tenant. So two tabs that mark different agents never overwrite each other, and an unreadable item costs
 * only that mark.
 */
export class SeenAgents {
  readonly #storage: Storage;
  readonly #maxMarks: number;
  /** Oldest first. */
  #marks = new Map<string, Mark>();
  readonly #listeners = new Listeners();
  readonly subscribe = this.#listeners.subscribe;

  constructor(storage: Storage, maxMarks = 20_000) {
    this.#storage = storage;
    this.#maxMarks = maxMarks;
    this.#load();
  }

  isSeen(page: string, { sequence, createdAt }: SeenState): boolean {
    const mark = this.#marks.get(page);
    return mark?.createdAt === createdAt && compareInt64(mark.sequence, sequence) >= 0;
  }

  mark(agents: readonly (readonly [page: string, SeenState])[]): void {
    const atMs = Date.now();
    const unseen = agents.filter(([page, agent]) => !this.isSeen(page, agent));
    for (const [page, { sequence, createdAt }] of unseen) {
      this.#put(page, { sequence, createdAt, atMs });
      this.#write(page, `${sequence} ${atMs} ${createdAt}`);
    }
    this.#removeOldest();
    if (unseen.length > 0) this.#listeners.notify();
  }

  unmark(page: string): void {
    if (!this.#marks.delete(page)) return;
    this.#storage.removeItem(prefix + page);
    this.#listeners.notify();
  }

  /** Applies a change that another tab made to the storage. The key is null when it cleared the storage. */
  applyStorageEvent(key: string | null, value: string | null): void {
    if (key === null) this.#load();
    else if (key.startsWith(prefix)) {
      const page = key.slice(prefix.length);
      const mark = parseMark(value);
      if (mark) this.#put(page, mark);
      else this.#marks.delete(page);
    } else return;
    this.#listeners.notify();
  }

  #load(): void {
    const keys = Array.from({ length: this.#storage.length }, (_, at) => this.#storage.key(at) ?? '');
    const found: [string, Mark][] = [];
    for (const key of keys) {
      if (!key.startsWith(prefix)) continue;
      const mark = parseMark(this.#storage.getItem(key));
      if (mark) found.push([key.slice(prefix.length), mark]);
      else this.#storage.removeItem(key);
    }
    this.#marks = new Map(found.sort(([, a], [, b]) => a.atMs - b.atMs));
    this.#removeOldest();
  }

  #put(page: string, mark: Mark): void {
    this.#marks.delete(page);
    this.#marks.set(page, mark);
  }

  /** If the storage is full or forbidden, the marks last until the page is closed. */
  #write(page: string, value: string): void {
    try {
      this.#storage.setItem(prefix + page, value);
    } catch {}
  }

  #removeOldest(): void {
    for (const page of this.#marks.keys()) {
      if (this.#marks.size <= this.#maxMarks) return;
      this.#marks.delete(page);
      this.#storage.removeItem(prefix + page);
    }
  }
}

function parseMark(value: string | null): Mark | undefined {
  const [, sequence, at, createdAt] = pattern.exec(value ?? '') ?? [];
  return sequence && at && createdAt ? { sequence, atMs: Number(at), createdAt } : undefined;
}
