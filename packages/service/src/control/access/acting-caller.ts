import { providerByName, type Role } from '@muster/sdk/contract';
import type { Connection } from '../../store/connection.ts';
import { rolesOfAccount } from '../../store/statements/keys.ts';
import type { Principal } from './principal.ts';

/** The account may no longer start work; the text says why. */
export interface MayNotAct {
  readonly mayNotAct: string;
}

export const mayNotAct = (caller: Principal | MayNotAct): caller is MayNotAct => 'mayNotAct' in caller;

/** An operator acts as an admin: what it wrote into a tenant reaches only that tenant. */
const actingRoles: readonly Role[] = ['operator', 'admin', 'member'];

/**
 * The caller as which a document of the catalog acts: the account that created it, as `createdBy` names it, with the
 * highest role that its keys have now. A later change of the document does not change who created it. `keyId` is for
 * replies that are stored: it must be no key's, such as `schedule/nightly`.
 */
export async function actingCaller(
  connection: Connection,
  tenant: number,
  createdBy: string,
  keyId: string,
): Promise<Principal | MayNotAct> {
  const slash = createdBy.indexOf('/');
  const ownerProvider = providerByName(createdBy.slice(0, Math.max(slash, 0)));
  const account = createdBy.slice(slash + 1);
  if (!ownerProvider) return { mayNotAct: `the account that created it is not known: "${createdBy}"` };
  const rows = await rolesOfAccount(connection, tenant, ownerProvider, account);
  const role = actingRoles.find((one) => rows.some((row) => row.role === one));
  const [row] = rows;
  if (!row) return { mayNotAct: `the account ${createdBy} has no valid key in this tenant` };
  if (row.disabled) return { mayNotAct: `the account ${createdBy} is disabled` };
  if (!role)
    return { mayNotAct: `no valid key of the account ${createdBy} has the role member or a higher one` };
  return {
    tenant: { id: tenant, provider: row.provider, org: row.org },
    ...{ ownerProvider, account, keyId },
    role: role === 'operator' ? 'admin' : role,
    ...{ expiresAt: null, pool: '', token: '', agent: null },
  };
}
