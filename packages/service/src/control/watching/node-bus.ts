import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { Effect } from '../../domain/decision.ts';
import type { Log } from '../../lib/log.ts';
import type { OtherWorkers } from '../../lib/worker-channel.ts';
import { keyColumns } from '../../store/agent-store.ts';
import type { DatabaseConfig } from '../../store/connection.ts';
import { peekAgents } from '../../store/statements/find-agents.ts';
import { commitsChannel, liveChannel, notifyOfCommits } from '../../store/statements/watches.ts';
import { type CommittedChanges, changesOf, type Wakes } from './wakes.ts';

const coalesceMs = 10;
/** After a failure to send or to listen. */
const retryMs = 500;
/** PostgreSQL refuses a payload of 8,000 bytes. */
export const payloadBytes = 7_500;
const agentsPerPayload = 100;
const maxPayloads = 20;
/** How often the listener is checked, and how long its server may be silent: a lost machine closes no connection. */
const heartbeatMs = 2_000;
const silenceMs = 5_000;
/** How often list streams start again where no session can listen. */
const listRefreshMs = 5_000;

export interface NodeBusOptions {
  readonly database: pg.Pool;
  readonly connection: DatabaseConfig;
  readonly wakes: Wakes;
  readonly log: Log;
  readonly workers: OtherWorkers | null;
}

/**
 * Notifies the other nodes of changes and receives their notifications. No domain transaction notifies: the lock behind
 * NOTIFY would serialize every commit. Instead a node sends one notification for all its commits, at most every 10 ms.
 * Workers of the same service tell each other immediately, without the database; with the embedded server there are no others.
 */
export class NodeBus {
  readonly node: string = randomUUID();
  readonly #database: pg.Pool;
  readonly #connection: DatabaseConfig;
  readonly #wakes: Wakes;
  readonly #log: Log;
  /** The other workers of this service that have told of a commit. */
  readonly #workers = new Set<string>();
  #agents = new Map<string, number>();
  #pools = new Map<string, { tenant: number; pool: string }>();
  #runners = new Set<string>();
  #deletedIn = new Set<number>();
  #timer: NodeJS.Timeout | null = null;
  /** Some changes could not be sent. */
  #hasUnsent = false;
  #listener: pg.Client | null = null;
  #listRefresh: NodeJS.Timeout | null = null;
  #hasListened = false;
  #isClosed = false;
  /** Called with live output that another node passes on. */
  onLive: (payload: string) => void = () => {};

  constructor({ database, connection, wakes, log, workers }: NodeBusOptions) {
    this.#database = database;
    this.#connection = connection;
    this.#wakes = wakes;
    this.#log = log;
    wakes.onEffects = (effects) => {
      workers?.tell('committed', { node: this.node, effects });
      this.#collect(changesOf(effects));
    };
    workers?.on('committed', ({ node, effects }) => {
      this.#workers.add(node);
      wakes.wake(effects as readonly Effect[]);
    });
  }

  async listen(): Promise<void> {
    if (this.#isClosed) return;
    if (this.#connection.isPooled) {
      // The timers look at everything else every second.
      this.#listRefresh = setInterval(() => this.#wakes.missed(), listRefreshMs);
      return;
    }
    const client = new pg.Client({
      application_name: 'muster-listen',
      connectionTimeoutMillis: silenceMs,
      query_timeout: silenceMs,
      ...this.#connection,
    });
    let heartbeat: NodeJS.Timeout | undefined;
    const reconnect = (): void => {
      clearTimeout(heartbeat);
      if (this.#listener !== client || this.#isClosed) return;
      this.#listener = null;
      client.end().catch(() => {});
      setTimeout(() => this.listen().catch(() => {}), retryMs).unref();
    };
    this.#listener = client;
    client.on('error', reconnect);
    client.on('end', reconnect);
    client.on('notification', (message) => {
      if (message.channel === liveChannel) return this.onLive(message.payload ?? '');
      this.#receive(message.payload ?? '').catch((error) =>
        this.#log.warn({ err: error }, 'notification failed'),
      );
    });
    try {
      await client.connect();
      for (const name of [commitsChannel, liveChannel]) await client.query(`LISTEN ${name}`);
      if (this.#hasListened) this.#wakes.missed();
      this.#hasListened = true;
      const check = (): void => {
        heartbeat = setTimeout(() => client.query('SELECT').then(check, reconnect), heartbeatMs).unref();
      };
      check();
    } catch (error) {
      this.#log.warn({ err: error }, 'listening for notifications failed');
      reconnect();
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#listRefresh) clearInterval(this.#listRefresh);
    await this.#listener?.end().catch(() => {});
  }

  #collect(changes: CommittedChanges): void {
    if (this.#connection.isOwn) return;
    for (const { tenant, id } of changes.agents) this.#agents.set(id, tenant);
    for (const pool of changes.pools) this.#pools.set(`${pool.tenant}/${pool.pool}`, pool);
    for (const runner of changes.runners) this.#runners.add(runner);
    for (const tenant of changes.deletedIn) this.#deletedIn.add(tenant);
    this.#timer ??= setTimeout(() => this.#send(), coalesceMs);
  }

  #send(): void {
    this.#timer = null;
    const agents = [...this.#agents].map(([id, tenant]) => ({ tenant, id }));
    const others = {
      pools: [...this.#pools.values()],
      runners: [...this.#runners],
      ...(this.#deletedIn.size > 0 && { deletedIn: [...this.#deletedIn] }),
    };
    this.#agents = new Map();
    this.#pools = new Map();
    this.#runners = new Set();
    this.#deletedIn = new Set();
    if (this.#isClosed) return;
    const payloads = chunks(agents, agentsPerPayload).map((some, i) =>
      JSON.stringify({ node: this.node, agents: some, ...(i === 0 && others) }),
    );
    const isTooMuch = payloads.some((payload) => Buffer.byteLength(payload) > payloadBytes);
    const isMany = this.#hasUnsent || isTooMuch || payloads.length > maxPayloads;
    this.#hasUnsent = false;
    const sent = isMany ? [JSON.stringify({ node: this.node, many: true })] : payloads;
    Promise.all(sent.map((payload) => notifyOfCommits(this.#database, payload))).catch(() => {
      // The other nodes look at what they watch every second; lists depend on this notification.
      this.#hasUnsent = true;
      this.#timer ??= setTimeout(() => this.#send(), retryMs);
    });
  }

  async #receive(payload: string): Promise<void> {
    const changes = changesIn(payload);
    if (changes.node === this.node || this.#workers.has(changes.node ?? '')) return;
    for (const { tenant, pool } of changes.pools ?? []) this.#wakes.work(tenant, pool);
    for (const runner of changes.runners ?? []) this.#wakes.runner(runner);
    for (const tenant of changes.deletedIn ?? []) this.#wakes.deleted(tenant);
    const watched = this.#wakes.watched();
    const keys = changes.many
      ? watched.agents
      : (changes.agents ?? []).filter(({ id }) => this.#wakes.isWatching(id));
    if (changes.many) {
      this.#wakes.missed();
      for (const poller of watched.pollers) poller.wake();
    }
    if (keys.length === 0) return;
    const rows = await peekAgents(this.#database, ...keyColumns(keys));
    for (const row of rows) this.#wakes.changed(row, row);
  }
}

type Notification = Partial<CommittedChanges> & { readonly node?: string; readonly many?: boolean };

/** A payload that this build can't read is from a node of another version: something changed, and it is unknown what. */
export function changesIn(payload: string): Notification {
  try {
    const changes = JSON.parse(payload) as Notification | null;
    if (changes?.many === true || Array.isArray(changes?.agents)) return changes;
  } catch {
    // Not JSON.
  }
  return { many: true };
}

/** At least one chunk, which may be empty. */
function chunks<T>(all: readonly T[], size: number): T[][] {
  const found: T[][] = [];
  for (let i = 0; i === 0 || i < all.length; i += size) found.push(all.slice(i, i + size));
  return found;
}
