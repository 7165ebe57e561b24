import * as notifications from '../notification.ts';
import type { Operations } from './operation.ts';

export const notificationOperations = {
  listNotificationDeliveries: {
    summary: 'Lists what a notification sent, and what became of it, newest first.',
    access: 'catalog-write',
    body: notifications.notificationDeliveriesRequest,
    reply: notifications.notificationDeliveriesReply,
    example: { name: 'team', states: ['FAILED'] },
  },
  redeliverNotification: {
    summary: 'Sends a message of a notification again.',
    access: 'catalog-write',
    body: notifications.redeliverNotificationRequest,
    reply: notifications.notificationDelivery,
    example: { name: 'team', deliveryId: '72d3162e-cc78-41e3-81ab-4c9367dc0958' },
  },
  testNotification: {
    summary: 'Sends a test message, and says whether it arrived.',
    access: 'catalog-write',
    body: notifications.testNotificationRequest,
    reply: notifications.notificationDelivery,
    example: { name: 'team' },
  },
} as const satisfies Operations;
