import type pg from 'pg';
import { hashSecret, type KeyParts, mintKey } from '../../../lib/token.ts';
import { deleteKeys, findKeyOf, type NewKey, upsertKey } from '../../../store/statements/keys.ts';
import type { LockedResource } from '../../../store/statements/resources.ts';
import type { Document } from '../document.ts';
import type { Saved, WriteTransaction } from './rules.ts';

export type KeyOwner = Pick<NewKey, 'role' | 'owner_provider' | 'account' | 'pool' | 'agent'>;

/** Writes the key of a token or a share link, of which only a hash is stored. A new one is made if there is none, or on `rotate`. */
export async function saveKey(
  { connection, tenant, write, row, givenKey }: WriteTransaction,
  document: Document,
  owner: KeyOwner,
  reveal: (key: KeyParts) => Document,
): Promise<Saved> {
  const { kind, name, rotate } = write;
  const [existing] = await findKeyOf(connection, tenant, kind, name);
  const fresh = existing && !rotate ? null : (givenKey ?? mintKey());
  const keyId = fresh?.keyId ?? existing?.key_id ?? '';
  const hash = fresh ? hashSecret(fresh.secret) : (existing?.hash ?? Buffer.alloc(0));
  await deleteKeys(connection, tenant, kind, name, keyId);
  const key: NewKey = {
    tenant,
    key_id: keyId,
    hash: `\\x${hash.toString('hex')}`,
    kind,
    name,
    created: existing?.created ?? row.generation + 1,
    expires_at: (document.expiresAt as string | null | undefined) ?? null,
    ...owner,
  };
  await upsertKey(connection, JSON.stringify([key]));
  return { document: { ...document, keyId }, revealed: fresh ? reveal(fresh) : {} };
}

export async function deleteKey(
  connection: pg.PoolClient,
  tenant: number,
  { kind, name }: LockedResource,
): Promise<void> {
  await deleteKeys(connection, tenant, kind, name, '');
}
