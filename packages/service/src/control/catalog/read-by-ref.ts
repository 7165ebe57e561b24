import type { Kind } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Statement } from '../../store/connection.ts';
import { shareQueries } from '../batches/shared-queries.ts';

export interface StoredRef {
  readonly tenant: number;
  readonly kind: Kind;
  readonly name: string;
}

/** Reads what belongs to a resource, for many callers with one query. */
export const readByRef = <Row extends { readonly n: number }, V>(
  database: pg.Pool,
  read: Statement<[tenants: number[], kinds: string[], names: string[]], Row>,
  make: (ref: StoredRef, row: Row | undefined) => V,
): ((ref: StoredRef) => Promise<V>) =>
  shareQueries(
    async (refs) => {
      const rows = await read(
        database,
        refs.map((r) => r.tenant),
        refs.map((r) => r.kind),
        refs.map((r) => r.name),
      );
      const found = new Map(rows.map((row) => [row.n - 1, row]));
      return refs.map((ref, i) => make(ref, found.get(i)));
    },
    { idOf: ({ tenant, kind, name }) => `${tenant}/${kind}/${name}` },
  );
