import type { ReplyOf } from '@muster/sdk/contract';
import { expect } from 'vitest';
import type { Answer } from '../support/api.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { atWork, type LostReplies } from './lost-reply-cases.ts';

export const lostScheduleReplies: LostReplies = {
  // A message of the schedule that waits already stays the only one.
  runSchedule: [
    async (tenant) => {
      await atWork(tenant);
      const name = uniqueName('schedule');
      const document = { cron: '0 7 1 1 *', agentId: tenant.id('agent'), message: 'once' };
      await writeResource(tenant.api, 'schedule', name, document);
      return {
        sent: { path: '/v1/schedule/run', body: { name } },
        async check(retried) {
          expect(expectOk(retried as Answer<ReplyOf<'runSchedule'>>).outcome).toBe('SKIPPED');
          expect(await tenant.followUpIds('agent')).toHaveLength(1);
        },
      };
    },
  ],
};
