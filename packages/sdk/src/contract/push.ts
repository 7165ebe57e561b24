import { notificationDelivery } from './notification.ts';
import { type Infer, list, nullable, reply, request, requestWith, text, timestamp } from './schema.ts';

/** Notifications that browsers show, also while no page is open (Web Push). */
export const pushScopes = ['MINE', 'ALL'] as const;

const scope = { type: 'string', enum: pushScopes } as const;

const timeOfDay = {
  type: 'string',
  pattern: '^([01]\\d|2[0-3]):[0-5]\\d$',
  expected: 'a time of day such as 22:00',
} as const;

const base64url = (length: number) =>
  ({
    type: 'string',
    pattern: `^[\\w-]{1,${length}}=*$`,
    expected: 'a key of the browser, in base64url',
  }) as const;

export const pushSubscription = reply('PushSubscription', {
  id: text,
  userAgent: { ...text, description: 'Of the browser, as it signed in.' },
  isCurrent: { type: 'boolean', description: 'It belongs to the session that asks.' },
  scope: {
    ...scope,
    description: 'MINE: about the agents of your account. ALL: about all that you may read.',
  },
  quietHours: nullable(reply('QuietHours', { from: text, to: text, zone: text })),
  createdAt: timestamp,
  publicKey: { ...text, description: 'The key of the service for which the browser subscribed.' },
  recent: { ...list(notificationDelivery), description: 'What was sent to it lately, the newest first.' },
});
export type PushSubscription = Infer<typeof pushSubscription>;

export const pushSubscriptionsRequest = request('PushSubscriptionsRequest', {});
export const pushSubscriptionsReply = reply('PushSubscriptionsReply', {
  publicKey: { ...text, description: '`applicationServerKey` of a new subscription.' },
  hasMail: { type: 'boolean', description: 'Whether the service can send email.' },
  subscriptions: list(pushSubscription),
});

export const subscribePushRequest = requestWith('SubscribePushRequest', ['endpoint', 'p256dh', 'auth'], {
  endpoint: {
    type: 'string',
    maxLength: 2048,
    expected: 'the address that the browser got from its push service',
  },
  p256dh: base64url(88),
  auth: base64url(24),
  scope: { ...scope, description: 'Default: MINE.' },
  quietHours: {
    ...requestWith('QuietHoursInput', ['from', 'to'], {
      from: timeOfDay,
      to: timeOfDay,
      zone: { type: 'string', maxLength: 64, description: 'Default: UTC.' },
    }),
    description: 'Nothing is sent between these times of day; afterwards, one message has it all.',
  },
});
export const subscribePushReply = reply('SubscribePushReply', { id: text });

export const pushSubscriptionRequest = requestWith('PushSubscriptionRequest', ['id'], {
  id: { type: 'string', format: 'uuid', expected: 'the id of a subscription' },
});
