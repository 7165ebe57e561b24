import { statement } from '../connection.ts';
import { insertInto } from '../tables.ts';
import type { SealedRow } from './secrets.ts';

export type Document = Record<string, unknown>;

export interface ResourceRow {
  kind: string;
  name: string;
  generation: number;
  document: Document | null;
}

export type LockedResource = ResourceRow & SealedRow & { now: string; is_closed: boolean };

type Ref = [tenant: number, kind: string, name: string];

/** Makes sure there is a row to lock: generation 0 without a document is "never written". */
export const reserveResource = statement<Ref, never>(
  'reserve-resource',
  'INSERT INTO resources (tenant, kind, name, generation) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING',
);

export const lockResource = statement<Ref, LockedResource>(
  'lock-resource',
  `SELECT kind, name, generation, document, nonce, sealed, secret_id,
     date_trunc('milliseconds', clock_timestamp()) AS now,
     (SELECT closed_at IS NOT NULL FROM tenants WHERE id = $1) AS is_closed
   FROM resources WHERE tenant = $1 AND kind = $2 AND name = $3 FOR UPDATE`,
);

export const readResource = statement<Ref, ResourceRow>(
  'read-resource',
  'SELECT kind, name, generation, document FROM resources WHERE tenant = $1 AND kind = $2 AND name = $3',
);

/** For readers that share a query. */
export const readResources = statement<
  [tenants: number[], kinds: string[], names: string[]],
  { n: number; generation: number; document: Document | null }
>(
  'read-resources',
  `SELECT q.n::int, r.generation, r.document
   FROM unnest($1::int[], $2::text[], $3::text[]) WITH ORDINALITY AS q (tenant, kind, name, n)
   JOIN resources r ON r.tenant = q.tenant AND r.kind = q.kind AND r.name = q.name`,
);

export const writeResource = statement<
  [
    ...Ref,
    generation: number,
    document: string,
    nonce: string | null,
    sealed: Buffer | null,
    secretId: string | null,
  ],
  never
>(
  'write-resource',
  `UPDATE resources SET generation = $4, document = $5::json, nonce = $6, sealed = $7, secret_id = $8
   WHERE tenant = $1 AND kind = $2 AND name = $3`,
);

/** The row stays, so that no generation names two documents. */
export const clearResource = statement<[...Ref, generation: number], never>(
  'clear-resource',
  `UPDATE resources SET generation = $4, document = NULL, nonce = NULL, sealed = NULL, secret_id = NULL
   WHERE tenant = $1 AND kind = $2 AND name = $3`,
);

export const listResources = statement<
  [tenant: number, kind: string, after: string, limit: number],
  ResourceRow
>(
  'list-resources',
  `SELECT kind, name, generation, document FROM resources
   WHERE tenant = $1 AND kind = $2 AND name > $3 AND document IS NOT NULL ORDER BY name LIMIT $4`,
);

export interface HistoryRow {
  generation: number;
  at: string;
  by: string;
  key_id: string;
  action: 'WRITE' | 'DELETE';
  update_mask: string;
  justification: string;
  document: Document | null;
}

const historyColumns = {
  tenant: 'int',
  kind: 'text',
  name: 'text',
  generation: 'bigint',
  at: 'timestamptz',
  by: 'text',
  key_id: 'text',
  action: 'text',
  update_mask: 'text',
  justification: 'text',
  document: 'json',
} as const;

export const insertHistory = statement<[rows: string], never>(
  'insert-history',
  insertInto('resource_history', historyColumns),
);

export const readHistory = statement<[...Ref, before: number, limit: number], HistoryRow>(
  'read-history',
  `SELECT generation, at, by, key_id, action, update_mask, justification, document FROM resource_history
   WHERE tenant = $1 AND kind = $2 AND name = $3 AND generation < $4 ORDER BY generation DESC LIMIT $5`,
);
