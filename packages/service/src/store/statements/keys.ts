import type { Provider, Role } from '@muster/sdk/contract';
import type { Identity } from '../../domain/agent.ts';
import { statement } from '../connection.ts';
import { insertInto } from '../tables.ts';
import { effectiveRole, isValid, memberOf } from './key-roles.ts';

/** Whether anybody could sign in. */
export const hasKeys = statement<[], { any: boolean }>('has-keys', 'SELECT EXISTS (SELECT FROM keys) AS any');

export interface KeyRow {
  tenant: number;
  provider: Provider;
  org: string;
  key_id: string;
  hash: Buffer;
  role: Role;
  owner_provider: Provider;
  account: string;
  pool: string;
  /** Of a share link: the agent that it shows. */
  agent: (Omit<Identity, 'tenant'> & { id?: string }) | null;
  /** The catalog resource that the key belongs to, and the generation at which that was created. */
  name: string;
  created: number;
  expires_at: string | null;
  /** By the database's clock; null without an end. */
  expires_in_ms: number | null;
}

/** Without keys of disabled accounts. */
export const readKeys = statement<[keyIds: string[]], KeyRow>(
  'read-keys',
  `SELECT k.tenant, t.provider, t.org, k.key_id, k.hash, ${effectiveRole('k', 'm')} AS role, k.owner_provider, k.account, k.pool, k.agent,
     k.name, k.created, k.expires_at, extract(epoch FROM k.expires_at - now()) * 1000 AS expires_in_ms
   FROM unnest($1::text[]) AS q (key_id)
   JOIN keys k ON k.key_id = q.key_id
   JOIN tenants t ON t.id = k.tenant
   ${memberOf('k', 'm')}
   WHERE m.disabled IS NOT TRUE`,
);

export type NewKey = Omit<KeyRow, 'provider' | 'org' | 'hash' | 'expires_in_ms'> & {
  hash: string;
  kind: string;
};

const keyColumns = {
  tenant: 'int',
  key_id: 'text',
  hash: 'bytea',
  role: 'text',
  owner_provider: 'text',
  account: 'text',
  pool: 'text',
  agent: 'json',
  expires_at: 'timestamptz',
  kind: 'text',
  name: 'text',
  created: 'bigint',
} as const satisfies Record<keyof NewKey, string>;

/** A resource has one key; writing it again replaces the key. */
export const upsertKey = statement<[rows: string], never>(
  'upsert-key',
  `${insertInto('keys', keyColumns)}
   ON CONFLICT (tenant, key_id) DO UPDATE
   SET role = excluded.role, owner_provider = excluded.owner_provider, account = excluded.account,
     pool = excluded.pool, agent = excluded.agent, expires_at = excluded.expires_at`,
);

export const deleteKeys = statement<[tenant: number, kind: string, name: string, except: string], never>(
  'delete-keys',
  'DELETE FROM keys WHERE tenant = $1 AND kind = $2 AND name = $3 AND key_id <> $4',
);

export const findKeyOf = statement<
  [tenant: number, kind: string, name: string],
  { key_id: string; hash: Buffer; created: number }
>('find-key-of', 'SELECT key_id, hash, created FROM keys WHERE tenant = $1 AND kind = $2 AND name = $3');

/** The agent of a run that is still live, for the key which that run holds. */
export const readRunHolder = statement<
  [tenant: number, agent: string, number: number],
  Pick<KeyRow, 'provider' | 'org' | 'owner_provider' | 'account'> & { workspace: string; path: string }
>(
  'read-run-holder',
  `SELECT t.provider, t.org, a.owner_provider, a.account, a.workspace, a.path
   FROM runs r
   JOIN agents a ON a.tenant = r.tenant AND a.id = r.agent
   JOIN tenants t ON t.id = r.tenant
   WHERE r.tenant = $1 AND r.agent = $2 AND r.number = $3 AND r.state <> 'ENDED'`,
);

/** The roles of the valid keys of an account, unless an admin has disabled it. */
export const rolesOfAccount = statement<
  [tenant: number, ownerProvider: Provider, account: string],
  Pick<KeyRow, 'provider' | 'org' | 'role'>
>(
  'roles-of-account',
  `SELECT DISTINCT t.provider, t.org, ${effectiveRole('k', 'm')} AS role
   FROM keys k JOIN tenants t ON t.id = k.tenant ${memberOf('k', 'm')}
   WHERE k.tenant = $1 AND k.owner_provider = $2 AND k.account = $3 AND ${isValid('k')} AND m.disabled IS NOT TRUE`,
);
