import { delivery, deliveryStates, testIntegrationReply } from './code-host.ts';
import { agentId, tenantIn } from './identity.ts';
import { type Infer, nameIn, nullable, pageIn, pageOf, reply, request } from './schema.ts';

/** Triggers: the requests of other systems that spawn agents or are messages to one. */
const triggerIn = { tenant: tenantIn, name: { ...nameIn, description: 'The name of the trigger.' } };

export const triggerDelivery = reply('TriggerDelivery', {
  ...delivery.properties,
  deliveryId: {
    ...delivery.properties.deliveryId,
    description: "The sender's id of the request if it is signed, else a digest of its body.",
  },
  event: { ...delivery.properties.event, description: 'What the sender calls it; empty if it does not say.' },
  subject: {
    ...delivery.properties.subject,
    description: 'The path of the agent that was spawned or got a message; empty if none was.',
  },
  agentId: { ...nullable(agentId), description: 'The agent that was spawned or got a message.' },
});
export type TriggerDelivery = Infer<typeof triggerDelivery>;

export const listTriggerDeliveriesRequest = request('ListTriggerDeliveriesRequest', {
  ...triggerIn,
  states: { type: 'array', items: { type: 'string', enum: deliveryStates }, maxItems: 4 },
  ...pageIn,
});
export const listTriggerDeliveriesReply = pageOf('ListTriggerDeliveriesReply', triggerDelivery);

export const redeliverToTriggerRequest = request('RedeliverToTriggerRequest', {
  ...triggerIn,
  deliveryId: { type: 'string', maxLength: 256 },
});

export const testTriggerRequest = request('TestTriggerRequest', triggerIn);
export const testTriggerReply = reply('TestTriggerReply', {
  ...testIntegrationReply.properties,
  account: {
    ...testIntegrationReply.properties.account,
    description: 'The account that the trigger acts as.',
  },
});
