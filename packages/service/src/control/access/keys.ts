import type pg from 'pg';
import type { ServiceSecret, ServiceSecrets } from '../../lib/service-secret.ts';
import { formatKey, hashSecret, matchesHash, parseKey } from '../../lib/token.ts';
import type { OtherWorkers } from '../../lib/worker-channel.ts';
import { type KeyRow, readKeys, readRunHolder, touchKey } from '../../store/statements/keys.ts';
import { shareQueries } from '../batches/shared-queries.ts';
import type { Principal } from './principal.ts';

/** A revoked key must stop within 5 s on every node. */
export const trustMs = 3_000;
const maxCached = 10_000;

/** The key of a run is derived from the service's secret, not stored, and valid only while the run is live. */
const runKeyId = (tenant: number, agent: string, run: number): string => `run-${tenant}-${agent}-${run}`;
/** The service's own runner serves the default pool of every tenant. Its key is not stored either. */
const serviceRunnerId = 'service-runner';
const runSecret = (secret: ServiceSecret, keyId: string): string => secret.hmac('run', keyId);
const serviceRunnerSecret = (secret: ServiceSecret): string => secret.hmac(serviceRunnerId);
const runKeyForm = /^run-(\d+)-([0-9a-f-]{36})-(\d+)$/;

interface Trusted {
  readonly hash: Buffer;
  readonly principal: Principal;
  readonly trustedUntilMs: number;
}

export class Keys {
  readonly #database: pg.Pool;
  readonly #secrets: ServiceSecrets;
  readonly #workers: OtherWorkers | null;
  readonly #cache = new Map<string, Trusted>();
  /**
   * The keys that matched since `#provenSinceMs`, by their full text, because hashing a key takes longer than the rest
   * of its check. A lookup needs the full text, so its duration says nothing about a part of a key.
   */
  readonly #proven = new Map<string, Trusted>();
  #provenSinceMs = 0;
  readonly #listeners: (() => void)[] = [];
  readonly #read: (keyId: string) => Promise<KeyRow | undefined>;

  constructor(database: pg.Pool, secrets: ServiceSecrets, workers: OtherWorkers | null) {
    this.#database = database;
    this.#secrets = secrets;
    this.#workers = workers;
    workers?.on('keysChanged', () => this.#clear());
    this.#read = shareQueries(async (keyIds) => {
      const rows = await readKeys(database, [...keyIds]);
      return keyIds.map((keyId) => rows.find((row) => row.key_id === keyId));
    });
  }

  /** The caller, or null. A malformed key is refused without a query. */
  async authenticate(key: string): Promise<Principal | null> {
    const nowMs = Date.now();
    const proven = this.#proven.get(key);
    if (proven && proven.trustedUntilMs > nowMs) return proven.principal;
    const parts = parseKey(key);
    if (!parts) return null;
    const run = runKeyForm.exec(parts.keyId);
    if (run) return this.#authenticateRun(parts.keyId, parts.secret, run);
    if (parts.keyId === serviceRunnerId) {
      return this.#isDerived(parts.secret, serviceRunnerSecret) ? serviceRunner : null;
    }
    const known = await this.#lookUp(parts.keyId);
    if (!known || !matchesHash(parts.secret, known.hash)) return null;
    if (nowMs - this.#provenSinceMs > trustMs || this.#proven.size >= maxCached) {
      this.#proven.clear();
      this.#provenSinceMs = nowMs;
    }
    this.#proven.set(key, known);
    return known.principal;
  }

  /** The owner of a key, for a session that was opened with it. */
  async find(keyId: string): Promise<Principal | null> {
    return (await this.#lookUp(keyId))?.principal ?? null;
  }

  runToken(tenant: number, agent: string, run: number): string {
    const keyId = runKeyId(tenant, agent, run);
    return formatKey({ keyId, secret: runSecret(this.#secrets.current, keyId) });
  }

  serviceRunnerKey(): string {
    return formatKey({ keyId: serviceRunnerId, secret: serviceRunnerSecret(this.#secrets.current) });
  }

  /** Whether it is derived from the service's secret, or from its previous one. */
  #isDerived(given: string, derive: (secret: ServiceSecret) => string): boolean {
    return this.#secrets.all.some((secret) => matchesHash(given, hashSecret(derive(secret))));
  }

  /** After a write, so that this node and the other workers of its service apply it immediately. */
  async forget(): Promise<void> {
    this.#clear();
    await this.#workers?.ask('keysChanged', null);
  }

  #clear(): void {
    this.#cache.clear();
    this.#proven.clear();
    for (const listener of this.#listeners) listener();
  }

  /** Calls back when a key or a secret was written, by this node or another worker of its service. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  async #lookUp(keyId: string): Promise<Trusted | null> {
    const cached = this.#cache.get(keyId);
    if (cached && cached.trustedUntilMs > Date.now()) return cached;
    const row = await this.#read(keyId);
    if (!row || (row.expires_in_ms !== null && row.expires_in_ms <= 0)) {
      this.#cache.delete(keyId);
      return null;
    }
    // A request does not wait for it, nor fail because of it.
    if (row.is_unused) touchKey(this.#database, keyId).catch(() => {});
    if (this.#cache.size >= maxCached) this.#cache.clear();
    const forMs = Math.min(trustMs, row.expires_in_ms ?? trustMs);
    const trusted = { hash: row.hash, principal: principalOf(row), trustedUntilMs: Date.now() + forMs };
    this.#cache.set(keyId, trusted);
    return trusted;
  }

  async #authenticateRun(
    keyId: string,
    secret: string,
    [, tenant, agent, run]: RegExpExecArray,
  ): Promise<Principal | null> {
    if (!this.#isDerived(secret, (service) => runSecret(service, keyId)) || !agent) return null;
    const [holder] = await readRunHolder(this.#database, Number(tenant), agent, Number(run));
    if (!holder) return null;
    return {
      tenant: { id: Number(tenant), provider: holder.provider, org: holder.org },
      ownerProvider: holder.owner_provider,
      account: holder.account,
      keyId,
      role: 'agent',
      expiresAt: null,
      pool: '',
      token: '',
      agent: {
        tenant: Number(tenant),
        id: agent,
        ownerProvider: holder.owner_provider,
        account: holder.account,
        workspace: holder.workspace,
        path: holder.path.split('/'),
      },
      run: Number(run),
    };
  }
}

const serviceRunner: Principal = {
  tenant: { id: 0, provider: 'PROVIDER_UNSPECIFIED', org: '' },
  ownerProvider: 'PROVIDER_UNSPECIFIED',
  account: serviceRunnerId,
  keyId: serviceRunnerId,
  role: 'runner',
  expiresAt: null,
  pool: 'default',
  token: '',
  agent: null,
};

/** A link that is not bound to an agent shows one by its name, so its workspace must be known. */
const sharedWorkspace = ({ id, workspace }: NonNullable<KeyRow['agent']>): string =>
  workspace || (id ? '' : 'default');

const principalOf = (row: KeyRow): Principal => ({
  tenant: { id: row.tenant, provider: row.provider, org: row.org },
  ownerProvider: row.owner_provider,
  account: row.account,
  keyId: row.key_id,
  role: row.role,
  expiresAt: row.expires_at,
  pool: row.pool,
  token: `${row.name}@${row.created}`,
  agent: row.agent && { tenant: row.tenant, ...row.agent, workspace: sharedWorkspace(row.agent) },
});
