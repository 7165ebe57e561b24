/**
 * How a migration runs. `transactional`: in one transaction with the row that records it, and only if it gets its locks
 * quickly. `concurrent`: one CREATE or DROP INDEX CONCURRENTLY, which can't be in a transaction.
 */
const kinds = ['transactional', 'concurrent'] as const;

export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
  readonly kind: (typeof kinds)[number];
  /** After this migration, builds whose newest migration has at least this number still work. */
  readonly compatibleSince: number;
}

export interface AppliedMigration {
  readonly number: number;
  readonly name: string;
  /** Null in a table from before this was recorded. */
  readonly compatibleSince: number | null;
}

/** Reads a file of the folder `migrations`. Its first lines are comments, such as `-- kind: concurrent`. */
export function migrationIn(name: string, sql: string): Migration {
  const number = Number(name.slice(0, 4));
  const header = /^(?:--.*\n)*/.exec(sql)?.[0] ?? '';
  const valueIn = (key: string): string | undefined =>
    new RegExp(`^-- ${key}: *(.*?) *$`, 'm').exec(header)?.[1];
  const kind = kinds.find((known) => known === (valueIn('kind') ?? 'transactional'));
  if (!kind) throw new Error(`${name}: "kind" is none of ${kinds.join(', ')}`);
  const compatibleSince = Number(valueIn('compatible since') ?? number);
  if (!Number.isInteger(compatibleSince) || compatibleSince < 1 || compatibleSince > number)
    throw new Error(`${name}: "compatible since" is not the number of this or an earlier migration`);
  const migration = { number, name, sql, kind, compatibleSince };
  if (kind === 'concurrent') newIndexOf(migration);
  return migration;
}

const createStatement =
  /^CREATE( UNIQUE)? INDEX CONCURRENTLY ([a-z_][a-z0-9_]*) ON ([a-z_][a-z0-9_]*) ([^;]*?) ?;?$/;
const dropStatement = /^DROP INDEX CONCURRENTLY IF EXISTS [a-z_][a-z0-9_]* ?;?$/;

/** The index that a concurrent migration creates; null if it drops one. */
export interface NewIndex {
  readonly name: string;
  readonly table: string;
  /** Builds it on a table without blocking writes. */
  readonly sql: (name: string, table: string) => string;
  /** Declares it for the partitions of a table. */
  readonly declaration: string;
}

export function newIndexOf({ name: file, sql }: Pick<Migration, 'name' | 'sql'>): NewIndex | null {
  const statement = sql.replaceAll(/--.*$/gm, '').replaceAll(/\s+/g, ' ').trim();
  if (dropStatement.test(statement)) return null;
  const [, unique = '', name, table, columns] = createStatement.exec(statement) ?? [];
  if (!name || !table || !columns)
    throw new Error(
      `${file}: a concurrent migration is one CREATE INDEX CONCURRENTLY <name> ON <table> … or DROP INDEX CONCURRENTLY IF EXISTS <name>`,
    );
  return {
    name,
    table,
    sql: (own, place) => `CREATE${unique} INDEX CONCURRENTLY ${own} ON ${place} ${columns}`,
    declaration: `CREATE${unique} INDEX IF NOT EXISTS ${name} ON ONLY ${table} ${columns}`,
  };
}

/** What has to be applied, in order; or why this build can't use the schema, and what to do. */
export type MigrationPlan = { readonly pending: readonly Migration[] } | { readonly refusal: string };

export function planMigrations(
  known: readonly Migration[],
  applied: readonly AppliedMigration[],
): MigrationPlan {
  const newestKnown = Math.max(0, ...known.map(({ number }) => number));
  const newest = applied.reduce<AppliedMigration | null>(
    (last, next) => (last && last.number > next.number ? last : next),
    null,
  );
  const unknown = applied.filter(({ number }) => number > newestKnown);
  const needed = Math.max(0, ...unknown.map(({ number, compatibleSince }) => compatibleSince ?? number));
  if (newest && needed > newestKnown)
    return {
      refusal:
        `The schema of the database is too new: it is at migration ${newest.number} (${newest.name}), which works with builds that have ` +
        `migration ${needed}; this build ends at ${newestKnown}. Start a newer version of Muster, or restore a backup from before the upgrade.`,
    };
  const done = new Set(applied.map(({ number }) => number));
  return { pending: known.filter(({ number }) => !done.has(number)) };
}

/** For a node that may not migrate. */
export const tooOld = (pending: readonly Migration[]): string =>
  `The schema of the database is too old: this build also needs ${pending.map(({ name }) => name).join(', ')}. Run muster migrate with this build, or start it without MUSTER_MIGRATE=off.`;
