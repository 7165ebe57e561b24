import { limits } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

/**
 * Stores a code, and deletes those of the tenant that have expired or are too many, oldest first. No row: the key is
 * gone.
 */
export const insertSignInCode = statement<
  [tenant: number, keyId: string, hash: Buffer, minutes: number],
  { expires_at: string }
>(
  'insert-sign-in-code',
  `WITH valid AS (
     SELECT c.hash, c.key_id, row_number() OVER (ORDER BY c.created_at DESC, c.hash) AS of_tenant,
       row_number() OVER (PARTITION BY c.key_id ORDER BY c.created_at DESC, c.hash) AS of_key
     FROM sign_in_codes c WHERE c.tenant = $1 AND c.expires_at > now()
   ),
   deleted AS (
     DELETE FROM sign_in_codes WHERE tenant = $1 AND hash NOT IN (
       SELECT v.hash FROM valid v
       WHERE v.of_tenant < ${limits.signInCodesPerTenant}
         AND (v.key_id <> $2 OR v.of_key < ${limits.signInCodesPerKey}))
   )
   INSERT INTO sign_in_codes (tenant, hash, key_id, created_at, expires_at)
   SELECT k.tenant, $3, k.key_id, clock_timestamp(), now() + make_interval(mins => $4)
   FROM keys k WHERE k.tenant = $1 AND k.key_id = $2
   RETURNING expires_at`,
);

export const readSignInCode = statement<[hash: Buffer], { key_id: string }>(
  'read-sign-in-code',
  'SELECT key_id FROM sign_in_codes WHERE hash = $1 AND expires_at > now()',
);

/** Of several that take the same code, one gets a row. */
export const takeSignInCode = statement<[hash: Buffer], { key_id: string }>(
  'take-sign-in-code',
  'DELETE FROM sign_in_codes WHERE hash = $1 AND expires_at > now() RETURNING key_id',
);

export const deleteOldSignInCodes = statement<[], never>(
  'delete-old-sign-in-codes',
  'DELETE FROM sign_in_codes WHERE expires_at < now()',
);
