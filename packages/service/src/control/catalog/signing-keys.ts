import { randomBytes } from 'node:crypto';
import { type Kind, shownOnceFieldOf, type Tenant } from '@muster/sdk/contract';
import type { ServiceSecret, ServiceSecrets } from '../../lib/service-secret.ts';
import type { SealedRow } from '../../store/statements/secrets.ts';
import { nothingKept, type Saved, type WriteTransaction } from './kinds/rules.ts';

/** A signing key is not stored: it is derived from the service secret and a stored nonce. `rotate` makes a new nonce. */
export function saveSigningKey({
  secrets: { current },
  write: { kind, tenant, name, rotate },
  row: { nonce, secret_id },
}: WriteTransaction): Required<Pick<Saved, 'revealed' | 'kept'>> {
  if (nonce && !rotate) return { revealed: {}, kept: { ...nothingKept, nonce, secret_id } };
  const fresh = randomBytes(24).toString('base64url');
  return {
    revealed: { [shownOnceFieldOf(kind) ?? '']: signingKeyOf(current, kind, tenant, name, fresh) },
    kept: { ...nothingKept, nonce: fresh, secret_id: current.id },
  };
}

/** That of an integration is any text; all others have the form of Standard Webhooks. */
function signingKeyOf(
  secret: ServiceSecret,
  kind: Kind,
  tenant: Tenant,
  name: string,
  nonce: string,
): string {
  const key = secret.hmac(kind, tenant.provider, tenant.org, name, nonce);
  return kind === 'integration' ? key : `whsec_${Buffer.from(key, 'base64url').toString('base64')}`;
}

/** The keys of a resource. Several only if it is not recorded which service secret made the key. */
export function signingKeys(
  secrets: ServiceSecrets,
  kind: Kind,
  tenant: Tenant,
  name: string,
  { nonce, secret_id }: SealedRow,
): string[] {
  if (!nonce) return [];
  const makers = secret_id === null ? secrets.all : secrets.all.filter(({ id }) => id === secret_id);
  return makers.map((secret) => signingKeyOf(secret, kind, tenant, name, nonce));
}
