import { limits, type Tenant } from '@muster/sdk/contract';
import type pg from 'pg';
import type { ServiceSecrets } from '../../lib/service-secret.ts';
import type { LockedResource } from '../../store/statements/resources.ts';
import { keepEarlierValue, readEarlierValues } from '../../store/statements/secrets.ts';
import { unsealValue } from './sealed-values.ts';

/**
 * A run keeps the values that it started with, and the next runs of its agent may find them in their conversation or
 * files. So a value that is replaced or deleted stays masked for as long as the longest turn can take.
 */
const days = limits.mostTurnMinutes / (24 * 60);

/** Before a secret is written or deleted. */
export async function keepEarlier(
  client: pg.PoolClient,
  tenant: number,
  { name, generation, sealed, secret_id }: LockedResource,
  next: Buffer | null,
): Promise<void> {
  if (!sealed || !secret_id || next === sealed) return;
  await keepEarlierValue(client, tenant, name, generation, sealed, secret_id, limits.earlierValuesPerSecret);
}

/** The newest of them come first. Those that another service secret sealed can't be read any more. */
export async function earlierValues(
  database: pg.Pool,
  secrets: ServiceSecrets,
  tenant: { readonly id: number; readonly name: Tenant },
  names: readonly string[] | null,
): Promise<{ name: string; value: string }[]> {
  const rows = await readEarlierValues(database, tenant.id, names, days, limits.earlierValuesMasked);
  return rows.flatMap(({ name, sealed, secret_id }) => {
    const place = { tenant: tenant.name, name };
    const value = unsealValue(secrets, place, { sealed, secretId: secret_id });
    return value === null ? [] : [{ name, value }];
  });
}
