import type { Provider } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

/** What resources keep beside their documents: sealed values of secrets, and nonces of signing keys. */
export interface SealedRow {
  sealed: Buffer | null;
  nonce: string | null;
  secret_id: string | null;
}

/** For readers that share a query. */
export const readSealed = statement<
  [tenants: number[], kinds: string[], names: string[]],
  SealedRow & { n: number }
>(
  'read-sealed',
  `SELECT q.n::int, r.sealed, r.nonce, r.secret_id
   FROM unnest($1::int[], $2::text[], $3::text[]) WITH ORDINALITY AS q (tenant, kind, name, n)
   JOIN resources r ON r.tenant = q.tenant AND r.kind = q.kind AND r.name = q.name
   WHERE r.document IS NOT NULL`,
);

/** Values sealed with this secret, in order; also of closed tenants, which may be opened again. */
export const findSealedBefore = statement<
  [secretId: string, afterTenant: number, afterName: string, limit: number],
  { tenant: number; provider: Provider; org: string; name: string; sealed: Buffer }
>(
  'find-sealed-before',
  `SELECT r.tenant, t.provider, t.org, r.name, r.sealed FROM resources r JOIN tenants t ON t.id = r.tenant
   WHERE r.kind = 'secret' AND r.sealed IS NOT NULL AND r.secret_id = $1 AND (r.tenant, r.name) > ($2, $3)
   ORDER BY r.tenant, r.name LIMIT $4`,
);

/** Unless the value was written meanwhile. */
export const resealValue = statement<
  [tenant: number, name: string, before: Buffer, sealed: Buffer, secretId: string],
  never
>(
  'reseal-value',
  `UPDATE resources SET sealed = $4, secret_id = $5
   WHERE tenant = $1 AND kind = 'secret' AND name = $2 AND sealed = $3`,
);

/** Keys that were made before the secret was recorded. */
export const nameSecretOfNonces = statement<[secretId: string], never>(
  'name-secret-of-nonces',
  `UPDATE resources SET secret_id = $1
   WHERE kind = 'integration' AND nonce IS NOT NULL AND secret_id IS NULL`,
);

/**
 * Resources that do not depend on the current service secret. One without a record of its secret may depend on the previous
 * one, if there is one. Of a closed tenant, only those that will be sealed again: nobody can write the others.
 */
export const findOutdated = statement<
  [tenant: number, isOperator: boolean, current: string, previous: string | null, limit: number],
  { provider: Provider; org: string; kind: string; name: string; secret_id: string | null; total: number }
>(
  'find-outdated-secrets',
  `SELECT t.provider, t.org, r.kind, r.name, r.secret_id, count(*) OVER ()::int AS total FROM tenants t JOIN resources r ON r.tenant = t.id
   WHERE (t.id = $1 OR $2) AND r.kind IN ('secret', 'integration', 'trigger', 'notification') AND r.document IS NOT NULL
     AND (r.sealed IS NOT NULL OR r.nonce IS NOT NULL)
     AND r.secret_id IS DISTINCT FROM $3 AND ($4::text IS NOT NULL OR r.secret_id IS NOT NULL)
     AND (t.closed_at IS NULL OR (r.kind = 'secret' AND r.secret_id = $4))
   ORDER BY t.id, r.kind, r.name LIMIT $5`,
);

type EarlierRow = { name: string; sealed: Buffer; secret_id: string };

/** Keeps a value, and a limited number of the same secret. */
export const keepEarlierValue = statement<
  [tenant: number, name: string, generation: number, sealed: Buffer, secretId: string, most: number],
  never
>(
  'keep-earlier-value',
  `WITH kept AS (
     INSERT INTO earlier_values (tenant, name, generation, sealed, secret_id) VALUES ($1, $2, $3, $4, $5)
   )
   DELETE FROM earlier_values WHERE tenant = $1 AND name = $2 AND generation NOT IN (
     SELECT e.generation FROM earlier_values e WHERE e.tenant = $1 AND e.name = $2
     ORDER BY e.generation DESC LIMIT $6 - 1
   )`,
);

export const readEarlierValues = statement<
  [tenant: number, names: readonly string[] | null, days: number, limit: number],
  EarlierRow
>(
  'read-earlier-values',
  `SELECT name, sealed, secret_id FROM earlier_values
   WHERE tenant = $1 AND ($2::text[] IS NULL OR name = ANY ($2)) AND replaced_at > now() - $3::float8 * interval '1 day'
   ORDER BY replaced_at DESC LIMIT $4`,
);

export const deleteOldEarlierValues = statement<[days: number], never>(
  'delete-old-earlier-values',
  "DELETE FROM earlier_values WHERE replaced_at < now() - $1::float8 * interval '1 day'",
);
