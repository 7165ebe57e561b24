import type { ReplyOf } from '@muster/sdk/contract';
import { expect } from 'vitest';
import type { Answer } from '../support/api.ts';
import { expectOk } from '../support/expect-reply.ts';
import type { TestTenant } from '../support/test-tenant.ts';
import { about, atWork, type LostReplies } from './lost-reply-cases.ts';

const threadsOf = async (tenant: TestTenant) =>
  expectOk(await tenant.send<ReplyOf<'threads'>>('agent/threads', 'agent')).threads;

async function newThread(tenant: TestTenant): Promise<string> {
  const comments = [{ path: 'a.ts', line: 1, body: 'why?' }];
  expectOk(await tenant.send('agent/threads/create', 'agent', { comments }));
  return (await threadsOf(tenant))[0]?.threadId ?? '';
}

export const lostThreadReplies: LostReplies = {
  createReview: [
    async (tenant) => {
      await atWork(tenant);
      const comments = ['a', 'b'].map((body) => ({ path: 'a.ts', line: 1, body }));
      return {
        sent: about(tenant, 'agent/threads/create', { followUpId: 'review', comments }),
        async check(retried) {
          const { threads } = expectOk(retried as Answer<ReplyOf<'createReview'>>);
          expect(threads.map((thread) => thread.comments.map(({ body }) => body))).toEqual([['a'], ['b']]);
          expect(await threadsOf(tenant)).toEqual(threads);
          expect((await tenant.status('agent')).followUps).toHaveLength(1);
        },
      };
    },
  ],

  replyToThread: [
    async (tenant) => {
      await atWork(tenant);
      const threadId = await newThread(tenant);
      return {
        sent: about(tenant, 'agent/threads/reply', { followUpId: 'reply', threadId, body: 'once' }),
        async check(retried) {
          const { thread } = expectOk(retried as Answer<ReplyOf<'replyToThread'>>);
          expect(thread.comments.map(({ body }) => body)).toEqual(['why?', 'once']);
          expect((await tenant.status('agent')).followUps).toHaveLength(2);
        },
      };
    },
    // The agent's own answer, to a thread that this batch does not tell.
    async (tenant) => {
      const claim = await atWork(tenant);
      const threadId = await newThread(tenant);
      return {
        sent: about(tenant, 'agent/threads/reply', { threadId, body: 'because' }),
        key: claim.token,
        async check(retried) {
          const { thread } = expectOk(retried as Answer<ReplyOf<'replyToThread'>>);
          expect(thread.comments.map(({ body }) => body)).toEqual(['why?', 'because']);
        },
      };
    },
  ],

  resolveThread: [
    async (tenant) => {
      await atWork(tenant);
      const threadId = await newThread(tenant);
      return {
        sent: about(tenant, 'agent/threads/resolve', { threadId }),
        async check(retried) {
          expect(expectOk(retried)).toMatchObject({ thread: { state: 'RESOLVED' } });
          expect(await tenant.timeline('agent', 'THREADS_CHANGED')).toHaveLength(2);
        },
      };
    },
  ],
};
