import type { Tenant } from '@muster/sdk/contract';
import type { Tenants } from '../control/access/tenants.ts';
import type { Catalog } from '../control/catalog/catalog.ts';
import type { NotificationSettings } from '../control/catalog/kinds/notification.ts';
import { pauseDocument } from '../control/catalog/pause-document.ts';
import type { HostRule } from '../lib/host-rules.ts';
import { HostError } from '../work/host-error.ts';
import { type Post, post } from '../work/post.ts';
import { GoneError, type Target } from './channel.ts';

export interface SenderOptions {
  readonly catalog: Catalog;
  readonly tenants: Tenants;
  readonly innerHosts: readonly HostRule[];
  readonly signal: AbortSignal;
}

/** A slow target gets more time than this with the next attempt. */
const timeoutMs = 15_000;

/** What the channels of documents of the kind notification share. */
export class Sender {
  readonly #options: SenderOptions;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** The address of a target, from its document or from a secret. No error shows it. */
  async url({ tenant, settings }: Target): Promise<URL> {
    const { url } = settings as NotificationSettings;
    if (!url) throw new HostError('refused', 0, 'url: is not set; set it in the notification');
    const text = typeof url === 'string' ? url : await this.#secret(tenant, url.fromSecret);
    const parsed = URL.canParse(text) ? new URL(text) : null;
    if (parsed?.protocol === 'https:' || parsed?.protocol === 'http:') return parsed;
    throw new HostError('refused', 0, 'url: expected a URL that begins with https:// or http://');
  }

  async #secret(tenant: number, name: string): Promise<string> {
    const found = await this.#options.catalog.secrets.value(tenant, name);
    if ('value' in found) return found.value.trim();
    throw new HostError('unknown', 0, `url: ${found.problem}`);
  }

  signingKeys(tenant: number, name: string): Promise<string[]> {
    return this.#options.catalog.secrets.signingKeys(tenant, 'notification', name);
  }

  tenantName(tenant: number): Promise<Tenant> {
    return this.#options.tenants.name(tenant);
  }

  /** Throws a `GoneError` if the status says that there is nobody any more. */
  async post(request: Post, isGone: (status: number) => boolean): Promise<void> {
    const { innerHosts, signal } = this.#options;
    try {
      await post(request, { innerHosts, signal, timeoutMs });
    } catch (error) {
      if (error instanceof HostError && isGone(error.status)) throw new GoneError(error.message);
      throw error;
    }
  }

  async pause({ tenant, name }: Target, reason: string): Promise<void> {
    await pauseDocument(this.#options, tenant, 'notification', name, reason);
  }
}
