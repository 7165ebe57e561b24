import type { BodyOf, NotificationDelivery, ReplyOf, Tenant } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { refuseNotification, refuseResource } from '../control/access/permit.ts';
import type { Principal } from '../control/access/principal.ts';
import type { Tenants } from '../control/access/tenants.ts';
import { nameTenant, type TenantInput } from '../control/agents/identify.ts';
import type { PageTokens } from '../control/agents/page-tokens.ts';
import { invalid, isRefusal, notFound, precondition, type Refusal, tooSoon } from '../domain/refusal.ts';
import {
  askForLook,
  type DeliveryRow,
  insertTest,
  listDeliveries,
  readDelivery,
  readTarget,
  repeatDelivery,
  type TargetRow,
} from '../store/statements/notifications.ts';
import type { Deliverer } from './deliver.ts';

export interface AdministrationOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
  readonly pageTokens: PageTokens;
  readonly deliverer: Deliverer;
  /** Called when something is to be sent. */
  readonly nudge: () => void;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** What people do with a notification: see what it sent, send one again, send a test. */
export class Administration {
  readonly #options: AdministrationOptions;

  constructor(options: AdministrationOptions) {
    this.#options = options;
  }

  async deliveries(
    caller: Principal,
    { tenant: input, name = '', states = [], pageSize, pageToken }: BodyOf<'listNotificationDeliveries'>,
  ): Promise<ReplyOf<'listNotificationDeliveries'> | Refusal> {
    const target = await this.#target(caller, input, name);
    if (isRefusal(target)) return target;
    const { database, pageTokens } = this.#options;
    const list = `notifications/${target.tenant}/${name}`;
    const place = pageToken ? pageTokens.open(list, pageToken) : '';
    if (isRefusal(place)) return place;
    const limit = pageSize || limits.pageSize;
    const before = place ? Number(place) : null;
    const rows = await listDeliveries(database, target.tenant, name, states, before, limit + 1);
    const last = rows.length > limit ? rows[limit - 1] : undefined;
    return {
      entries: rows.slice(0, limit).map((row) => deliveryOf(nameTenant(input, caller), row)),
      nextPageToken: last ? pageTokens.seal(list, String(last.id)) : '',
    };
  }

  async redeliver(
    caller: Principal,
    { tenant: input, name = '', deliveryId = '' }: BodyOf<'redeliverNotification'>,
  ): Promise<NotificationDelivery | Refusal> {
    const target = await this.#target(caller, input, name);
    if (isRefusal(target)) return target;
    if (!deliveryId) return invalid('deliveryId', 'is required: the id of a delivery');
    const { database, nudge } = this.#options;
    const { tenant } = target;
    const [found] = uuid.test(deliveryId) ? await readDelivery(database, tenant, name, deliveryId) : [];
    if (!found) return notFound(`the notification "${name}" has no delivery "${deliveryId}"`);
    if (target.paused)
      return precondition(
        'PAUSED',
        name,
        `the notification "${name}" is paused: set \`paused\` to false first`,
      );
    await repeatDelivery(database, tenant, name, deliveryId);
    await askForLook(database, tenant, name);
    nudge();
    const [row = found] = await readDelivery(database, tenant, name, deliveryId);
    return deliveryOf(nameTenant(input, caller), row);
  }

  /** Also one that is paused. */
  async test(
    caller: Principal,
    { tenant: input, name = '' }: BodyOf<'testNotification'>,
  ): Promise<NotificationDelivery | Refusal> {
    const target = await this.#target(caller, input, name);
    return isRefusal(target) ? target : this.testTarget(nameTenant(input, caller), target);
  }

  async testTarget(tenant: Tenant, target: TargetRow): Promise<NotificationDelivery | Refusal> {
    const { database, deliverer } = this.#options;
    const { name } = target;
    const [test] = await insertTest(database, target.tenant, name);
    if (!test) return tooSoon(`the notification "${name}" was tested many times in the last minute`, 60);
    await deliverer.test(target, test);
    const [row] = await readDelivery(database, target.tenant, name, test.message_id);
    return row ? deliveryOf(tenant, row) : notFound(`the notification "${name}" was deleted`);
  }

  async #target(caller: Principal, input: TenantInput, name: string): Promise<TargetRow | Refusal> {
    const { database, tenants } = this.#options;
    const refused = refuseResource(caller, nameTenant(input, caller), 'notification');
    if (refused) return refused;
    const tenant = await tenants.named(input, caller);
    if (isRefusal(tenant)) return tenant;
    const [target] = await readTarget(database, tenant, name);
    if (!target) return notFound(`notification "${name}" not found`);
    return refuseNotification(caller, target) ?? target;
  }
}

export function deliveryOf(tenant: Tenant, row: DeliveryRow): NotificationDelivery {
  const { owner_provider: ownerProvider, account, workspace, path } = row;
  return {
    deliveryId: row.message_id,
    type: row.type,
    agentId: ownerProvider && { tenant, ownerProvider, account, workspace, agent: path.split('/') },
    name: row.name,
    state: row.state,
    error: row.error,
    attempts: row.attempts,
    digestId: row.digest_id,
    at: row.at,
    settledAt: row.settled_at,
    nextAt: row.next_at,
  };
}
