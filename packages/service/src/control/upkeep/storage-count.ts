import type pg from 'pg';
import {
  type CountedRow,
  countAgents,
  countHistory,
  listStorageUse,
  saveStorageUse,
} from '../../store/statements/storage-use.ts';

/** A live agent may have 100,000 entries. */
const agentsPerStep = 20;
const recordsPerStep = 1_000;

interface Counted {
  readonly ownerProvider: string;
  readonly account: string;
  before: number;
  bytes: number;
}

/** Counts what the accounts of a tenant have stored, in steps. */
export class StorageCount {
  readonly #database: pg.Pool;
  readonly #tenant: number;
  readonly #accounts = new Map<string, Counted>();
  #lastAgent: string | null = '00000000-0000-0000-0000-000000000000';
  #lastRecord: readonly [kind: string, name: string, generation: number] | null = ['', '', 0];

  private constructor(database: pg.Pool, tenant: number) {
    this.#database = database;
    this.#tenant = tenant;
  }

  static async start(database: pg.Pool, tenant: number): Promise<StorageCount> {
    const count = new StorageCount(database, tenant);
    for (const row of await listStorageUse(database, tenant)) count.#of(row).before = row.bytes;
    return count;
  }

  get isDone(): boolean {
    return this.#lastAgent === null && this.#lastRecord === null;
  }

  async step(): Promise<void> {
    if (this.#lastAgent !== null) {
      const rows = await countAgents(this.#database, this.#tenant, this.#lastAgent, agentsPerStep);
      this.#add(rows);
      this.#lastAgent = rows.length < agentsPerStep ? null : (rows.at(-1)?.id ?? null);
    } else if (this.#lastRecord !== null) {
      const rows = await countHistory(this.#database, this.#tenant, ...this.#lastRecord, recordsPerStep);
      this.#add(rows);
      const last = rows.length < recordsPerStep ? undefined : rows.at(-1);
      this.#lastRecord = last ? [last.kind, last.name, last.generation] : null;
    }
  }

  async save(): Promise<void> {
    const all = [...this.#accounts.values()];
    await saveStorageUse(
      this.#database,
      this.#tenant,
      all.map(({ ownerProvider }) => ownerProvider),
      all.map(({ account }) => account),
      all.map(({ bytes }) => bytes),
      all.map(({ before }) => before),
    );
  }

  #add(rows: readonly CountedRow[]): void {
    for (const row of rows) this.#of(row).bytes += row.bytes;
  }

  #of({ owner_provider: ownerProvider, account }: Omit<CountedRow, 'bytes'>): Counted {
    const id = `${ownerProvider}/${account}`;
    const known = this.#accounts.get(id) ?? { ownerProvider, account, before: 0, bytes: 0 };
    this.#accounts.set(id, known);
    return known;
  }
}
