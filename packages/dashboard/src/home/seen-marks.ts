import type { AgentEntry } from '@muster/sdk';
import { compareInt64 } from '@muster/sdk';

/** Up to where somebody at this browser has looked at an agent. */
interface Mark {
  readonly sequence: string;
  /** When the agent began: an address can be used again, and a new agent there has not been looked at. */
  readonly createdAt: string;
  readonly atMs: number;
}

export type Looked = Pick<AgentEntry, 'sequence' | 'createdAt'>;

const prefix = 'muster.seen ';
const pattern = /^(\d{1,19}) (\d{1,16}) (\S{1,40})$/;

/**
 * Each mark is an item of its own in the storage, under the address of the agent's page, which names its tenant too. So
 * two tabs that mark different agents never overwrite each other, and what cannot be read costs one mark and no more.
 */
export class SeenMarks {
  readonly #storage: Storage;
  readonly #most: number;
  /** The oldest first. */
  #marks = new Map<string, Mark>();
  readonly #listeners = new Set<() => void>();

  constructor(storage: Storage, most = 20_000) {
    this.#storage = storage;
    this.#most = most;
    this.#load();
  }

  isSeen(page: string, { sequence, createdAt }: Looked): boolean {
    const mark = this.#marks.get(page);
    return mark?.createdAt === createdAt && compareInt64(mark.sequence, sequence) >= 0;
  }

  mark(looked: readonly (readonly [page: string, Looked])[]): void {
    const atMs = Date.now();
    const news = looked.filter(([page, agent]) => !this.isSeen(page, agent));
    for (const [page, { sequence, createdAt }] of news) {
      this.#put(page, { sequence, createdAt, atMs });
      this.#write(page, `${sequence} ${atMs} ${createdAt}`);
    }
    this.#dropOldest();
    if (news.length > 0) this.#tell();
  }

  forget(page: string): void {
    if (!this.#marks.delete(page)) return;
    this.#storage.removeItem(prefix + page);
    this.#tell();
  }

  /** What another tab did to the storage; without a key everything is different. */
  learn(key: string | null, value: string | null): void {
    if (key === null) this.#load();
    else if (key.startsWith(prefix)) {
      const page = key.slice(prefix.length);
      const mark = markOf(value);
      if (mark) this.#put(page, mark);
      else this.#marks.delete(page);
    } else return;
    this.#tell();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #load(): void {
    const keys = Array.from({ length: this.#storage.length }, (_, at) => this.#storage.key(at) ?? '');
    const found: [string, Mark][] = [];
    for (const key of keys) {
      if (!key.startsWith(prefix)) continue;
      const mark = markOf(this.#storage.getItem(key));
      if (mark) found.push([key.slice(prefix.length), mark]);
      else this.#storage.removeItem(key);
    }
    this.#marks = new Map(found.sort(([, a], [, b]) => a.atMs - b.atMs));
    this.#dropOldest();
  }

  #put(page: string, mark: Mark): void {
    this.#marks.delete(page);
    this.#marks.set(page, mark);
  }

  /** A storage that is full or forbidden keeps nothing; the marks then last as long as the page. */
  #write(page: string, value: string): void {
    try {
      this.#storage.setItem(prefix + page, value);
    } catch {}
  }

  #dropOldest(): void {
    for (const page of this.#marks.keys()) {
      if (this.#marks.size <= this.#most) return;
      this.#marks.delete(page);
      this.#storage.removeItem(prefix + page);
    }
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

function markOf(value: string | null): Mark | undefined {
  const [, sequence, at, createdAt] = pattern.exec(value ?? '') ?? [];
  return sequence && at && createdAt ? { sequence, atMs: Number(at), createdAt } : undefined;
}
