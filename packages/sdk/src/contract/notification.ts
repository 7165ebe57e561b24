import { agentId, tenantIn } from './identity.ts';
import {
  type Infer,
  nameIn,
  nullable,
  pageIn,
  pageOf,
  reply,
  request,
  text,
  timestamp,
  timestampOrNull,
} from './schema.ts';

/** What people can be notified of. */
export const notificationEvents = [
  'agent.needs_input',
  'agent.blocked',
  'agent.budget',
  'agent.completed',
  'agent.failed',
  'agent.idle',
  'change_request.opened',
  'change_request.merged',
  'change_request.closed',
  'change_request.paused',
  'budget.warned',
  'budget.spent',
  'schedule.paused',
  'trigger.paused',
  'runner.lost',
  'account.resting',
] as const;
export type NotificationEvent = (typeof notificationEvents)[number];

/** Of a notification that names none: those after which a person has to act, or which are the end of something. */
export const usualEvents = [
  'agent.needs_input',
  'agent.blocked',
  'agent.budget',
  'agent.completed',
  'agent.failed',
  'change_request.paused',
  'budget.spent',
  'schedule.paused',
  'trigger.paused',
] as const satisfies readonly NotificationEvent[];

export const notificationStates = ['QUEUED', 'SENDING', 'SENT', 'FAILED', 'DROPPED'] as const;

export const notificationDelivery = reply('NotificationDelivery', {
  deliveryId: { ...text, description: 'Of a webhook, its header `webhook-id`.' },
  type: { ...text, description: 'The event; `digest` for several, `test` for a test.' },
  agentId: nullable(agentId),
  name: { ...text, description: 'Of an event that is not about an agent: what it is about.' },
  state: { type: 'string', enum: notificationStates },
  error: { ...text, description: 'Why it was dropped, failed, or is tried again.' },
  attempts: { type: 'integer' },
  digestId: { ...text, description: 'The digest that it was sent with, or empty.' },
  at: { ...timestamp, description: 'When it happened.' },
  settledAt: timestampOrNull,
  nextAt: { ...timestampOrNull, description: 'When it is sent or tried again.' },
});
export type NotificationDelivery = Infer<typeof notificationDelivery>;

const notificationIn = {
  tenant: tenantIn,
  name: { ...nameIn, description: 'The name of the notification.' },
};

export const notificationDeliveriesRequest = request('NotificationDeliveriesRequest', {
  ...notificationIn,
  states: {
    type: 'array',
    items: { type: 'string', enum: notificationStates },
    maxItems: notificationStates.length,
  },
  ...pageIn,
});
export const notificationDeliveriesReply = pageOf('NotificationDeliveriesReply', notificationDelivery);

export const redeliverNotificationRequest = request('RedeliverNotificationRequest', {
  ...notificationIn,
  deliveryId: { type: 'string', maxLength: 256 },
});

export const testNotificationRequest = request('TestNotificationRequest', notificationIn);
