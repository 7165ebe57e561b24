import type { Provider, Role } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import { isLive, sessionWithKey } from './browser-sessions.ts';
import { effectiveRole, isValid, memberOf, peopleRoles, roleOf } from './key-roles.ts';

type Account = [tenant: number, ownerProvider: Provider, account: string];

export interface MemberRow {
  owner_provider: Provider;
  account: string;
  display_name: string;
  role: Role | '';
  role_override: Role | '';
  disabled: boolean;
  sign_in: string;
  last_seen_at: string | null;
  keys: number;
  sessions: number;
  live_agents: number;
  spend: number;
}

const place = (row: string): string => `(${row}.owner_provider, ${row}.account)`;

/** The accounts of an index over `table`, in its order behind a place, each found with one look into the index. */
const accountsOf = (name: string, table: string, condition: string): string => {
  const next = (after: string): string => `SELECT n.owner_provider, n.account FROM ${table} n
       WHERE n.tenant = $1 AND ${condition} AND ${place('n')} > ${after}
       ORDER BY n.owner_provider, n.account LIMIT 1`;
  return `${name} AS (
     (${next('($2::text, $3::text)')})
     UNION ALL
     SELECT l.owner_provider, l.account FROM ${name} o CROSS JOIN LATERAL (${next(place('o'))}) l
   )`;
};

/** The first rows that match, as many as a page needs. */
const pageOf = (rows: string): string => `(SELECT c.owner_provider, c.account FROM (${rows}) c
     WHERE $4::text = '' OR strpos(lower(c.account), $4) > 0 OR strpos(lower(coalesce((
       SELECT m.display_name FROM members m
       WHERE m.tenant = $1 AND m.owner_provider = c.owner_provider AND m.account = c.account), '')), $4) > 0
     LIMIT $5)`;

/** What is shown of the accounts `p`. */
const described = (
  accounts: string,
): string => `SELECT p.owner_provider, p.account, coalesce(m.display_name, '') AS display_name,
     coalesce(k.role, CASE WHEN m.sign_in IS NULL THEN '' ELSE coalesce(m.role_override, m.role, '') END) AS role,
     coalesce(m.role_override, '') AS role_override, coalesce(m.disabled, false) AS disabled, coalesce(m.sign_in, '') AS sign_in,
     greatest(m.signed_in_at, s.seen_at, k.used_at) AS last_seen_at, k.keys, s.sessions, a.live_agents, u.spend
   FROM ${accounts} p
   LEFT JOIN members m ON m.tenant = $1 AND m.owner_provider = p.owner_provider AND m.account = p.account
   CROSS JOIN LATERAL (
     SELECT count(*)::int AS keys, ${roleOf(`max(array_position(${peopleRoles}, ${effectiveRole('k', 'm')}))`)} AS role, max(k.used_at) AS used_at
     FROM keys k WHERE k.tenant = $1 AND k.owner_provider = p.owner_provider AND k.account = p.account
       AND k.role <> 'share' AND ${isValid('k')}
   ) k
   CROSS JOIN LATERAL (
     SELECT count(*)::int AS sessions, max(s.seen_at) AS seen_at FROM ${sessionWithKey}
     WHERE k.tenant = $1 AND k.owner_provider = p.owner_provider AND k.account = p.account AND k.role <> 'share' AND ${isLive}
   ) s
   CROSS JOIN LATERAL (
     SELECT count(*)::int AS live_agents FROM agents a
     WHERE a.tenant = $1 AND a.owner_provider = p.owner_provider AND a.account = p.account AND a.current
       AND a.is_root IN (true, false) AND a.is_live
   ) a
   CROSS JOIN LATERAL (
     SELECT coalesce(sum(u.cost), 0) AS spend FROM usage_hours u
     WHERE u.tenant = $1 AND u.owner_provider = p.owner_provider AND u.account = p.account
       AND u.hour >= date_trunc('month', now(), 'UTC')
   ) u
   ORDER BY p.owner_provider, p.account`;

/**
 * A page of the accounts of a tenant, behind a place: those that signed in or that an admin decided about, those with keys,
 * and owners of live agents. `text` is in lower case.
 */
export const listMembers = statement<[...Account, text: string, limit: number], MemberRow>(
  'list-members',
  `WITH RECURSIVE ${accountsOf('of_keys', 'keys', "n.role <> 'share'")},
   ${accountsOf('of_agents', 'agents', 'n.current')}
   ${described(`(
     ${pageOf(`SELECT m.owner_provider, m.account FROM members m WHERE m.tenant = $1 AND ${place('m')} > ($2, $3)
       ORDER BY m.owner_provider, m.account`)}
     UNION
     ${pageOf('SELECT owner_provider, account FROM of_keys')}
     UNION
     ${pageOf(`SELECT o.owner_provider, o.account FROM of_agents o WHERE EXISTS (SELECT FROM agents a
       WHERE a.tenant = $1 AND a.owner_provider = o.owner_provider AND a.account = o.account AND a.current
         AND a.is_root IN (true, false) AND a.is_live)`)}
     ORDER BY owner_provider, account LIMIT $5
   )`)}`,
);

export const readMember = statement<Account, MemberRow>(
  'read-member',
  described('(SELECT $2::text AS owner_provider, $3::text AS account)'),
);

/** Changes of the members of a tenant wait for each other. No row: the tenant is closed. */
export const lockMembers = statement<[tenant: number], { id: number }>(
  'lock-members',
  'SELECT id FROM tenants WHERE id = $1 AND closed_at IS NULL FOR NO KEY UPDATE',
);

export interface MemberPowersRow {
  /** It has signed in, has a key, agents, or an admin decided about it. */
  exists: boolean;
  /** Of its valid keys and of its last sign-in, as they would be without a decision of an admin. */
  roles: Role[];
  is_admin: boolean;
  has_other_admin: boolean;
}

const admins = `SELECT FROM keys k ${memberOf('k', 'm')}
     WHERE k.tenant = $1 AND ${isValid('k')} AND m.disabled IS NOT TRUE AND ${effectiveRole('k', 'm')} IN ('admin', 'operator')`;

export const readMemberPowers = statement<Account, MemberPowersRow>(
  'read-member-powers',
  `SELECT m.account IS NOT NULL
       OR EXISTS (SELECT FROM keys k WHERE k.tenant = $1 AND k.owner_provider = $2 AND k.account = $3 AND k.role <> 'share')
       OR EXISTS (SELECT FROM agents a WHERE a.tenant = $1 AND a.owner_provider = $2 AND a.account = $3 AND a.current
         AND a.is_root IN (true, false) AND a.is_live)
       AS exists,
     array_remove(array_append(array(
       SELECT DISTINCT k.role FROM keys k
       WHERE k.tenant = $1 AND k.owner_provider = $2 AND k.account = $3 AND k.role <> 'share' AND ${isValid('k')}
     ), m.role), NULL) AS roles,
     EXISTS (${admins} AND k.owner_provider = $2 AND k.account = $3) AS is_admin,
     EXISTS (${admins} AND (k.owner_provider, k.account) <> ($2, $3)) AS has_other_admin
   FROM (SELECT) one LEFT JOIN members m ON m.tenant = $1 AND m.owner_provider = $2 AND m.account = $3`,
);

/** What an admin decides about an account. What is null stays as it is. An empty role clears the one that was set. */
export const decideMember = statement<[...Account, disabled: boolean | null, role: string | null], never>(
  'decide-member',
  `INSERT INTO members AS m (tenant, owner_provider, account, disabled, role_override, created_at)
   VALUES ($1, $2, $3, coalesce($4, false), nullif($5, ''), now())
   ON CONFLICT (tenant, owner_provider, account) DO UPDATE SET
     disabled = coalesce($4, m.disabled),
     role_override = CASE WHEN $5::text IS NULL THEN m.role_override ELSE nullif($5, '') END`,
);

/**
 * Ends the sessions of an account, and the keys that a sign-in made. Tokens stay in the catalog, and work again when the
 * account is enabled.
 */
export const endSessionsOf = statement<Account, { id: string }>(
  'end-sessions-of',
  `WITH codes AS (
     DELETE FROM sign_in_codes c USING keys k
     WHERE k.tenant = $1 AND k.owner_provider = $2 AND k.account = $3 AND c.tenant = k.tenant AND c.key_id = k.key_id
   ), signed_in AS (
     DELETE FROM keys k WHERE k.tenant = $1 AND k.owner_provider = $2 AND k.account = $3 AND k.kind IN ('sign-in', 'login')
     RETURNING k.key_id AS id
   ), sessions AS (
     DELETE FROM browser_sessions s USING keys k
     WHERE k.tenant = $1 AND k.owner_provider = $2 AND k.account = $3 AND k.role <> 'share'
       AND s.tenant = k.tenant AND s.key_id = k.key_id
     RETURNING s.id::text AS id
   )
   SELECT id FROM signed_in UNION ALL SELECT id FROM sessions
   UNION ALL SELECT k.key_id FROM keys k WHERE k.tenant = $1 AND k.owner_provider = $2 AND k.account = $3`,
);

export const isDisabledAccount = statement<Account, { disabled: boolean }>(
  'is-disabled-account',
  'SELECT disabled FROM members WHERE tenant = $1 AND owner_provider = $2 AND account = $3',
);
