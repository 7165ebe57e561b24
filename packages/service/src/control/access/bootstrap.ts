import type { Role, Tenant } from '@muster/sdk/contract';
import type pg from 'pg';
import { isRefusal } from '../../domain/refusal.ts';
import { formatKey, type KeyParts, mintKey } from '../../lib/token.ts';
import { begin } from '../../store/connection.ts';
import { hasKeys } from '../../store/statements/keys.ts';
import type { Control } from '../control.ts';
import type { Principal } from './principal.ts';

/** Arbitrary, but the same on every node. */
const bootstrapLock = 7_301_985;

export interface BootstrapOptions {
  readonly org: string;
  readonly account: string;
  readonly key: KeyParts | null;
}

/**
 * The first start of an empty store creates one tenant and one admin key. Returns the key, or null if there were keys.
 * `keep` saves the key before it works: a crash in between leaves a key that does not work, not a store without a key.
 */
export async function bootstrap(
  database: pg.Pool,
  control: Control,
  options: BootstrapOptions,
  keep: (key: string) => void,
): Promise<string | null> {
  const client = await database.connect();
  try {
    await begin(client);
    await client.query('SELECT pg_advisory_xact_lock($1)', [bootstrapLock]);
    const [row] = await hasKeys(client);
    if (row?.any) return null;
    const tenant: Tenant = { provider: 'PROVIDER_CODEHOST_APP', org: options.org };
    const key = options.key ?? mintKey();
    keep(formatKey(key));
    return await makeKey(control, tenant, options.account, 'admin', 'bootstrap', key);
  } finally {
    const isBroken = await client.query('COMMIT').then(
      () => false,
      () => true,
    );
    client.release(isBroken);
  }
}

/** Creates a key on the server's machine, for anyone who has access to its data folder or database. */
export async function makeKey(
  control: Control,
  tenant: Tenant,
  account: string,
  role: Role,
  name: string,
  key: KeyParts = mintKey(),
): Promise<string> {
  const maker: Principal = {
    tenant: { id: await control.tenants.create(tenant), ...tenant },
    ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
    account,
    keyId: 'server',
    role: 'operator',
    expiresAt: null,
    pool: '',
    token: '',
    agent: null,
  };
  const payload = Buffer.from(JSON.stringify({ role })).toString('base64');
  const reply = await control.catalog.write(
    maker,
    { kind: 'token', name },
    { payload, justification: "made on the server's own machine" },
    { givenKey: key },
  );
  if (isRefusal(reply)) throw new Error(reply.message);
  return formatKey(key);
}
