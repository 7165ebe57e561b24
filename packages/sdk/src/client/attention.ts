import type { NotificationDelivery } from '../contract/notification.ts';
import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import type { Caller, CallSettings } from './caller.ts';
import { NotificationClient } from './notifications.ts';
import { UsageClient } from './usage.ts';

/** What a person has seen, and what notifies the person. */
export class AttentionClient extends UsageClient {
  readonly notifications: NotificationClient;
  readonly #caller: Caller;

  constructor(caller: Caller) {
    super(caller);
    this.#caller = caller;
    this.notifications = new NotificationClient(caller);
  }

  /** Records which agents you have seen, up to which entry of their timelines, and which you pinned. */
  markAgents(
    marks: BodyOf<'markAgents'>['marks'],
    settings: CallSettings = {},
  ): Promise<ReplyOf<'markAgents'>> {
    return this.#caller.call('markAgents', { marks }, settings);
  }

  /** Your browsers that show notifications, and the key for which a new one subscribes. */
  pushSubscriptions(settings: CallSettings = {}): Promise<ReplyOf<'pushSubscriptions'>> {
    return this.#caller.call('pushSubscriptions', {}, settings);
  }

  /** Sends notifications to the browser of this session. */
  subscribePush(
    subscription: BodyOf<'subscribePush'>,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'subscribePush'>> {
    return this.#caller.call('subscribePush', subscription, settings);
  }

  unsubscribePush(id: string, settings: CallSettings = {}): Promise<ReplyOf<'unsubscribePush'>> {
    return this.#caller.call('unsubscribePush', { id }, settings, {
      whenRepeated: async ({ status }) => (status === 'NOT_FOUND' ? {} : undefined),
    });
  }

  /** Sends a test to a browser. */
  testPush(id: string, settings: CallSettings = {}): Promise<NotificationDelivery> {
    return this.#caller.call('testPush', { id }, settings);
  }
}
