import { type Kind, limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { heapBytesOf } from '../../lib/json.ts';
import { listGenerations } from '../../store/statements/resource-index.ts';

interface Entry<V> {
  readonly name: string;
  readonly generation: number;
  /** Undefined if it can't be read. */
  readonly value: V | undefined;
}

interface Whole<V> {
  readonly entries: ReadonlyMap<string, Entry<V>>;
  readonly list: readonly { readonly name: string; readonly value: V }[];
  readonly values: readonly V[];
  readonly bytes: number;
}

/** What is kept of all tenants together. A tenant with more than this is kept until another one is read. */
const keptBytes = 64 * 1024 * 1024;
const readsAtOnce = 32;

/**
 * All documents of one kind, per tenant, kept in memory. Each use reads the generations first, and then the documents
 * whose generation has changed. A document that was written in between is read once more at the next use.
 */
export class WholeKind<V> {
  readonly #database: pg.Pool;
  readonly #kind: Kind;
  readonly #read: (tenant: number, name: string) => Promise<V | undefined>;
  readonly #kept = new Map<number, Whole<V>>();
  #bytes = 0;

  constructor(database: pg.Pool, kind: Kind, read: (tenant: number, name: string) => Promise<V | undefined>) {
    this.#database = database;
    this.#kind = kind;
    this.#read = read;
  }

  async of(tenant: number): Promise<Whole<V>['list']> {
    return (await this.#whole(tenant)).list;
  }

  /** The same list for as long as nothing changes. */
  async valuesOf(tenant: number): Promise<readonly V[]> {
    return (await this.#whole(tenant)).values;
  }

  async #whole(tenant: number): Promise<Whole<V>> {
    const known = this.#kept.get(tenant);
    const rows = await this.#generations(tenant);
    const isSame = ({ name, generation }: (typeof rows)[number]): boolean =>
      known?.entries.get(name)?.generation === generation;
    if (known && known.entries.size === rows.length && rows.every(isSame)) return this.#keep(tenant, known);
    const entries = new Map<string, Entry<V>>();
    for (let from = 0; from < rows.length; from += readsAtOnce) {
      const read = rows.slice(from, from + readsAtOnce).map(async (row) => {
        const entry = isSame(row) ? known?.entries.get(row.name) : undefined;
        return entry ?? { ...row, value: await this.#read(tenant, row.name) };
      });
      for (const entry of await Promise.all(read)) entries.set(entry.name, entry);
    }
    const list = [...entries.values()].flatMap(({ name, value }) =>
      value === undefined ? [] : [{ name, value }],
    );
    const values = list.map(({ value }) => value);
    return this.#keep(tenant, { entries, list, values, bytes: heapBytesOf(list) });
  }

  async #generations(tenant: number): Promise<{ name: string; generation: number }[]> {
    const rows: { name: string; generation: number }[] = [];
    for (;;) {
      const after = rows.at(-1)?.name ?? '';
      const page = await listGenerations(this.#database, tenant, this.#kind, after, limits.pageSize);
      rows.push(...page);
      if (page.length < limits.pageSize) return rows;
    }
  }

  /** The least recently used ones are dropped. */
  #keep(tenant: number, whole: Whole<V>): Whole<V> {
    this.#drop(tenant);
    for (const other of this.#kept.keys()) {
      if (this.#bytes + whole.bytes <= keptBytes) break;
      this.#drop(other);
    }
    this.#kept.set(tenant, whole);
    this.#bytes += whole.bytes;
    return whole;
  }

  #drop(tenant: number): void {
    this.#bytes -= this.#kept.get(tenant)?.bytes ?? 0;
    this.#kept.delete(tenant);
  }
}
