import type { ReplyOf } from '@muster/sdk/contract';
import { expect } from 'vitest';
import type { Answer } from '../support/api.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { about, atWork, type LostReplies } from './lost-reply-cases.ts';

/** Without a code host these change nothing. What they do with one is in test/codehost. */
export const lostCodeHostReplies: LostReplies = {
  openChangeRequest: [
    async (tenant) => {
      await atWork(tenant);
      return {
        sent: about(tenant, 'agent/change-request'),
        check: async (retried) => void expectError(retried, 'FAILED_PRECONDITION'),
      };
    },
  ],
  syncChangeRequests: [
    async () => ({
      sent: { path: '/v1/change-requests/sync', body: {} },
      async check(retried) {
        expect(expectOk(retried as Answer<ReplyOf<'syncChangeRequests'>>).asked).toBe(0);
      },
    }),
  ],
  redeliver: [
    async () => ({
      sent: { path: '/v1/integration/redeliver', body: { name: 'none', deliveryId: 'none' } },
      check: async (retried) => void expectError(retried, 'NOT_FOUND'),
    }),
  ],
  redeliverNotification: [
    async () => ({
      sent: { path: '/v1/notification/redeliver', body: { name: 'none', deliveryId: 'none' } },
      check: async (retried) => void expectError(retried, 'NOT_FOUND'),
    }),
  ],
  redeliverToTrigger: [
    async () => ({
      sent: { path: '/v1/trigger/redeliver', body: { name: 'none', deliveryId: 'none' } },
      check: async (retried) => void expectError(retried, 'NOT_FOUND'),
    }),
  ],
};
