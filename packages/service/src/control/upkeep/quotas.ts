import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Command } from '../../domain/decide.ts';
import { exhausted, isRefusal, type Refusal } from '../../domain/refusal.ts';
import { heapBytesOf } from '../../lib/json.ts';
import type { Log } from '../../lib/log.ts';
import type { AgentKey, Wanted } from '../../store/agent-store.ts';
import {
  addStorageUse,
  readAttachmentUse,
  readCheckpointUse,
  readOwner,
  readStorageUse,
} from '../../store/statements/storage-use.ts';
import type { Transact } from '../batches/transact.ts';

/** `storage`: texts and data of agents, messages and timelines, and the history of the catalog. */
export const quotaNames = ['storage', 'checkpoints', 'attachments'] as const;
export type QuotaName = (typeof quotaNames)[number];

/** In bytes per tenant. */
export type QuotaLimits = Readonly<Record<QuotaName, number>>;

export interface Account {
  readonly tenant: number;
  readonly ownerProvider: string;
  readonly account: string;
}

interface Use {
  ofTenant: number;
  /** Null while the tenant uses less than the share of one account. */
  ofAccount: number | null;
  readonly isShared: boolean;
  readonly untilMs: number;
}

const reads = { storage: readStorageUse, checkpoints: readCheckpointUse, attachments: readAttachmentUse };

/** What another node stores meanwhile is not known for this long. */
const useMs = 10_000;
const flushMs = 1_000;
/** What people are shown is not older. */
const shownMs = 1_000;
const mostKnown = 10_000;
/** A guess for the rows and entries of a command, beside its texts. */
const commandBytes = 512;

/** What one account may use if the tenant has others. */
export const shareOf = (bytes: number): number => (bytes * limits.accountSharePercent) / 100;

/**
 * What tenants may store, and how much of it one account. Nothing is added up while a command is decided: what is stored
 * is counted in memory, written to `storage_use` once a second, and read again every ten seconds or when it seems to be
 * too much. A tenant may therefore exceed its quota by what it stores in a few seconds on each node.
 */
export class Quotas {
  readonly #database: pg.Pool;
  readonly #limits: QuotaLimits;
  readonly #log: Log;
  readonly #uses = new Map<string, Use>();
  readonly #owners = new Map<string, Account>();
  #ofAccounts = new Map<string, { readonly of: Account; bytes: number }>();
  #ofAgents = new Map<string, { readonly of: AgentKey; bytes: number }>();
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> | undefined;

  constructor(database: pg.Pool, quotaLimits: QuotaLimits, log: Log) {
    this.#database = database;
    this.#limits = quotaLimits;
    this.#log = log;
  }

  /** Refuses to store more, or counts it. `percent` of the quota may be used. */
  async refuse(quota: QuotaName, of: Account, more: number, percent = 100): Promise<Refusal | null> {
    const limit = (this.#limits[quota] * percent) / 100;
    const known = this.#uses.get(`${quota}/${idOf(of)}`);
    const isKnown = known && known.untilMs > Date.now() && !fullPart(known, more, limit);
    const use = isKnown ? known : await this.#read(quota, of, shareOf(limit) - more);
    const part = fullPart(use, more, limit);
    if (part) return exhausted(textOf(quota, of, use, part, this.#limits[quota]), reasons[quota]);
    use.ofTenant += more;
    if (use.ofAccount !== null) use.ofAccount += more;
    return null;
  }

  /** The same for what an agent stores. */
  async refuseAgent(quota: QuotaName, key: AgentKey, more: number): Promise<Refusal | null> {
    const owner = await this.#ownerOf(key);
    return owner ? this.refuse(quota, owner, more) : null;
  }

  /** What the tenant uses of each quota, and the caller's account. */
  async uses(of: Account) {
    const found = quotaNames.map(async (quota) => {
      const limit = this.#limits[quota];
      const known = this.#uses.get(`${quota}/${idOf(of)}`);
      const isKnown = known && known.untilMs > Date.now() + useMs - shownMs;
      const use = isKnown ? known : await this.#read(quota, of, shareOf(limit));
      return {
        quota,
        bytes: String(use.ofTenant),
        limit: String(limit),
        accountBytes: String(use.ofAccount ?? 0),
        accountLimit: String(use.isShared ? shareOf(limit) : limit),
      };
    });
    return Promise.all(found);
  }

  /** Counts what was stored. */
  stored(of: Account | AgentKey, bytes: number): void {
    if ('account' in of) addTo(this.#ofAccounts, idOf(of), of, bytes);
    else addTo(this.#ofAgents, of.id, of, bytes);
    this.#timer ??= setTimeout(() => void this.flush(), flushMs).unref();
  }

  /** Writes what was counted, so that other nodes know it. */
  async flush(): Promise<void> {
    while (this.#flushing) await this.#flushing;
    this.#flushing = this.#write().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const [accounts, agents] = [[...this.#ofAccounts.values()], [...this.#ofAgents.values()]];
    if (accounts.length + agents.length === 0) return;
    this.#ofAccounts = new Map();
    this.#ofAgents = new Map();
    try {
      const rows = await addStorageUse(
        this.#database,
        accounts.map(({ of }) => of.tenant),
        accounts.map(({ of }) => of.ownerProvider),
        accounts.map(({ of }) => of.account),
        accounts.map(({ bytes }) => bytes),
        agents.map(({ of }) => of.tenant),
        agents.map(({ of }) => of.id),
        agents.map(({ bytes }) => bytes),
      );
      for (const { tenant, owner_provider: ownerProvider, account, bytes } of rows)
        this.#forget({ tenant, ownerProvider, account }, bytes);
    } catch (error) {
      this.#log.warn({ err: error }, 'storage use not written');
      for (const { of, bytes } of [...accounts, ...agents]) this.stored(of, bytes);
    }
  }

  /** What may be nearly full is read again; runs may have stored more than their account was asked about. */
  #forget(of: Account, bytes: number): void {
    const id = `storage/${idOf(of)}`;
    const { ofTenant = 0 } = this.#uses.get(id) ?? {};
    if (Math.max(ofTenant, bytes) > shareOf(this.#limits.storage) / 2) this.#uses.delete(id);
  }

  async #read(quota: QuotaName, of: Account, share: number): Promise<Use> {
    if (quota === 'storage') await this.flush();
    const [row] = await reads[quota](
      this.#database,
      of.tenant,
      of.ownerProvider,
      of.account,
      Math.floor(share),
    );
    if (!row) throw new Error('the database did not say what is used');
    const { of_tenant: ofTenant, of_account: ofAccount, is_shared: isShared } = row;
    const use: Use = { ofTenant, ofAccount, isShared, untilMs: Date.now() + useMs };
    if (this.#uses.size >= mostKnown) this.#uses.clear();
    this.#uses.set(`${quota}/${idOf(of)}`, use);
    return use;
  }

  /** An agent has the same owner for ever. */
  async #ownerOf({ tenant, id }: AgentKey): Promise<Account | undefined> {
    const known = this.#owners.get(id);
    if (known) return known;
    const [row] = await readOwner(this.#database, tenant, id);
    if (!row) return undefined;
    const owner = { tenant, ownerProvider: row.owner_provider, account: row.account };
    if (this.#owners.size >= mostKnown) this.#owners.clear();
    this.#owners.set(id, owner);
    return owner;
  }

  /** Checks and counts what commands store. */
  around(transact: Transact): Transact {
    return {
      ...transact,
      command: async <R>(target: Wanted, command: Command, reply?: Parameters<Transact['command']>[2]) => {
        const bytes = commandBytes + heapBytesOf(command);
        const percent = admittedPercent(command);
        if (percent !== null) {
          const of = 'identity' in target ? target.identity : await this.#ownerOf(target.key);
          const full = of && (await this.refuse('storage', of, bytes, percent));
          if (full) return full;
        }
        const answer = await transact.command<R>(target, command, reply);
        if (!isRefusal(answer)) this.stored('identity' in target ? target.identity : target.key, bytes);
        return answer;
      },
    };
  }
}

/**
 * The percentage of the quota up to which a command is admitted; null: always. Runs can report and end when no new work
 * is admitted, and agents can complete their tasks.
 */
function admittedPercent({ type }: Command): number | null {
  switch (type) {
    case 'spawn':
    case 'queue':
    case 'createTasks':
      return 100;
    case 'updateTask':
    case 'answerThread':
    case 'label':
    case 'retry':
    case 'reopen':
      return 110;
    default:
      return null;
  }
}

/** Without a known use of the account, it may be too large. */
function fullPart(
  { ofTenant, ofAccount, isShared }: Use,
  more: number,
  limit: number,
): 'tenant' | 'account' | null {
  if (ofTenant + more > limit) return 'tenant';
  const share = shareOf(limit);
  if (ofTenant + more <= share) return null;
  return ofAccount === null || (isShared && ofAccount + more > share) ? 'account' : null;
}

const reasons = {
  storage: 'STORAGE_FULL',
  checkpoints: 'CHECKPOINTS_FULL',
  attachments: 'ATTACHMENTS_FULL',
} as const;

const advice = {
  storage: `what agents have written is deleted ${limits.timelineDays} days after their end; the operator can raise MUSTER_TENANT_STORAGE_MB`,
  checkpoints: `they are deleted ${limits.timelineDays} days after their agent's end; the operator can raise MUSTER_TENANT_CHECKPOINTS_MB`,
  attachments: `they are deleted ${limits.timelineDays} days after their agent's end; the operator can raise MUSTER_TENANT_ATTACHMENTS_MB`,
} as const;

function textOf(
  quota: QuotaName,
  { account }: Account,
  { ofTenant, ofAccount }: Use,
  part: 'tenant' | 'account',
  limit: number,
): string {
  const use =
    part === 'tenant'
      ? `the tenant uses ${ofTenant} of ${limit} bytes`
      : `the account "${account}" uses ${ofAccount} of ${shareOf(limit)} bytes, its share of the tenant's ${limit}`;
  return `the quota of ${quota} is used up: ${use}; ${advice[quota]}`;
}

const idOf = ({ tenant, ownerProvider, account }: Account): string => `${tenant}/${ownerProvider}/${account}`;

function addTo<T>(
  pending: Map<string, { readonly of: T; bytes: number }>,
  id: string,
  of: T,
  bytes: number,
): void {
  const known = pending.get(id);
  if (known) known.bytes += bytes;
  else pending.set(id, { of, bytes });
}
