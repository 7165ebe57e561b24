import { timingSafeEqual } from 'node:crypto';
import type { Tenant } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Tenants } from '../control/access/tenants.ts';
import type { NotificationSettings } from '../control/catalog/kinds/notification.ts';
import type { ServiceSecret, ServiceSecrets } from '../lib/service-secret.ts';
import { readTarget, type TargetRow } from '../store/statements/notifications.ts';
import type { Target } from './channel.ts';

export interface UnsubscribeOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
  readonly secrets: ServiceSecrets;
  readonly publicUrl: () => string;
}

/** What is behind `/unsubscribe/` in a link. */
export interface LinkParts {
  readonly tenant: string;
  readonly name: string;
  readonly signature: string;
}

/**
 * Links in mail that end a notification. They are signed, and hold while the notification has the same addresses: another
 * one that later has its name is not ended by them.
 */
export class UnsubscribeLinks {
  readonly #options: UnsubscribeOptions;

  constructor(options: UnsubscribeOptions) {
    this.#options = options;
  }

  async url(target: Target): Promise<string> {
    const { tenants, secrets, publicUrl } = this.#options;
    const tenant = await tenants.name(target.tenant);
    const signature = signatureOf(secrets.current, tenant, target);
    return `${publicUrl()}/unsubscribe/${target.tenant}/${target.name}/${signature}`;
  }

  /** The notification that a link ends; null if it is not a link of this service, or none any more. */
  async find({ tenant, name, signature }: LinkParts): Promise<TargetRow | null> {
    const { database, tenants, secrets } = this.#options;
    const id = /^\d{1,9}$/.test(tenant) ? Number(tenant) : 0;
    const [target] = await readTarget(database, id, name);
    if (!target) return null;
    const tenantName = await tenants.name(id);
    const isSigned = secrets.all.some((secret) => isSame(signatureOf(secret, tenantName, target), signature));
    return isSigned ? target : null;
  }
}

function signatureOf(secret: ServiceSecret, { provider, org }: Tenant, { name, settings }: Target): string {
  const { to = [] } = settings as NotificationSettings;
  return secret.hmac('unsubscribe', provider, org, name, ...to);
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
