import { limits, type MemberRole, type Provider, type Role, type SignInAttempt } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

/** Which rules gave a person the role. */
export interface MatchedRule {
  readonly allow: string;
  readonly role: string;
}

export interface MemberRow {
  owner_provider: Provider;
  account: string;
  display_name: string;
  disabled: boolean;
  role_override: Role | null;
  issuer: string | null;
  subject: string | null;
}

const memberColumns = 'owner_provider, account, display_name, disabled, role_override, issuer, subject';

/** One sign-in of a tenant at a time decides who gets which name. */
export const lockSignIns = statement<[tenant: number], never>(
  'lock-sign-ins',
  "SELECT pg_advisory_xact_lock(hashtext('sign-ins'), $1)",
);

export const findMemberByIdentity = statement<[tenant: number, issuer: string, subject: string], MemberRow>(
  'find-member-by-identity',
  `SELECT ${memberColumns} FROM members WHERE tenant = $1 AND issuer = $2 AND subject = $3 FOR UPDATE`,
);

export const findMember = statement<[tenant: number, ownerProvider: Provider, account: string], MemberRow>(
  'find-member',
  `SELECT ${memberColumns} FROM members WHERE tenant = $1 AND owner_provider = $2 AND account = $3 FOR UPDATE`,
);

/**
 * Of these account names, those that somebody has or had: a person who signed in, a key, an agent, or the author of a
 * document of the catalog. `$4` are the same names as documents say who created them.
 */
export const takenAccounts = statement<
  [tenant: number, ownerProvider: Provider, accounts: string[], creators: string[]],
  { account: string }
>(
  'taken-accounts',
  `WITH wanted AS (SELECT account, creator FROM unnest($3::text[], $4::text[]) AS w (account, creator)),
   creators AS (
     SELECT DISTINCT by AS creator FROM resource_history WHERE tenant = $1 AND by = ANY ($4)
     UNION SELECT DISTINCT document ->> 'createdBy' FROM resources
     WHERE tenant = $1 AND document ->> 'createdBy' = ANY ($4))
   SELECT account FROM wanted w
   WHERE EXISTS (SELECT FROM members WHERE tenant = $1 AND owner_provider = $2 AND account = w.account)
     OR EXISTS (SELECT FROM keys WHERE tenant = $1 AND owner_provider = $2 AND account = w.account)
     OR EXISTS (SELECT FROM agents WHERE tenant = $1 AND owner_provider = $2 AND account = w.account)
     OR w.creator IN (SELECT creator FROM creators)`,
);

/** The name stays taken; the identity may get another one. */
export const unbindMember = statement<[tenant: number, ownerProvider: Provider, account: string], never>(
  'unbind-member',
  `UPDATE members SET issuer = NULL, subject = NULL, sign_in = NULL
   WHERE tenant = $1 AND owner_provider = $2 AND account = $3`,
);

/** What a sign-in says of a member. */
export const saveSignedIn = statement<
  [
    tenant: number,
    ownerProvider: Provider,
    account: string,
    displayName: string,
    signIn: string,
    issuer: string,
    subject: string,
    role: MemberRole | null,
    rule: string,
    claims: string,
  ],
  never
>(
  'save-signed-in',
  `INSERT INTO members (tenant, owner_provider, account, display_name, sign_in, issuer, subject, role, rule, claims,
     signed_in_at, created_at)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now(), now())
   ON CONFLICT (tenant, owner_provider, account) DO UPDATE
   SET display_name = excluded.display_name, sign_in = excluded.sign_in, issuer = excluded.issuer,
     subject = excluded.subject, role = excluded.role, rule = excluded.rule, claims = excluded.claims,
     signed_in_at = CASE WHEN excluded.role IS NULL THEN members.signed_in_at ELSE excluded.signed_in_at END`,
);

/** The key that the sessions of a signed-in account belong to. */
export const findSignInKey = statement<
  [tenant: number, ownerProvider: Provider, account: string],
  { key_id: string; role: Role }
>(
  'find-sign-in-key',
  `SELECT key_id, role FROM keys
   WHERE tenant = $1 AND owner_provider = $2 AND account = $3 AND kind = 'sign-in'`,
);

export const saveSignInKey = statement<
  [
    tenant: number,
    keyId: string,
    hash: Buffer,
    role: Role,
    ownerProvider: Provider,
    account: string,
    name: string,
  ],
  never
>(
  'save-sign-in-key',
  `INSERT INTO keys (tenant, key_id, hash, role, owner_provider, account, kind, name, created, expires_at)
   VALUES ($1, $2, $3, $4, $5, $6, 'sign-in', $7, 0, now() + interval '${limits.signInDays} days')
   ON CONFLICT (tenant, key_id) DO UPDATE
   SET role = excluded.role, name = excluded.name, expires_at = excluded.expires_at`,
);

export const deleteSignInKey = statement<[tenant: number, ownerProvider: Provider, account: string], never>(
  'delete-sign-in-key',
  `DELETE FROM keys WHERE tenant = $1 AND owner_provider = $2 AND account = $3 AND kind = 'sign-in'`,
);

/** The next sign-in opens a session with the new role. */
export const deleteSessionsOfKey = statement<[tenant: number, keyId: string], never>(
  'delete-sessions-of-key',
  'DELETE FROM browser_sessions WHERE tenant = $1 AND key_id = $2',
);

/**
 * Deletes the keys with these roles that an account got by signing in, or made for itself with such a key. A key that the
 * account made with a token stays for as long as that token does.
 */
export const deleteOpenedKeys = statement<
  [tenant: number, ownerProvider: Provider, account: string, creator: string, roles: readonly Role[]],
  { key_id: string }
>(
  'delete-opened-keys',
  `DELETE FROM keys k
   WHERE k.tenant = $1 AND k.owner_provider = $2 AND k.account = $3 AND k.role = ANY ($5)
     AND (k.kind = 'login' OR k.kind = 'token' AND EXISTS (
       SELECT FROM resource_history h
       WHERE h.tenant = $1 AND h.kind = 'token' AND h.name = k.name AND h.generation = k.created AND h.by = $4
         AND h.key_id <> 'server'
         AND NOT EXISTS (
           SELECT FROM keys m
           WHERE m.tenant = $1 AND m.key_id = h.key_id AND m.kind = 'token' AND m.key_id <> k.key_id)))
   RETURNING k.key_id`,
);

/** Everybody who signed in with a document is signed out, and so are the command lines that they approved. */
export const deleteKeysOfSignIn = statement<[tenant: number, name: string], never>(
  'delete-keys-of-sign-in',
  `DELETE FROM keys k USING keys s
   WHERE s.tenant = $1 AND s.kind = 'sign-in' AND s.name = $2
     AND k.tenant = $1 AND k.owner_provider = s.owner_provider AND k.account = s.account
     AND (k.key_id = s.key_id OR k.granted_by = 'sign-in')`,
);

/** Claims the id of an attempt. No row: it was used before. */
export const insertSignIn = statement<
  [tenant: number, id: string, name: string, ownerProvider: Provider, reason: string],
  { id: string }
>(
  'insert-sign-in',
  `WITH old AS (
     SELECT id FROM (
       SELECT id, at, row_number() OVER (PARTITION BY outcome = 'ACCEPTED' ORDER BY at DESC, id DESC) AS number
       FROM sign_ins WHERE tenant = $1 AND name = $3) counted
     WHERE number > ${limits.signInsKept} AND at < now() - interval '${limits.signInMinutes} minutes'
   ), deleted AS (
     DELETE FROM sign_ins WHERE tenant = $1 AND id IN (SELECT id FROM old)
   )
   INSERT INTO sign_ins (tenant, id, name, at, outcome, owner_provider, reason)
   VALUES ($1, $2, $3, clock_timestamp(), 'FAILED', $4, $5) ON CONFLICT DO NOTHING RETURNING id`,
);

export interface SignInResult {
  readonly outcome: SignInAttempt['outcome'];
  readonly reason: string;
  readonly account: string;
  readonly displayName: string;
  readonly subject: string;
  readonly role: string;
  readonly rule: MatchedRule | null;
  readonly claims: Readonly<Record<string, unknown>> | null;
}

export const saveSignIn = statement<[tenant: number, id: string, result: string], never>(
  'save-sign-in',
  `UPDATE sign_ins SET outcome = n.outcome, reason = n.reason, account = n.account, display_name = n."displayName",
     subject = n.subject, role = n.role, rule = n.rule, claims = n.claims
   FROM json_to_record($3::json) AS n (outcome text, reason text, account text, "displayName" text, subject text,
     role text, rule json, claims json)
   WHERE tenant = $1 AND id = $2`,
);

export interface SignInRow {
  id: string;
  at: string;
  outcome: SignInAttempt['outcome'];
  reason: string;
  owner_provider: Provider;
  account: string;
  display_name: string;
  subject: string;
  role: SignInAttempt['role'];
  rule: MatchedRule | null;
  claims: Record<string, unknown> | null;
}

export const listSignIns = statement<[tenant: number, name: string, outcomes: readonly string[]], SignInRow>(
  'list-sign-ins',
  `SELECT id, at, outcome, reason, owner_provider, account, display_name, subject, role, rule, claims
   FROM (
     SELECT id, at, outcome, reason, owner_provider, account, display_name, subject, role, rule, claims,
       row_number() OVER (PARTITION BY outcome = 'ACCEPTED' ORDER BY at DESC, id DESC) AS number
     FROM sign_ins WHERE tenant = $1 AND name = $2) counted
   WHERE number <= ${limits.signInsKept} AND (cardinality($3::text[]) = 0 OR outcome = ANY ($3))
   ORDER BY at DESC, id DESC`,
);

/** The documents of a tenant that people sign in with. */
export const readSignInDocuments = statement<
  [tenant: number],
  { name: string; document: Record<string, unknown> }
>(
  'read-sign-in-documents',
  `SELECT name, document FROM resources
   WHERE tenant = $1 AND kind = 'sign-in' AND document IS NOT NULL ORDER BY name LIMIT ${limits.signInsPerTenant}`,
);
