import * as codeHosts from '../code-host.ts';
import { agentId, type Operations } from './operation.ts';

export const codeHostOperations = {
  openChangeRequest: {
    summary: 'Opens a change request from the branch that an agent pushed.',
    access: 'command',
    body: codeHosts.openChangeRequestRequest,
    reply: codeHosts.openChangeRequestReply,
    example: { agentId, title: 'Show what is wrong with a password', draft: true },
  },
  syncChangeRequests: {
    summary: 'Compares change requests with their hosts.',
    access: 'catalog-write',
    body: codeHosts.syncChangeRequestsRequest,
    reply: codeHosts.syncChangeRequestsReply,
    example: {},
  },
  listDeliveries: {
    summary: 'Lists the deliveries that an integration received, newest first.',
    access: 'catalog-write',
    body: codeHosts.listDeliveriesRequest,
    reply: codeHosts.listDeliveriesReply,
    example: { name: 'github', states: ['FAILED', 'IGNORED'] },
  },
  redeliver: {
    summary: 'Processes a delivery again.',
    access: 'catalog-write',
    body: codeHosts.redeliverRequest,
    reply: codeHosts.delivery,
    example: { name: 'github', deliveryId: '72d3162e-cc78-11e3-81ab-4c9367dc0958' },
  },
  testIntegration: {
    summary: 'Checks the credential, the permissions and the webhook of an integration.',
    access: 'catalog-write',
    body: codeHosts.testIntegrationRequest,
    reply: codeHosts.testIntegrationReply,
    example: { name: 'github' },
  },
} as const satisfies Operations;
