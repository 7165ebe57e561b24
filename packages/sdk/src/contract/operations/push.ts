import { emptyReply } from '../agent.ts';
import { notificationDelivery } from '../notification.ts';
import * as push from '../push.ts';
import type { Operations } from './operation.ts';

export const pushOperations = {
  pushSubscriptions: {
    summary: 'Lists your browsers that show notifications, and what was sent to each lately.',
    access: 'person',
    body: push.pushSubscriptionsRequest,
    reply: push.pushSubscriptionsReply,
    example: {},
  },
  subscribePush: {
    summary: 'Sends notifications to the browser of this session, until the session ends.',
    access: 'person',
    body: push.subscribePushRequest,
    reply: push.subscribePushReply,
  },
  unsubscribePush: {
    summary: 'Sends no more notifications to one of your browsers.',
    access: 'person',
    body: push.pushSubscriptionRequest,
    reply: emptyReply,
  },
  testPush: {
    summary: 'Sends a test to one of your browsers, and says whether its push service took it.',
    access: 'person',
    body: push.pushSubscriptionRequest,
    reply: notificationDelivery,
  },
} as const satisfies Operations;
