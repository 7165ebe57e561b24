import type { NotificationDelivery } from '../contract/notification.ts';
import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import { type Caller, type CallSettings, readPages } from './caller.ts';

type DeliveryFilter = Omit<BodyOf<'listNotificationDeliveries'>, 'name'>;

/** What notifications of the catalog sent. */
export class NotificationClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** One page of what a notification sent, newest first. */
  listDeliveries(
    notification: string,
    filter: DeliveryFilter = {},
    settings: CallSettings = {},
  ): Promise<ReplyOf<'listNotificationDeliveries'>> {
    return this.#caller.call('listNotificationDeliveries', { name: notification, ...filter }, settings);
  }

  /** All that a notification sent, page by page. */
  deliveries(
    notification: string,
    filter: Omit<DeliveryFilter, 'pageToken'> = {},
    settings: CallSettings = {},
  ): AsyncGenerator<NotificationDelivery, void, void> {
    return readPages(undefined, (pageToken) =>
      this.listDeliveries(notification, { ...filter, pageToken }, settings),
    );
  }

  /** Sends a message again. */
  redeliver(
    notification: string,
    deliveryId: string,
    settings: CallSettings = {},
  ): Promise<NotificationDelivery> {
    return this.#caller.call('redeliverNotification', { name: notification, deliveryId }, settings);
  }

  /** Sends a test message, and says whether it arrived. */
  test(notification: string, settings: CallSettings = {}): Promise<NotificationDelivery> {
    return this.#caller.call('testNotification', { name: notification }, settings);
  }
}
