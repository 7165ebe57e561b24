import { createHmac, randomBytes } from 'node:crypto';
import type { Tenant } from '@muster/sdk/contract';
import { seal, unseal } from '../../lib/sealing.ts';
import type { ServiceSecret, ServiceSecrets } from '../../lib/service-secret.ts';

/** As stored. */
export interface SealedValue {
  readonly sealed: Buffer;
  /** The service secret that it is sealed with. */
  readonly secretId: string;
}

/** A value is bound to its tenant by name, not by number: it moves with the tenant. */
export interface SecretPlace {
  readonly tenant: Tenant;
  readonly name: string;
}

interface Content {
  /** The same for all values of a secret, whatever the service secret is, so that equal values have equal fingerprints. */
  readonly fingerprintKey: Buffer;
  readonly value: string;
}

const fingerprintKeyBytes = 32;
const fingerprintLength = 16;

/**
 * The values of secrets. What is sealed begins with a random key: a fingerprint is an HMAC with that key, so nobody who
 * can read fingerprints, or the database, can find a short value by trying.
 */
export function sealValue(
  secrets: ServiceSecrets,
  place: SecretPlace,
  value: string,
  before: SealedValue | null,
): SealedValue & { readonly fingerprint: string } {
  const { fingerprintKey } = (before && contentOf(secrets, place, before)) ?? {
    fingerprintKey: randomBytes(fingerprintKeyBytes),
  };
  return {
    ...sealContent(secrets, place, { fingerprintKey, value }),
    fingerprint: createHmac('sha256', fingerprintKey).update(value).digest('hex').slice(0, fingerprintLength),
  };
}

/** Null if this service does not have the secret with which it is sealed. */
export const unsealValue = (
  secrets: ServiceSecrets,
  place: SecretPlace,
  stored: SealedValue,
): string | null => contentOf(secrets, place, stored)?.value ?? null;

/** The same content, sealed with the current secret; null if it can't be opened. */
export function sealedAgain(
  secrets: ServiceSecrets,
  place: SecretPlace,
  stored: SealedValue,
): SealedValue | null {
  const content = contentOf(secrets, place, stored);
  return content && sealContent(secrets, place, content);
}

const sealContent = (
  { current }: ServiceSecrets,
  place: SecretPlace,
  { fingerprintKey, value }: Content,
): SealedValue => ({
  sealed: seal(keyOf(current), contextOf(place), Buffer.concat([fingerprintKey, Buffer.from(value)])),
  secretId: current.id,
});

function contentOf(
  secrets: ServiceSecrets,
  place: SecretPlace,
  { sealed, secretId }: SealedValue,
): Content | null {
  const secret = secrets.find(secretId);
  const bytes = secret ? unseal(keyOf(secret), contextOf(place), sealed) : null;
  return (
    bytes && {
      fingerprintKey: bytes.subarray(0, fingerprintKeyBytes),
      value: bytes.subarray(fingerprintKeyBytes).toString(),
    }
  );
}

const keyOf = (secret: ServiceSecret): Buffer => secret.keyFor('secret-value');

const contextOf = ({ tenant, name }: SecretPlace): string =>
  JSON.stringify(['secret', tenant.provider, tenant.org, name]);
