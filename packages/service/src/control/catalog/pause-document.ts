import { type Kind, limits } from '@muster/sdk/contract';
import { isRefusal } from '../../domain/refusal.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import type { Catalog } from './catalog.ts';
import { encodePayload } from './document.ts';

export interface PauseOptions {
  readonly catalog: Catalog;
  readonly tenants: Tenants;
}

/** The service itself, as the history of a document names it. */
const service: Omit<Principal, 'tenant'> = {
  ...{ ownerProvider: 'PROVIDER_SERVICE_PROFILE', account: 'muster', role: 'admin', keyId: '' },
  ...{ expiresAt: null, pool: '', token: '', agent: null },
};

/** Pauses a document, and says in it why. One that is paused or gone stays so. */
export async function pauseDocument(
  { catalog, tenants }: PauseOptions,
  tenant: number,
  kind: Kind,
  name: string,
  reason: string,
): Promise<void> {
  const document = await catalog.document(tenant, kind, name);
  if (!document || document.paused === true) return;
  const tenantName = await tenants.name(tenant);
  const caller = { ...service, tenant: { id: tenant, ...tenantName } };
  const written = await catalog.write(
    caller,
    { kind, name },
    {
      ref: { tenant: tenantName },
      payload: encodePayload({ paused: true, pausedReason: reason.slice(0, limits.pausedReasonLength) }),
      updateMask: 'paused,pausedReason',
      justification: reason.slice(0, limits.justificationLength),
    },
  );
  if (isRefusal(written)) throw new Error(`${kind}/${name} can't be paused: ${written.message}`);
}
