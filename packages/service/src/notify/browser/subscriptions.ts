import {
  type BodyOf,
  limits,
  type NotificationDelivery,
  type ReplyOf,
  usualEvents,
} from '@muster/sdk/contract';
import type pg from 'pg';
import { nameOf, type Principal } from '../../control/access/principal.ts';
import { exhausted, invalid, isRefusal, notFound, precondition, type Refusal } from '../../domain/refusal.ts';
import { type HostRule, matchesHost } from '../../lib/host-rules.ts';
import type { ServiceSecrets } from '../../lib/service-secret.ts';
import { isZone, zoneProblem } from '../../lib/zone.ts';
import { resumed } from '../../store/statements/events.ts';
import { deleteTarget, listDeliveries, readTarget } from '../../store/statements/notifications.ts';
import {
  listSubscriptions,
  type PushSettings,
  pushTarget,
  type SubscriptionRow,
  saveSubscription,
} from '../../store/statements/push.ts';
import { type Administration, deliveryOf } from '../administration.ts';
import { vapidKeys } from './browser.ts';
import { areKeys } from './encrypt.ts';
import type { VapidKey } from './vapid.ts';

export interface SubscriptionsOptions {
  readonly database: pg.Pool;
  readonly secrets: ServiceSecrets;
  readonly innerHosts: readonly HostRule[];
  readonly administration: Administration;
  /** Whether the service can send email. */
  readonly hasMail: boolean;
}

const recentDeliveries = 10;
const events = [...usualEvents, resumed];

/** The browsers of a person that show notifications. A session has one at most, which ends with it. */
export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #keys: ReadonlyMap<string, VapidKey>;

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
    this.#keys = vapidKeys(options.secrets);
  }

  async list(caller: Principal): Promise<ReplyOf<'pushSubscriptions'>> {
    const rows = await this.#rows(caller);
    const subscriptions = await Promise.all(rows.map((row) => this.#view(caller, row)));
    return { publicKey: this.#currentKey, hasMail: this.#options.hasMail, subscriptions };
  }

  /** Replaces the one of the session. */
  async subscribe(
    caller: Principal,
    request: BodyOf<'subscribePush'>,
  ): Promise<ReplyOf<'subscribePush'> | Refusal> {
    const { database, secrets } = this.#options;
    const { session } = caller;
    if (!session)
      return precondition(
        'NO_SESSION',
        'session',
        'a key has no browser: subscribe from a page of the dashboard',
      );
    const refused = this.#refuse(request);
    if (refused) return refused;
    const { endpoint, p256dh, auth, scope = 'MINE', quietHours } = request;
    const others = (await this.#rows(caller)).filter((row) => row.session !== session);
    if (others.length >= limits.pushSubscriptionsPerAccount)
      return exhausted(
        `your account has ${others.length} browsers with notifications, of ${limits.pushSubscriptionsPerAccount} at most; remove one first`,
      );
    const settings: PushSettings = {
      ...{ endpoint, p256dh, auth, secret: secrets.current.id },
      ...(quietHours && { quietHours: { ...quietHours, zone: quietHours.zone ?? 'UTC' } }),
    };
    const account = scope === 'ALL' ? '' : nameOf(caller);
    const [saved] = await saveSubscription(
      database,
      ...([caller.tenant.id, session, events, account, JSON.stringify(settings)] as const),
    );
    return saved ? { id: session } : notFound('the session has ended');
  }

  async unsubscribe(
    caller: Principal,
    { id }: BodyOf<'unsubscribePush'>,
  ): Promise<Refusal | Record<string, never>> {
    const row = await this.#row(caller, id);
    if (isRefusal(row)) return row;
    await deleteTarget(this.#options.database, caller.tenant.id, pushTarget(row.session));
    return {};
  }

  async test(caller: Principal, { id }: BodyOf<'testPush'>): Promise<NotificationDelivery | Refusal> {
    const { database, administration } = this.#options;
    const row = await this.#row(caller, id);
    if (isRefusal(row)) return row;
    const [target] = await readTarget(database, caller.tenant.id, pushTarget(row.session));
    return target ? administration.testTarget(caller.tenant, target) : notSubscribed(id);
  }

  #rows({ tenant, ownerProvider, account }: Principal): Promise<SubscriptionRow[]> {
    return listSubscriptions(this.#options.database, tenant.id, ownerProvider, account);
  }

  /** Of another account, it is as if it did not exist. */
  async #row(caller: Principal, id: string): Promise<SubscriptionRow | Refusal> {
    return (await this.#rows(caller)).find(({ session }) => session === id) ?? notSubscribed(id);
  }

  get #currentKey(): string {
    return this.#keys.get(this.#options.secrets.current.id)?.publicKey ?? '';
  }

  async #view(caller: Principal, row: SubscriptionRow) {
    const { session, settings, account } = row;
    const { tenant } = caller;
    const sent = await listDeliveries(
      this.#options.database,
      ...([tenant.id, pushTarget(session), [], null, 3 * recentDeliveries] as const),
    );
    const { quietHours, secret } = settings;
    return {
      id: session,
      userAgent: row.user_agent,
      isCurrent: session === caller.session,
      scope: account === '' ? ('ALL' as const) : ('MINE' as const),
      quietHours: quietHours ?? null,
      createdAt: row.created_at,
      publicKey: this.#keys.get(secret)?.publicKey ?? '',
      recent: sent
        .filter(({ type }) => type !== resumed)
        .slice(0, recentDeliveries)
        .map((delivery) => deliveryOf(tenant, delivery)),
    };
  }

  #refuse({ endpoint, p256dh, auth, quietHours }: BodyOf<'subscribePush'>): Refusal | null {
    const url = URL.canParse(endpoint) ? new URL(endpoint) : null;
    if (!url || !this.#mayBeCalled(url) || url.username || url.password)
      return invalid('endpoint', 'must be the https:// address that the browser got from its push service');
    if (!areKeys({ p256dh: Buffer.from(p256dh, 'base64url'), auth: Buffer.from(auth, 'base64url') }))
      return invalid(
        'p256dh',
        'must be a point of P-256 with 65 bytes, and `auth` 16 bytes, as the browser made them',
      );
    const { from, to, zone } = quietHours ?? {};
    if (from !== undefined && from === to) return invalid('quietHours.to', 'must differ from `from`');
    return zone !== undefined && !isZone(zone) ? invalid('quietHours.zone', zoneProblem(zone)) : null;
  }

  /** Without TLS only where the operator allows a host of the internal network. */
  #mayBeCalled({ protocol, hostname, port }: URL): boolean {
    const isInner = this.#options.innerHosts.some((rule) => matchesHost(rule, hostname, Number(port || 80)));
    return protocol === 'https:' || (protocol === 'http:' && isInner);
  }
}

const notSubscribed = (id: string): Refusal => notFound(`you have no browser "${id}" with notifications`);
