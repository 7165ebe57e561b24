import type pg from 'pg';
import type { ServiceSecrets } from '../../lib/service-secret.ts';
import { findSealedBefore, nameSecretOfNonces, resealValue } from '../../store/statements/secrets.ts';
import { sealedAgain } from './sealed-values.ts';

const valuesPerLook = 50;

/**
 * While there is a previous service secret: seals values with the current one. Signing keys can't be renewed here,
 * because their callers know them; `muster doctor` lists them. Without a previous secret, keys from before secrets were
 * recorded belong to the current one.
 */
export async function sealAgain(database: pg.Pool, secrets: ServiceSecrets): Promise<void> {
  const { current, previous } = secrets;
  if (!previous) {
    await nameSecretOfNonces(database, current.id);
    return;
  }
  let last = { tenant: 0, name: '' };
  for (;;) {
    const found = await findSealedBefore(database, previous.id, last.tenant, last.name, valuesPerLook);
    for (const { tenant, provider, org, name, sealed } of found) {
      const stored = { sealed, secretId: previous.id };
      const next = sealedAgain(secrets, { tenant: { provider, org }, name }, stored);
      // A value that was written meanwhile stays as it is.
      if (next) await resealValue(database, tenant, name, sealed, next.sealed, next.secretId);
    }
    last = found.at(-1) ?? last;
    if (found.length < valuesPerLook) return;
  }
}
