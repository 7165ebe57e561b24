import { limits, type Provider, type Role } from '@muster/sdk/contract';
import type { Identity } from '../../domain/agent.ts';
import { statement } from '../connection.ts';
import { insertInto } from '../tables.ts';
import { effectiveRole, isEnabled, isMakerEnabled, isValid, memberOf } from './key-roles.ts';

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
  /** Its use was not written lately. */
  is_unused: boolean;
}

const unused = "(k.used_at IS NULL OR k.used_at < now() - interval '1 day')";

/** Without keys of disabled accounts. */
export const readKeys = statement<[keyIds: string[]], KeyRow>(
  'read-keys',
  `SELECT k.tenant, t.provider, t.org, k.key_id, k.hash, ${effectiveRole('k', 'm')} AS role, k.owner_provider, k.account, k.pool, k.agent,
     k.name, k.created, k.expires_at, extract(epoch FROM k.expires_at - now()) * 1000 AS expires_in_ms,
     ${unused} AS is_unused
   FROM unnest($1::text[]) AS q (key_id)
   JOIN keys k ON k.key_id = q.key_id
   JOIN tenants t ON t.id = k.tenant
   ${memberOf('k', 'm')}
   WHERE m.disabled IS NOT TRUE AND ${isMakerEnabled('k')}`,
);

export type NewKey = Omit<KeyRow, 'provider' | 'org' | 'hash' | 'expires_in_ms' | 'is_unused'> & {
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

/** A browser has opened a share link: it exchanged the secret for a session. Reloads use the session. */
export const countOpen = statement<[keyId: string], never>(
  'count-open',
  "UPDATE keys SET opens = opens + 1, opened_at = now() WHERE key_id = $1 AND kind = 'share-link'",
);

export const readOpens = statement<
  [tenant: number, names: readonly string[]],
  { name: string; opens: number; opened_at: string | null }
>(
  'read-opens',
  `SELECT name, opens, opened_at FROM keys
   WHERE tenant = $1 AND kind = 'share-link' AND name = ANY ($2::text[])`,
);

/**
 * When the key `k` of a command line ends if it is not used again: no later than the token that approved it. If a sign-in
 * at a provider did, no later than what that opened: so the provider is asked again at least that often.
 */
const loginEnd = (k: string): string =>
  `least(now() + make_interval(days => ${limits.loginKeyDays}), ${k}.ends_at, CASE ${k}.granted_by WHEN 'sign-in' THEN coalesce((
       SELECT s.expires_at FROM keys s
       WHERE s.tenant = ${k}.tenant AND s.owner_provider = ${k}.owner_provider AND s.account = ${k}.account AND s.kind = 'sign-in'
     ), ${k}.expires_at) END)`;

/** Writes that a key is used, once a day. That extends the key of a command line. */
export const touchKey = statement<[keyId: string], never>(
  'touch-key',
  `UPDATE keys k SET used_at = now(), expires_at = CASE k.kind WHEN 'login' THEN ${loginEnd('k')} ELSE k.expires_at END
   WHERE k.key_id = $1 AND ${unused}`,
);

/**
 * The key of a command line, for the account and with the role of the key that approved it: no row, if that is gone. It
 * ends no later than a token that approved it.
 */
export const insertLoginKey = statement<
  [tenant: number, approver: string, keyId: string, hash: Buffer, client: string],
  { owner_provider: Provider; account: string }
>(
  'insert-login-key',
  `INSERT INTO keys (tenant, key_id, hash, role, owner_provider, account, pool, expires_at, kind, name, created, created_at,
     client, used_at, granted_by, ends_at)
   SELECT a.tenant, $3, $4, a.role, a.owner_provider, a.account, '', ${loginEnd('a')}, 'login', $3, 0, now(), $5, now(),
     a.granted_by, a.ends_at
   FROM (
     SELECT k.tenant, k.role, k.owner_provider, k.account, k.expires_at,
       CASE k.kind WHEN 'login' THEN k.granted_by ELSE k.kind END AS granted_by,
       CASE k.kind WHEN 'token' THEN k.expires_at WHEN 'login' THEN k.ends_at END AS ends_at
     FROM keys k WHERE k.tenant = $1 AND k.key_id = $2 AND ${isValid('k')} AND ${isEnabled('k')}
   ) a
   RETURNING owner_provider, account`,
);

/** Of an account with too many, those that were used longest ago go. */
export const deleteSurplusLogins = statement<
  [tenant: number, ownerProvider: Provider, account: string],
  { key_id: string }
>(
  'delete-surplus-logins',
  `DELETE FROM keys WHERE tenant = $1 AND key_id IN (
     SELECT key_id FROM keys WHERE tenant = $1 AND owner_provider = $2 AND account = $3 AND kind = 'login'
     ORDER BY used_at DESC, key_id OFFSET ${limits.loginKeysPerAccount})
   RETURNING key_id`,
);

/** Keys of command lines whose end has passed. */
export const deleteOldLoginKeys = statement<[], never>(
  'delete-old-login-keys',
  "DELETE FROM keys WHERE kind = 'login' AND expires_at < now()",
);

export interface ListedKeyRow {
  key_id: string;
  kind: string;
  name: string;
  owner_provider: Provider;
  account: string;
  role: Role;
  client: string | null;
  created_at: string | null;
  used_at: string | null;
  expires_at: string | null;
}

const listed = `SELECT k.key_id, k.kind, k.name, k.owner_provider, k.account, ${effectiveRole('k', 'm')} AS role, k.client, k.created_at,
     k.used_at, k.expires_at
   FROM keys k ${memberOf('k', 'm')}
   WHERE k.tenant = $1 AND k.kind <> 'share-link' AND ${isValid('k')}`;

export const listKeys = statement<
  [tenant: number, ownerProvider: Provider | null, account: string | null, after: string, limit: number],
  ListedKeyRow
>(
  'list-keys',
  `${listed} AND k.key_id > $4 AND ($2::text IS NULL OR k.owner_provider = $2) AND ($3::text IS NULL OR k.account = $3)
   ORDER BY k.key_id LIMIT $5`,
);

export const findKey = statement<[tenant: number, keyId: string], ListedKeyRow>(
  'find-key',
  `${listed} AND k.key_id = $2`,
);

export const deleteKeyById = statement<[tenant: number, keyId: string], { key_id: string }>(
  'delete-key-by-id',
  'DELETE FROM keys WHERE tenant = $1 AND key_id = $2 RETURNING key_id',
);

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

/** The roles of the valid keys of an account, and whether an admin has disabled it. */
export const rolesOfAccount = statement<
  [tenant: number, ownerProvider: Provider, account: string],
  Pick<KeyRow, 'provider' | 'org' | 'role'> & { disabled: boolean }
>(
  'roles-of-account',
  `SELECT DISTINCT t.provider, t.org, ${effectiveRole('k', 'm')} AS role, m.disabled IS TRUE AS disabled
   FROM keys k JOIN tenants t ON t.id = k.tenant ${memberOf('k', 'm')}
   WHERE k.tenant = $1 AND k.owner_provider = $2 AND k.account = $3 AND ${isValid('k')}`,
);
