import { randomBytes } from 'node:crypto';
import { type BodyOf, type BrowserSession, limits, mayGiveRole } from '@muster/sdk/contract';
import type pg from 'pg';
import { denied, isRefusal, notFound, type Refusal } from '../../domain/refusal.ts';
import { mintId } from '../../lib/ids.ts';
import { hashSecret } from '../../lib/token.ts';
import type { OtherWorkers } from '../../lib/worker-channel.ts';
import { recordAudit, recordRepeatable } from '../../store/statements/audit.ts';
import {
  type BrowserSessionRow,
  deleteBrowserSession,
  deleteSurplusSessions,
  findBrowserSession,
  insertBrowserSession,
  listBrowserSessions,
  readBrowserSession,
  touchBrowserSession,
} from '../../store/statements/browser-sessions.ts';
import { countOpen } from '../../store/statements/keys.ts';
import { accountScope } from '../agents/identify.ts';
import type { PageTokens } from '../agents/page-tokens.ts';
import type { Wakes } from '../watching/wakes.ts';
import { recordOf } from './audit.ts';
import { type Keys, trustMs } from './keys.ts';
import { isAdmin } from './permit.ts';
import { nameOf, ownerName, type Principal } from './principal.ts';
import type { Tenants } from './tenants.ts';

const secretBytes = 32;
const secretForm = /^[A-Za-z0-9_-]{43}$/;
const maxCached = 10_000;
/** The time of the last request is written at most this often. */
const touchMs = 5 * 60_000;
const userAgentLength = 256;

interface Trusted {
  readonly id: string;
  readonly keyId: string;
  readonly trustedUntilMs: number;
}

export interface BrowserSessionsOptions {
  readonly database: pg.Pool;
  readonly keys: Keys;
  readonly pageTokens: PageTokens;
  readonly tenants: Tenants;
  readonly wakes: Wakes;
  readonly workers: OtherWorkers | null;
}

/**
 * Who is signed in with a browser. A session is a second secret for a key: it has the key's tenant, account and role
 * at every request, and ends with the key. Only the hash of its secret is stored, by which it is looked up, so how long
 * that takes tells nothing about any secret.
 */
export class BrowserSessions {
  readonly #options: BrowserSessionsOptions;
  /** By the hash of the secret. */
  readonly #cache = new Map<string, Trusted>();

  constructor(options: BrowserSessionsOptions) {
    this.#options = options;
    options.workers?.on('sessionEnded', (id) => this.#forget(id));
  }

  /** Opens a session for this key and ends the one that the browser had before. */
  async open(
    caller: Principal,
    userAgent: string,
    replaced: string | null,
  ): Promise<{ secret: string; session: BrowserSession } | null> {
    const { database } = this.#options;
    const { tenant, keyId } = caller;
    const id = mintId();
    const secret = randomBytes(secretBytes).toString('base64url');
    const kept = userAgent.replace(/[^\x20-\x7e]/g, '').slice(0, userAgentLength);
    const [made] = await insertBrowserSession(database, keyId, id, hashSecret(secret), kept);
    if (!made) return null;
    if (caller.role === 'share') await countOpen(database, keyId);
    for (const surplus of await deleteSurplusSessions(database, tenant.id, keyId))
      await this.#ended(surplus.id);
    const before = replaced === null ? null : await this.authenticate(replaced);
    if (before?.session) await this.#end(before.tenant.id, before.session);
    const [row] = await findBrowserSession(database, tenant.id, id);
    return row ? { secret, session: viewOf(row) } : null;
  }

  /** The caller with its session, or null. */
  async authenticate(secret: string): Promise<Principal | null> {
    if (!secretForm.test(secret)) return null;
    const hash = hashSecret(secret);
    const found = await this.#lookUp(hash);
    const caller = found && (await this.#options.keys.find(found.keyId));
    return caller ? { ...caller, session: found.id } : null;
  }

  /** Puts on record who signed in, and how. */
  signedIn(caller: Principal, details: Readonly<Record<string, string>>): Promise<void> {
    const record = { kind: 'session', action: 'SIGN_IN', name: nameOf(caller), details } as const;
    return recordRepeatable(this.#options.database, recordOf(caller, record));
  }

  async current(caller: Principal): Promise<BrowserSession | Refusal> {
    const [row] = caller.session
      ? await findBrowserSession(this.#options.database, caller.tenant.id, caller.session)
      : [];
    return row ? viewOf(row) : notFound('this request was sent with a key and has no session');
  }

  async signOut(caller: Principal): Promise<Refusal | null> {
    if (!caller.session) return notFound('this request was sent with a key and has no session');
    await this.#end(caller.tenant.id, caller.session);
    return null;
  }

  async list(caller: Principal, request: BodyOf<'listSessions'>) {
    const tenant = await this.#options.tenants.named(request.tenant, caller);
    if (isRefusal(tenant)) return tenant;
    const owner = accountScope(request.account, caller);
    if (isRefusal(owner)) return owner;
    const isOwn = owner?.ownerProvider === caller.ownerProvider && owner.account === caller.account;
    if (!isOwn && !isAdmin(caller)) return denied('only an admin may list the sessions of other accounts');
    const { database, pageTokens } = this.#options;
    const list = `sessions/${tenant}`;
    const before = request.pageToken ? pageTokens.open(list, request.pageToken) : null;
    if (isRefusal(before)) return before;
    const limit = request.pageSize || limits.pageSize;
    const rows = await listBrowserSessions(
      database,
      tenant,
      owner?.ownerProvider ?? null,
      owner?.account ?? '',
      before,
      limit + 1,
    );
    const entries = rows.slice(0, limit).map(viewOf);
    const last = entries.at(-1)?.id ?? '';
    return { entries, nextPageToken: rows.length > limit ? pageTokens.seal(list, last) : '' };
  }

  async revoke(caller: Principal, request: BodyOf<'revokeSession'>): Promise<Refusal | null> {
    const tenant = await this.#options.tenants.named(request.tenant, caller);
    if (isRefusal(tenant)) return tenant;
    const [row] = await findBrowserSession(this.#options.database, tenant, request.id);
    if (!row) return notFound(`session ${request.id} not found`);
    const isOwn =
      tenant === caller.tenant.id &&
      row.owner_provider === caller.ownerProvider &&
      row.account === caller.account;
    if (!isOwn && !isAdmin(caller)) return denied('that session belongs to another account');
    if (!isOwn && !mayGiveRole(caller.role, row.role) && row.role !== 'share')
      return denied(`a ${caller.role} may not end the session of a key of role ${row.role}`);
    if (!isOwn)
      await recordAudit(this.#options.database, [
        recordOf(caller, {
          ...{ tenant, kind: 'session', action: 'REVOKE' },
          name: ownerName(row.owner_provider, row.account),
          details: { keyId: row.key_id, userAgent: row.user_agent },
        }),
      ]);
    await this.#end(tenant, row.id);
    return null;
  }

  async #end(tenant: number, id: string): Promise<void> {
    await deleteBrowserSession(this.#options.database, tenant, id);
    await this.#ended(id);
  }

  /** Here, and at the other workers, it ends now; on other nodes when their trust in it ends. */
  async #ended(id: string): Promise<void> {
    this.#forget(id);
    await this.#options.workers?.ask('sessionEnded', id);
  }

  #forget(id: string): void {
    for (const [name, trusted] of this.#cache) if (trusted.id === id) this.#cache.delete(name);
    this.#options.wakes.revoked(id);
  }

  async #lookUp(hash: Buffer): Promise<Trusted | null> {
    const name = hash.toString('base64');
    const cached = this.#cache.get(name);
    if (cached && cached.trustedUntilMs > Date.now()) return cached;
    const { database } = this.#options;
    const [row] = await readBrowserSession(database, hash);
    if (!row) {
      this.#cache.delete(name);
      return null;
    }
    if (row.unseen_ms > touchMs) await touchBrowserSession(database, row.tenant, row.id);
    if (this.#cache.size >= maxCached) this.#cache.clear();
    const trustedUntilMs = Date.now() + Math.min(trustMs, row.lasts_ms);
    const trusted = { id: row.id, keyId: row.key_id, trustedUntilMs };
    this.#cache.set(name, trusted);
    return trusted;
  }
}

const viewOf = (row: BrowserSessionRow): BrowserSession => ({
  id: row.id,
  ownerProvider: row.owner_provider,
  account: row.account,
  role: row.role,
  keyId: row.key_id,
  userAgent: row.user_agent,
  createdAt: row.created_at,
  lastSeenAt: row.seen_at,
  expiresAt: row.expires_at,
});
