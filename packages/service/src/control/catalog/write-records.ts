import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { clearOldHistory, insertHistory, type LockedResource } from '../../store/statements/resources.ts';
import { nameOf, type Principal } from '../access/principal.ts';
import type { CheckedChange, CheckedWrite } from './check-write.ts';
import type { Document } from './document.ts';

/** The audit record of a write, with the document; documents of old generations are cleared. */
export async function recordWrite(
  client: pg.PoolClient,
  caller: Principal,
  change: CheckedChange & Partial<Pick<CheckedWrite, 'updateMask'>>,
  tenant: number,
  { generation, now }: LockedResource,
  action: 'WRITE' | 'DELETE',
  document: Document | null,
  text: string | null = null,
): Promise<void> {
  const row = {
    tenant,
    kind: change.kind,
    name: change.name,
    generation: generation + 1,
    at: now,
    by: nameOf(caller),
    key_id: caller.keyId,
    action,
    update_mask: change.updateMask ?? '',
    justification: change.justification,
    document,
    text,
  };
  await insertHistory(client, JSON.stringify([row]));
  await clearOldHistory(client, tenant, change.kind, change.name, row.generation - limits.historyDocuments);
}
