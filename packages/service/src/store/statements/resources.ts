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

export type LockedResource = ResourceRow &
  SealedRow & { now: string; is_closed: boolean; has_text: boolean; text_bytes: number };

/** A node of the previous version does not write texts: one of an earlier generation is not of this document. */
const currentText = 'CASE WHEN text_generation = generation THEN text END';

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
     ${currentText} IS NOT NULL AS has_text, coalesce(octet_length(${currentText}), 0) AS text_bytes,
     (SELECT closed_at IS NOT NULL FROM tenants WHERE id = $1) AS is_closed
   FROM resources WHERE tenant = $1 AND kind = $2 AND name = $3 FOR UPDATE`,
);

export const readResource = statement<Ref, ResourceRow & { text: string | null }>(
  'read-resource',
  `SELECT kind, name, generation, document, ${currentText} AS text
   FROM resources WHERE tenant = $1 AND kind = $2 AND name = $3`,
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

/** Which of these resources exist, counted from 1. */
export const existingResources = statement<[tenant: number, kinds: string[], names: string[]], { n: number }>(
  'existing-resources',
  `SELECT q.n::int FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS q (kind, name, n)
   JOIN resources r ON r.tenant = $1 AND r.kind = q.kind AND r.name = q.name AND r.document IS NOT NULL`,
);

export const resourceNames = statement<[tenant: number, kind: string, limit: number], { name: string }>(
  'resource-names',
  `SELECT name FROM resources WHERE tenant = $1 AND kind = $2 AND document IS NOT NULL
   ORDER BY name LIMIT $3`,
);

export const writeResource = statement<
  [
    ...Ref,
    generation: number,
    document: string,
    nonce: string | null,
    sealed: Buffer | null,
    secretId: string | null,
    text: string | null,
  ],
  never
>(
  'write-resource',
  `UPDATE resources SET generation = $4, document = $5::json, nonce = $6, sealed = $7, secret_id = $8,
     text = $9, text_generation = $4
   WHERE tenant = $1 AND kind = $2 AND name = $3`,
);

/** The row stays, so that no generation names two documents. */
export const clearResource = statement<[...Ref, generation: number], never>(
  'clear-resource',
  `UPDATE resources SET generation = $4, document = NULL, text = NULL, nonce = NULL, sealed = NULL, secret_id = NULL
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

export interface PersonaUse {
  /** The account that created the persona which had this name last; null if it is not on record. */
  last_creator: string | null;
  /** A document that names the persona, such as `workspace "web"`. */
  named_by: string | null;
}

/** Whose a persona of this name was, and what uses the name. Both parts are index lookups. */
export const readPersonaUse = statement<[tenant: number, name: string], PersonaUse>(
  'read-persona-use',
  `SELECT
     (SELECT h.document ->> 'createdBy' FROM resource_history h
      WHERE h.tenant = $1 AND h.kind = 'persona' AND h.name = $2 AND h.action = 'WRITE'
      ORDER BY h.generation DESC LIMIT 1) AS last_creator,
     (SELECT format('%s "%s"', r.kind, r.name) FROM resources r
      WHERE r.tenant = $1 AND r.kind IN ('workspace', 'integration') AND r.document IS NOT NULL
        AND left(r.document ->> 'persona', 128) = $2
      LIMIT 1) AS named_by`,
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
  text: string | null;
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
  text: 'text',
} as const;

export const insertHistory = statement<[rows: string], never>(
  'insert-history',
  insertInto('resource_history', historyColumns),
);

/**
 * Deletes the documents of generations up to this one; who wrote them, when and why stays. Looks at few of them, because
 * each write calls this for the next one.
 */
export const clearOldHistory = statement<[...Ref, last: number], never>(
  'clear-old-history',
  `UPDATE resource_history SET document = NULL, text = NULL
   WHERE tenant = $1 AND kind = $2 AND name = $3 AND generation BETWEEN $4::bigint - 100 AND $4 AND document IS NOT NULL`,
);

export const readHistory = statement<[...Ref, before: number, limit: number], HistoryRow>(
  'read-history',
  `SELECT generation, at, by, key_id, action, update_mask, justification, document, text
   FROM resource_history
   WHERE tenant = $1 AND kind = $2 AND name = $3 AND generation < $4 ORDER BY generation DESC LIMIT $5`,
);
