import { hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import type { IntegrationDocument } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Keys } from '../control/access/keys.ts';
import { shareQueries } from '../control/batches/shared-queries.ts';
import { FairShare } from '../control/batches/tenant-limits.ts';
import type { Catalog } from '../control/catalog/catalog.ts';
import { readBody } from '../lib/read-body.ts';
import {
  countWaiting,
  findHook,
  insertDeliveries,
  type NewDelivery,
} from '../store/statements/deliveries.ts';
import type { Headers } from '../work/host-error.ts';
import type { HostType } from './host.ts';
import { readers } from './hosts.ts';
import { typeOf } from './integrations.ts';

const compress = promisify(gzip);

/** How long what is known of a webhook is used without asking the database again. */
const trustMs = 3_000;
const mostHooks = 10_000;
/** How long a delivery may take to arrive. */
const arrivalMs = 30_000;
/** Larger ones are written alone. */
const smallBytes = 64 * 1024;

interface Hook {
  readonly tenant: number;
  readonly integration: string;
  readonly type: HostType;
  /** The keys that the host may sign with. */
  readonly secrets: readonly string[];
}

interface TrustedHook {
  readonly hook: Hook | null;
  readonly untilMs: number;
}

export type Received = 'accepted' | 'unknown' | 'unsigned' | 'too-large' | 'busy' | 'cut';

export interface ReceiverOptions {
  readonly database: pg.Pool;
  readonly catalog: Catalog;
  readonly keys: Keys;
  /** Called when a delivery is stored. */
  readonly onDelivery: () => void;
}

/**
 * Receives deliveries: checks the signature over the body as it arrives, and stores the delivery compressed. The host
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

  async receive(id: string, headers: Headers, body: Readable): Promise<Received> {
    const hook = await this.#hook(id);
    if (!hook) return 'unknown';
    const reader = readers[hook.type];
    const signature = reader.signature(headers, hook.secrets);
    if (!signature) return 'unsigned';
    const declared = Number(headers['content-length'] ?? limits.deliveryBytes);
    if (declared > limits.deliveryBytes) return 'too-large';
    if (await this.#isFull(hook.tenant)) return 'busy';
    if (!this.#bytes.take(hook.tenant, declared)) return 'busy';
    try {
      const bytes = await readBody(body, { bytes: declared, arrivalMs }, (chunk) => signature.update(chunk));
      if (typeof bytes === 'string') return bytes;
      if (!signature.isValid()) return 'unsigned';
      const { id: deliveryId, event } = reader.identify(headers, hash('sha256', bytes, 'hex'));
      const delivery = {
        tenant: hook.tenant,
        integration: hook.integration,
        id: deliveryId.slice(0, limits.deliveryIdLength),
        event: event.slice(0, limits.deliveryIdLength),
        headers: JSON.stringify(describing(headers)),
        body: await compress(bytes, { level: constants.Z_BEST_SPEED }),
        bytes: bytes.length,
      };
      await (bytes.length > smallBytes
        ? insertDeliveries(this.#options.database, [delivery])
        : this.#store(delivery));
      this.#options.onDelivery();
      return 'accepted';
    } finally {
      this.#bytes.release(hook.tenant, declared);
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
    // What is read while an integration changes goes into the map from before.
    const hooks = this.#hooks;
    const known = hooks.get(id);
    if (known && known.untilMs > Date.now()) return known.hook;
    const hook = await this.#find(id);
    if (hooks.size >= mostHooks) hooks.clear();
    hooks.set(id, { hook, untilMs: Date.now() + trustMs });
    return hook;
  }

  async #read(id: string): Promise<Hook | null> {
    const { database, catalog } = this.#options;
    const [row] = await findHook(database, id);
    if (!row) return null;
    const { tenant, integration } = row;
    const document = (await catalog.document(tenant, 'integration', integration)) as IntegrationDocument;
    const type = document && typeOf(document);
    if (!type) return null;
    const { webhookSecret } = document;
    if (!webhookSecret)
      return { tenant, integration, type, secrets: await catalog.secrets.signingKeys(tenant, integration) };
    // A host that makes its own key signs with that one only.
    const found = await catalog.secrets.value(tenant, webhookSecret.fromSecret);
    return { tenant, integration, type, secrets: 'value' in found ? [found.value.trim()] : [] };
  }
}

const describingName =
  /^(content-type|webhook-id|idempotency-key|x-(github|gitlab|gitea|forgejo|gogs)-[a-z-]+)$/;
const secretName = /token|signature/;

/** The headers that say what a delivery is. Those with its signature or a secret are not stored. */
const describing = (headers: Headers): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value !== undefined && describingName.test(name) && !secretName.test(name)
        ? [[name, value.slice(0, 1024)]]
        : [],
    ),
  );
