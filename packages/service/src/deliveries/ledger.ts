import { type BodyOf, type Delivery, type Kind, limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { refuseCreator, refuseResource } from '../control/access/permit.ts';
import type { Principal } from '../control/access/principal.ts';
import type { TenantInput } from '../control/agents/identify.ts';
import { nameTenant } from '../control/agents/identify.ts';
import type { Document } from '../control/catalog/document.ts';
import type { Control } from '../control/control.ts';
import { invalid, isRefusal, notFound, type Refusal } from '../domain/refusal.ts';
import {
  type DeliveryRow,
  listDeliveries,
  type RecipientKind,
  recipientOf,
  repeatDelivery,
} from '../store/statements/deliveries.ts';

export interface LedgerOptions {
  readonly database: pg.Pool;
  readonly control: Control;
  readonly onRedelivery: () => void;
}

interface Administered {
  readonly tenant: number;
  readonly document: Document;
}

/** What who may write a recipient does with its deliveries: lists them, and has one processed again. */
export class Ledger {
  readonly #options: LedgerOptions;
  readonly #kind: RecipientKind & Kind;

  constructor(options: LedgerOptions, kind: RecipientKind) {
    this.#options = options;
    this.#kind = kind;
  }

  async list(
    caller: Principal,
    { tenant: input, name = '', states = [], pageSize, pageToken }: BodyOf<'listDeliveries'>,
  ): Promise<
    { readonly tenant: number; readonly rows: DeliveryRow[]; readonly nextPageToken: string } | Refusal
  > {
    const found = await this.administered(caller, input, name);
    if (isRefusal(found)) return found;
    const { tenant } = found;
    const { database, control } = this.#options;
    const recipient = recipientOf(this.#kind, name);
    const list = `deliveries/${tenant}/${recipient}`;
    const place = pageToken ? control.pageTokens.open(list, pageToken) : '';
    if (isRefusal(place)) return place;
    const [at = 'infinity', id = ''] = place ? (JSON.parse(place) as string[]) : [];
    const limit = pageSize || limits.pageSize;
    const rows = await listDeliveries(database, tenant, recipient, states, at, id, limit + 1);
    const shown = rows.slice(0, limit);
    const last = shown.at(-1);
    const next = rows.length > limit && last ? JSON.stringify([last.received_at, last.id]) : '';
    return { tenant, rows: shown, nextPageToken: next && control.pageTokens.seal(list, next) };
  }

  async redeliver(
    caller: Principal,
    { tenant: input, name = '', deliveryId = '' }: BodyOf<'redeliver'>,
  ): Promise<{ readonly tenant: number; readonly row: DeliveryRow } | Refusal> {
    const found = await this.administered(caller, input, name);
    if (isRefusal(found)) return found;
    if (!deliveryId) return invalid('deliveryId', 'is required: the id of a delivery');
    const { tenant } = found;
    const [row] = await repeatDelivery(
      this.#options.database,
      tenant,
      recipientOf(this.#kind, name),
      deliveryId,
    );
    if (!row)
      return notFound(`the ${this.#kind} "${name}" has no delivery "${deliveryId}" whose body is kept`);
    this.#options.onRedelivery();
    return { tenant, row };
  }

  /** A recipient that the caller may administer, and its tenant. */
  async administered(caller: Principal, input: TenantInput, name: string): Promise<Administered | Refusal> {
    const kind = this.#kind;
    if (!name)
      return invalid('name', `is required: the name of ${kind === 'integration' ? 'an' : 'a'} ${kind}`);
    const { tenants, catalog } = this.#options.control;
    const tenant =
      refuseResource(caller, nameTenant(input, caller), kind) ?? (await tenants.named(input, caller));
    if (isRefusal(tenant)) return tenant;
    const document = await catalog.document(tenant, kind, name);
    if (!document) return notFound(`${kind} "${name}" not found`);
    return refuseCreator(caller, kind, document.createdBy) ?? { tenant, document };
  }
}

export const deliveryOf = (row: DeliveryRow): Delivery => ({
  deliveryId: row.id,
  event: row.event,
  subject: row.subject,
  state: row.state,
  reason: row.reason,
  attempts: row.attempts,
  bytes: row.bytes,
  receivedAt: row.received_at,
  settledAt: row.settled_at,
});
