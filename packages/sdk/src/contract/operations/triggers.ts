import * as triggers from '../trigger.ts';
import type { Operations } from './operation.ts';

export const triggerOperations = {
  listTriggerDeliveries: {
    summary: 'Lists the requests that a trigger received, newest first.',
    access: 'catalog-write',
    body: triggers.listTriggerDeliveriesRequest,
    reply: triggers.listTriggerDeliveriesReply,
    example: { name: 'alerts', states: ['FAILED', 'IGNORED'] },
  },
  redeliverToTrigger: {
    summary: 'Processes a request that a trigger received again. One that took effect has no further one.',
    access: 'catalog-write',
    body: triggers.redeliverToTriggerRequest,
    reply: triggers.triggerDelivery,
    example: { name: 'alerts', deliveryId: 'msg_2b5d8f0c' },
  },
  testTrigger: {
    summary: 'Checks what a trigger needs: its account, the agent or the workspace, its secret.',
    access: 'catalog-write',
    body: triggers.testTriggerRequest,
    reply: triggers.testTriggerReply,
    example: { name: 'alerts' },
  },
} as const satisfies Operations;
