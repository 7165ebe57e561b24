import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import type { TriggerDelivery } from '../contract/trigger.ts';
import { type Caller, type CallSettings, type Page, readPages } from './caller.ts';

type DeliveryFilter = Omit<BodyOf<'listTriggerDeliveries'>, 'name'>;

/** The requests that triggers of the catalog received. */
export class TriggerClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** One page of the requests that it received, newest first. */
  listDeliveries(
    name: string,
    filter: DeliveryFilter = {},
    settings: CallSettings = {},
  ): Promise<Page<TriggerDelivery>> {
    return this.#caller.call('listTriggerDeliveries', { ...filter, name }, settings);
  }

  /** All of them, page by page. */
  deliveries(
    name: string,
    filter: Omit<DeliveryFilter, 'pageToken'> = {},
    settings: CallSettings = {},
  ): AsyncGenerator<TriggerDelivery, void, void> {
    return readPages(undefined, (pageToken) => this.listDeliveries(name, { ...filter, pageToken }, settings));
  }

  /** Processes a request again. One that took effect has no further one. */
  redeliver(name: string, deliveryId: string, settings: CallSettings = {}): Promise<TriggerDelivery> {
    return this.#caller.call('redeliverToTrigger', { name, deliveryId }, settings);
  }

  /** Checks what it needs, and says what is missing. */
  test(name: string, settings: CallSettings = {}): Promise<ReplyOf<'testTrigger'>> {
    return this.#caller.call('testTrigger', { name }, settings);
  }
}
