import { limits, type Provider, type Role } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import { effectiveRole, isEnabled, isMakerEnabled, isValid, memberOf } from './key-roles.ts';

const idle = `interval '${limits.sessionIdleHours} hours'`;
const longest = `interval '${limits.sessionDays} days'`;

/** A session with the key that it belongs to, and what an admin decided about its account. */
export const sessionWithKey = `browser_sessions s JOIN keys k ON k.tenant = s.tenant AND k.key_id = s.key_id
     ${memberOf('k', 'om')}`;
/** It works. */
export const isLive = `s.seen_at > now() - ${idle} AND s.expires_at > now() AND ${isValid('k')} AND om.disabled IS NOT TRUE
     AND ${isMakerEnabled('k')}`;

const live = `FROM ${sessionWithKey} WHERE ${isLive}`;

/** For the tick: a session of this id that works. */
export const liveSession = (id: string): string => `SELECT ${live} AND s.id = ${id}`;

export interface BrowserSessionRow {
  tenant: number;
  id: string;
  key_id: string;
  owner_provider: Provider;
  account: string;
  role: Role;
  user_agent: string;
  created_at: string;
  seen_at: string;
  expires_at: string;
}

const columns = `s.tenant, s.id, s.key_id, k.owner_provider, k.account, ${effectiveRole('k', 'om')} AS role, s.user_agent, s.created_at, s.seen_at,
     least(s.expires_at, k.expires_at) AS expires_at`;

/** No row: the key is gone, or its account is disabled. */
export const insertBrowserSession = statement<
  [keyId: string, id: string, hash: Buffer, userAgent: string],
  { id: string }
>(
  'insert-browser-session',
  `INSERT INTO browser_sessions (tenant, id, key_id, hash, user_agent, created_at, seen_at, expires_at)
   SELECT k.tenant, $2, k.key_id, $3, $4, now(), now(), now() + ${longest} FROM keys k WHERE k.key_id = $1 AND ${isEnabled('k')}
   RETURNING id`,
);

/** Of a key that has too many, those that were used longest ago go. */
export const deleteSurplusSessions = statement<[tenant: number, keyId: string], { id: string }>(
  'delete-surplus-sessions',
  `DELETE FROM browser_sessions WHERE tenant = $1 AND id IN (
     SELECT id FROM browser_sessions WHERE tenant = $1 AND key_id = $2
     ORDER BY seen_at DESC, id DESC OFFSET ${limits.sessionsPerKey})
   RETURNING id`,
);

export const readBrowserSession = statement<
  [hash: Buffer],
  { tenant: number; id: string; key_id: string; lasts_ms: number; unseen_ms: number }
>(
  'read-browser-session',
  `SELECT s.tenant, s.id, s.key_id, extract(epoch FROM now() - s.seen_at) * 1000 AS unseen_ms,
     extract(epoch FROM least(s.expires_at, s.seen_at + ${idle}) - now()) * 1000 AS lasts_ms
   ${live} AND s.hash = $1`,
);

export const touchBrowserSession = statement<[tenant: number, id: string], never>(
  'touch-browser-session',
  'UPDATE browser_sessions SET seen_at = now() WHERE tenant = $1 AND id = $2',
);

export const findBrowserSession = statement<[tenant: number, id: string], BrowserSessionRow>(
  'find-browser-session',
  `SELECT ${columns} ${live} AND s.tenant = $1 AND s.id = $2`,
);

/** Without sessions of share links, which have no account. */
export const listBrowserSessions = statement<
  [tenant: number, provider: Provider | null, account: string, before: string | null, limit: number],
  BrowserSessionRow
>(
  'list-browser-sessions',
  `SELECT ${columns} ${live} AND s.tenant = $1 AND k.role <> 'share'
     AND ($2::text IS NULL OR (k.owner_provider = $2 AND k.account = $3))
     AND ($4::uuid IS NULL OR s.id < $4)
   ORDER BY s.id DESC LIMIT $5`,
);

export const deleteBrowserSession = statement<[tenant: number, id: string], never>(
  'delete-browser-session',
  'DELETE FROM browser_sessions WHERE tenant = $1 AND id = $2',
);

export const deleteOldSessions = statement<[], never>(
  'delete-old-sessions',
  `DELETE FROM browser_sessions WHERE expires_at < now() OR seen_at < now() - ${idle}`,
);
