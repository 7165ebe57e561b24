import { type Kind, limits, type Service } from '@muster/sdk/contract';
import type pg from 'pg';
import type { ServiceSecrets } from '../../lib/service-secret.ts';
import { findOutdated, readSealed, type SealedRow } from '../../store/statements/secrets.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import { earlierValues } from './earlier-values.ts';
import { readByRef, type StoredRef } from './read-by-ref.ts';
import { unsealValue } from './sealed-values.ts';
import { signingKeys } from './signing-keys.ts';
import { WholeKind } from './whole-kind.ts';

interface StoredSecretsOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
  readonly secrets: ServiceSecrets;
}

/** The problem is a clause, such as: secret "x" not found; set it: … */
export type SecretValue = { readonly value: string } | { readonly problem: string };

const otherSecret =
  'was sealed with a service secret that this service does not have (MUSTER_SECRET, MUSTER_SECRET_PREVIOUS)';

/** The values of secrets and the signing keys, for use by the service itself. */
export class StoredSecrets {
  readonly #options: StoredSecretsOptions;
  readonly #sealed: (ref: StoredRef) => Promise<SealedRow | undefined>;
  readonly #values: WholeKind<string>;

  constructor(options: StoredSecretsOptions) {
    this.#options = options;
    this.#sealed = readByRef(options.database, readSealed, (_, row) => row);
    this.#values = new WholeKind(options.database, 'secret', async (tenant, name) => {
      const found = await this.value(tenant, name);
      return 'value' in found ? found.value : undefined;
    });
  }

  /** The value of a secret, or why there is none. */
  async value(tenant: number, name: string): Promise<SecretValue> {
    const { tenants, secrets } = this.#options;
    const row = await this.#sealed({ tenant, kind: 'secret', name });
    const howToSet = `set it: muster secret set ${name}`;
    if (!row) return { problem: `secret "${name}" not found; ${howToSet}` };
    if (!row.sealed || !row.secret_id) return { problem: `the secret "${name}" has no value; ${howToSet}` };
    const place = { tenant: await tenants.name(tenant), name };
    const value = unsealValue(secrets, place, { sealed: row.sealed, secretId: row.secret_id });
    return value === null ? { problem: `the secret "${name}" ${otherSecret}; ${howToSet}` } : { value };
  }

  /** The values of all secrets of a tenant, to mask them; the same list until one changes. */
  values(tenant: number): Promise<readonly string[]> {
    return this.#values.valuesOf(tenant);
  }

  /** Values that these secrets, or all, had until recently, to mask them. */
  async earlierValues(tenant: number, names: readonly string[] | null) {
    const { database, secrets, tenants } = this.#options;
    return earlierValues(database, secrets, { id: tenant, name: await tenants.name(tenant) }, names);
  }

  /** The keys with which the senders to an integration or a trigger may sign, and with which a notification is signed. */
  async signingKeys(tenant: number, kind: Kind, name: string): Promise<string[]> {
    const { tenants, secrets } = this.#options;
    const row = await this.#sealed({ tenant, kind, name });
    return row ? signingKeys(secrets, kind, await tenants.name(tenant), name, row) : [];
  }

  /** What was not made with the current service secret: of the caller's tenant, or for an operator of all. */
  async outdated(caller: Principal): Promise<Pick<Service, 'outdatedSecrets' | 'outdatedSecretCount'>> {
    if (caller.role !== 'admin' && caller.role !== 'operator')
      return { outdatedSecrets: [], outdatedSecretCount: 0 };
    const { database, secrets } = this.#options;
    const rows = await findOutdated(
      database,
      caller.tenant.id,
      caller.role === 'operator',
      secrets.current.id,
      secrets.previous?.id ?? null,
      limits.pageSize,
    );
    const outdatedSecrets = rows.map(({ provider, org, kind, name, secret_id }) => ({
      tenant: { provider, org },
      kind,
      name,
      works: secret_id === null || secrets.find(secret_id) !== undefined,
    }));
    return { outdatedSecrets, outdatedSecretCount: rows[0]?.total ?? 0 };
  }
}
