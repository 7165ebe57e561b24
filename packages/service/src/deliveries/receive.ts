import { hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Keys } from '../control/access/keys.ts';
import { shareQueries } from '../control/batches/shared-queries.ts';
import { FairShare } from '../control/batches/tenant-limits.ts';
import { readBody } from '../lib/read-body.ts';
import {
  countWaiting,
  findHook,
  insertDeliveries,
  type NewDelivery,
  type RecipientKind,
  recipientIn,
} from '../store/statements/deliveries.ts';
import type { Headers } from '../work/host-error.ts';
import type { SignatureCheck } from './signatures.ts';

const compress = promisify(gzip);

/** How long what is known of a webhook is used without asking the database again. */
const trustMs = 3_000;
const mostHooks = 10_000;
/** How long a delivery may take to arrive. */
const arrivalMs = 30_000;
/** Larger ones are written alone. */
const smallBytes = 64 * 1024;

/** Who receives deliveries at an address, as it is now. */
export interface Recipient {
  readonly mostBytes: number;
  /** Null if the headers have no signature that could be right. */
  signature(headers: Headers): SignatureCheck | null;
  /** The id of a delivery and its event; `digest` is that of its body. */
  identify(headers: Headers, digest: string): { readonly id: string; readonly event: string };
  /** What is stored of the headers and of the query: nothing with the signature or a secret. */
  describe(headers: Headers, query: string): Readonly<Record<string, string>>;
}

/** Null: it has no address now. */
export type FindRecipient = (tenant: number, name: string) => Promise<Recipient | null>;

interface Hook {
  readonly tenant: number;
  /** As the column has it. */
  readonly column: string;
  readonly recipient: Recipient;
}

interface TrustedHook {
  readonly hook: Hook | null;
  readonly untilMs: number;
}

export type Received = 'accepted' | 'unknown' | 'unsigned' | 'busy' | 'cut' | { readonly mostBytes: number };

export interface ReceiverOptions {
  readonly database: pg.Pool;
  readonly keys: Keys;
  readonly recipients: Readonly<Record<RecipientKind, FindRecipient>>;
  /** Called when a delivery is stored. */
  readonly onDelivery: () => void;
}

/**
 * Receives deliveries: checks the signature over the body as it arrives, and stores the delivery compressed. The sender
 * waits for no more than that; the delivery is processed later.
 */
export class Receiver {
  readonly #options: ReceiverOptions;
  #hooks = new Map<string, TrustedHook>();
  readonly #waiting = new Map<number, { readonly isFull: Promise<boolean>; readonly untilMs: number }>();
  /** A tenant alone gets half of them. */
  readonly #bytes = new FairShare(2 * limits.deliveryBytesInFlight);
  readonly #find: (id: string) => Promise<Hook | null>;
  readonly #store: (delivery: NewDelivery) => Promise<unknown>;

  constructor(options: ReceiverOptions) {
    const { database, keys } = options;
    this.#options = options;
    // A replaced key stops working with the reply to the write; on other nodes, when it is no longer trusted.
    keys.onChange(() => {
      this.#hooks = new Map();
    });
    this.#find = shareQueries((ids) => Promise.all(ids.map((id) => this.#read(id))));
    this.#store = shareQueries(
      async (deliveries) => {
        await insertDeliveries(database, deliveries);
        return deliveries;
      },
      { maxBatch: 64, tenantOf: ({ tenant }) => tenant },
    );
  }

  async receive(id: string, query: string, headers: Headers, body: Readable): Promise<Received> {
    const hook = await this.#hook(id);
    if (!hook) return 'unknown';
    const { tenant, column, recipient } = hook;
    const { mostBytes } = recipient;
    const signature = recipient.signature(headers);
    if (!signature) return 'unsigned';
    const declared = Number(headers['content-length'] ?? mostBytes);
    if (declared > mostBytes) return { mostBytes };
    if (await this.#isFull(tenant)) return 'busy';
    if (!this.#bytes.take(tenant, declared)) return 'busy';
    try {
      const bytes = await readBody(body, { bytes: declared, arrivalMs }, (chunk) => signature.update(chunk));
      if (bytes === 'cut') return bytes;
      if (bytes === 'too-large') return { mostBytes };
      if (!signature.isValid()) return 'unsigned';
      const { id: deliveryId, event } = recipient.identify(headers, hash('sha256', bytes, 'hex'));
      const delivery = {
        tenant,
        integration: column,
        id: deliveryId.slice(0, limits.deliveryIdLength),
        event: event.slice(0, limits.deliveryIdLength),
        headers: JSON.stringify(recipient.describe(headers, query)),
        body: await compress(bytes, { level: constants.Z_BEST_SPEED }),
        bytes: bytes.length,
      };
      await (bytes.length > smallBytes
        ? insertDeliveries(this.#options.database, [delivery])
        : this.#store(delivery));
      this.#options.onDelivery();
      return 'accepted';
    } finally {
      this.#bytes.release(tenant, declared);
    }
  }

  /** Whether as many deliveries of a tenant wait as may, as of a moment ago. */
  #isFull(tenant: number): Promise<boolean> {
    const known = this.#waiting.get(tenant);
    if (known && known.untilMs > Date.now()) return known.isFull;
    const most = limits.deliveriesWaitingPerTenant;
    const isFull = countWaiting(this.#options.database, tenant, most).then(
      ([row]) => (row?.waiting ?? 0) >= most,
    );
    isFull.catch(() => this.#waiting.delete(tenant));
    if (this.#waiting.size >= mostHooks) this.#waiting.clear();
    this.#waiting.set(tenant, { isFull, untilMs: Date.now() + trustMs });
    return isFull;
  }

  async #hook(id: string): Promise<Hook | null> {
    // What is read while a recipient changes goes into the map from before.
    const hooks = this.#hooks;
    const known = hooks.get(id);
    if (known && known.untilMs > Date.now()) return known.hook;
    const hook = await this.#find(id);
    if (hooks.size >= mostHooks) hooks.clear();
    hooks.set(id, { hook, untilMs: Date.now() + trustMs });
    return hook;
  }

  async #read(id: string): Promise<Hook | null> {
    const [row] = await findHook(this.#options.database, id);
    if (!row) return null;
    const { tenant, integration: column } = row;
    const { kind, name } = recipientIn(column);
    const recipient = await this.#options.recipients[kind](tenant, name);
    return recipient && { tenant, column, recipient };
  }
}
