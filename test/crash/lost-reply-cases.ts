import { randomUUID } from 'node:crypto';
import type { ReplyOf, RouteName, SignedIn, SignInCode, SpawnReply } from '@muster/sdk/contract';
import { expect } from 'vitest';
import type { Answer } from '../support/api.ts';
import { encode, postResource, readDocument, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { gif, gifText, uploadTo } from '../support/images.ts';
import { browserOf, codeOf, signInWithCode } from '../support/sign-in.ts';
import type { TestTenant } from '../support/test-tenant.ts';
import type { Sent } from './retrying-client.ts';

/** A request whose reply is lost, and how to tell after a retry that it had one effect. */
export interface LostReply {
  readonly sent: Sent;
  /** Whose request it is, if not the admin's. */
  readonly key?: string;
  /** What happens between the first try and the second. */
  readonly between?: () => Promise<unknown>;
  check(retried: Answer<unknown>): Promise<void>;
}

export type Prepare = (tenant: TestTenant, databaseUrl: string) => Promise<LostReply>;

export const about = (tenant: TestTenant, route: string, more: Record<string, unknown> = {}): Sent => ({
  path: `/v1/${route}`,
  body: { agentId: tenant.id('agent'), ...more },
});

/** An agent at work on its first run. */
export async function atWork(tenant: TestTenant) {
  await tenant.spawn('agent');
  return tenant.start('agent');
}

/** The same, and how its runner names it and a new checkpoint. */
export async function heldRun(tenant: TestTenant) {
  const claim = await atWork(tenant);
  const { agentKey, runId } = claim;
  return { claim, run: { runnerId: tenant.runner.runnerId, agentKey, runId, checkpointId: randomUUID() } };
}

const historyOf = async (tenant: TestTenant, kind: string, name: string): Promise<string[]> => {
  const answer = await tenant.api.get<{ entries: { generation: string; action: string }[] }>(
    `/v1/catalog/${kind}/${name}/history`,
  );
  return expectOk(answer).entries.map(({ generation, action }) => `${generation} ${action}`);
};

const spawnWith =
  (path: readonly string[]): Prepare =>
  async (tenant) => ({
    sent: {
      path: '/v1/agent/spawn',
      body: {
        agentId: { workspace: tenant.workspace, agent: path },
        description: 'once',
        model: 'rehearsal-a',
      },
      headers: { 'idempotency-key': uniqueName('spawn') },
    },
    async check(retried) {
      const { agentId } = expectOk(retried as Answer<SpawnReply>);
      const { entries } = expectOk(
        await tenant.api.post<ReplyOf<'list'>>('/v1/agents', { workspace: tenant.workspace }),
      );
      expect(entries.map((entry) => entry.agentId)).toEqual([agentId]);
    },
  });

export type LostReplies = Readonly<Partial<Record<RouteName, readonly Prepare[]>>>;

/** By route; those of runners and of review threads are in files of their own. */
export const lostReplies: LostReplies = {
  spawn: [spawnWith(['agent']), spawnWith([])],

  signInCode: [
    async ({ api }) => ({
      sent: { path: '/v1/sign-in/code', body: {} },
      async check(retried) {
        const { code } = expectOk(retried as Answer<SignInCode>);
        const { caller } = expectOk(await signInWithCode(api.url, code)) as SignedIn;
        expect(caller).toEqual((await api.get('/v1/whoami')).body);
      },
    }),
  ],

  signIn: [
    async ({ api }) => ({
      sent: { path: '/v1/sign-in', body: { code: await codeOf(api) } },
      // The code was good once; who lost the cookie asks for another code.
      async check(retried) {
        expectError(retried, 'UNAUTHENTICATED');
      },
    }),
  ],

  revokeSession: [
    async ({ api }) => {
      const browser = await browserOf(api.url, api.key);
      return {
        sent: { path: '/v1/session/revoke', body: { id: browser.session.id } },
        // What has ended stays ended; the client takes this for done.
        async check(retried) {
          expectError(retried, 'NOT_FOUND');
          expect((await browser.send('/v1/whoami')).status).toBe(401);
        },
      };
    },
  ],

  queue: [
    async (tenant) => {
      await atWork(tenant);
      await tenant.queue('agent', { followUpId: 'old', description: 'old' });
      return {
        sent: about(tenant, 'agent/queue', { followUpId: 'urgent', description: 'now', preempt: true }),
        // What comes after the first try must survive the second: it preempts no more.
        between: () => tenant.queue('agent', { followUpId: 'later', description: 'later' }),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ followUpId: 'urgent', state: 'QUEUED', wakesAt: null });
          const { followUps } = await tenant.status('agent');
          expect(followUps.map((f) => f.followUpId)).toEqual(['urgent', 'later']);
          const cleared = await tenant.timeline('agent', 'FOLLOW_UP_CLEARED');
          expect(cleared.map((entry) => entry.followUpId)).toEqual(['old']);
        },
      };
    },
    async (tenant) => {
      await tenant.rested('agent');
      return {
        sent: about(tenant, 'agent/queue', { followUpId: 'once', description: 'once' }),
        // Delivered and done before the second try.
        between: () => tenant.turn('agent'),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ followUpId: 'once', state: 'DELIVERED', wakesAt: null });
          expect(await tenant.offered()).toEqual([]);
          expect(await tenant.timeline('agent', 'FOLLOW_UP_DELIVERED')).toHaveLength(1);
        },
      };
    },
    async (tenant) => {
      await atWork(tenant);
      await tenant.queue('agent', { followUpId: 'draft', description: 'first' });
      await tenant.queue('agent', { followUpId: 'other', description: 'other' });
      const content = { followUpId: 'draft', description: 'second', replace: true };
      return {
        sent: about(tenant, 'agent/queue', content),
        between: () => tenant.queue('agent', { followUpId: 'last', description: 'last' }),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ followUpId: 'draft', state: 'QUEUED', wakesAt: null });
          const { followUps } = await tenant.status('agent');
          expect(followUps.map((f) => f.followUpId)).toEqual(['other', 'draft', 'last']);
          expect(await tenant.timeline('agent', 'FOLLOW_UP_REMOVED')).toHaveLength(1);
        },
      };
    },
  ],

  labels: [
    async (tenant) => {
      await tenant.rested('agent');
      return {
        sent: about(tenant, 'agent/labels', { labels: { team: 'web' } }),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ labels: { team: 'web' } });
        },
      };
    },
  ],

  uploadAttachment: [
    async (tenant) => {
      await atWork(tenant);
      const query = new URLSearchParams({ workspace: tenant.workspace, agent: 'agent' });
      return {
        sent: {
          path: `/v1/agent/attachments?${query}`,
          text: gifText,
          headers: { 'content-type': 'image/gif' },
        },
        async check(retried) {
          const { attachmentId } = expectOk(retried) as { attachmentId: string };
          const again = await uploadTo(tenant.api, tenant.id('agent'), gif, 'image/gif');
          expect(again.body.attachmentId).toBe(attachmentId);
          await tenant.queue('agent', { description: 'x', attachmentIds: [attachmentId] });
        },
      };
    },
  ],
  removeFollowUp: [
    async (tenant) => {
      await atWork(tenant);
      for (const id of ['gone', 'kept']) await tenant.queue('agent', { followUpId: id, description: id });
      return {
        sent: about(tenant, 'agent/queue/remove', { followUpId: 'gone' }),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ removed: false });
          expect(await tenant.timeline('agent', 'FOLLOW_UP_REMOVED')).toHaveLength(1);
          const { followUps } = await tenant.status('agent');
          expect(followUps.map((f) => f.followUpId)).toEqual(['kept']);
        },
      };
    },
  ],
  orderQueue: [
    async (tenant) => {
      await atWork(tenant);
      for (const id of ['one', 'two']) await tenant.queue('agent', { followUpId: id, description: id });
      const order = { followUpIds: ['two', 'one'] };
      return {
        sent: about(tenant, 'agent/queue/order', order),
        check: async (retried) => expect(expectOk(retried)).toEqual(order),
      };
    },
  ],
  clearFollowUps: [
    async (tenant) => {
      await atWork(tenant);
      for (const text of ['one', 'two']) await tenant.queue('agent', text);
      return {
        sent: about(tenant, 'agent/clear-follow-ups'),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ cleared: 0 });
          expect(await tenant.timeline('agent', 'FOLLOW_UP_CLEARED')).toHaveLength(2);
        },
      };
    },
  ],

  stopTurn: (['INTERRUPT', 'KILL'] as const).map((mode) => async (tenant) => {
    const claim = await atWork(tenant);
    await tenant.queue('agent', 'next');
    return {
      sent: about(tenant, 'agent/stop-turn', { runId: '1', mode: `STOP_TURN_MODE_${mode}` }),
      // The next run is at work when the second try comes: that one must not be hit.
      between: async () => {
        if (mode === 'INTERRUPT') await tenant.end(claim, 'INTERRUPTED');
        else await tenant.report(claim, { gone: true });
        await tenant.start('agent');
      },
      async check(retried) {
        expectError(retried, 'INVALID_ARGUMENT', 'runId');
        expect((await tenant.status('agent')).run).toMatchObject({ runId: '2', state: 'RUNNING' });
        expect(await tenant.timeline('agent', 'RUN_ENDED')).toHaveLength(1);
      },
    };
  }),

  kill: [
    async (tenant) => {
      await atWork(tenant);
      await tenant.spawn('agent/child');
      return {
        sent: about(tenant, 'agent/kill'),
        async check(retried) {
          expectOk(retried);
          expect([await tenant.phase('agent'), await tenant.phase('agent/child')]).toEqual([
            'CANCELED/KILLED',
            'CANCELED/PARENT_KILLED',
          ]);
          expect(await tenant.timeline('agent', 'RUN_ENDED')).toHaveLength(1);
        },
      };
    },
  ],

  ask: [
    async (tenant) => {
      const claim = await atWork(tenant);
      return {
        key: claim.token,
        sent: about(tenant, 'agent/ask', { question: 'Which one?' }),
        async check(retried) {
          expectOk(retried);
          await tenant.end(claim);
          expect(await tenant.phase('agent')).toBe('WAITING_FOR_INPUT/QUESTION');
          expect(await tenant.timeline('agent', 'QUESTION')).toHaveLength(1);
        },
      };
    },
  ],

  finish: [
    async (tenant) => {
      const claim = await atWork(tenant);
      return {
        key: claim.token,
        sent: about(tenant, 'agent/finish', { text: 'Done.' }),
        async check(retried) {
          expectOk(retried);
          await tenant.end(claim);
          expect(await tenant.phase('agent')).toBe('COMPLETED/FINISHED');
        },
      };
    },
  ],

  fail: [
    async (tenant) => {
      const claim = await atWork(tenant);
      return {
        key: claim.token,
        sent: about(tenant, 'agent/fail', { message: 'It can not be done.' }),
        async check(retried) {
          expectOk(retried);
          await tenant.end(claim);
          expect(await tenant.phase('agent')).toBe('FAILED/ERROR');
          expect(await tenant.timeline('agent', 'ERROR')).toHaveLength(1);
        },
      };
    },
  ],

  retry: [
    async (tenant) => {
      const error = { code: 'PROVIDER_KEY_REFUSED', message: 'no' };
      await tenant.end(await atWork(tenant), 'FAILED', { error });
      return {
        sent: about(tenant, 'agent/retry'),
        async check(retried) {
          // The first try has ended the block.
          expectError(retried, 'FAILED_PRECONDITION');
          await tenant.turn('agent');
          expect(await tenant.offered()).toEqual([]);
          expect(await tenant.status('agent')).toMatchObject({ phaseReason: 'RESTING', runCount: '2' });
        },
      };
    },
  ],

  retryMany: [
    async (tenant) => {
      const error = { code: 'PROVIDER_KEY_REFUSED', message: 'no' };
      await tenant.end(await atWork(tenant), 'FAILED', { error });
      return {
        sent: { path: '/v1/agents/retry', body: { agentIds: [tenant.id('agent')] } },
        async check(retried) {
          // The first try has ended the block.
          expect(expectOk(retried)).toMatchObject({ agents: [{ retried: false }], more: false });
          await tenant.turn('agent');
          expect(await tenant.offered()).toEqual([]);
          expect(await tenant.status('agent')).toMatchObject({ phaseReason: 'RESTING', runCount: '2' });
        },
      };
    },
  ],

  reopen: [
    async (tenant) => {
      await tenant.end(await atWork(tenant), 'COMPLETED', { finished: true });
      return {
        sent: about(tenant, 'agent/reopen'),
        // The message after the first try must survive the second.
        between: () => tenant.queue('agent', { followUpId: 'next', description: 'next' }),
        async check(retried) {
          expectOk(retried);
          const { followUps } = await tenant.status('agent');
          expect(followUps.map((f) => f.followUpId)).toEqual(['next']);
        },
      };
    },
  ],

  deleteAgent: [
    async (tenant) => {
      await tenant.end(await atWork(tenant), 'COMPLETED', { finished: true });
      return {
        sent: about(tenant, 'agent/delete'),
        // An agent that takes the name after the first try stays.
        between: () => tenant.spawn('agent'),
        async check(retried) {
          expectError(retried, 'FAILED_PRECONDITION');
          expect((await tenant.status('agent')).runCount).toBe('0');
        },
      };
    },
  ],

  createTasks: [
    async (tenant) => {
      await atWork(tenant);
      return {
        sent: about(tenant, 'agent/tasks/create', { tasks: [{ id: 'once', subject: 'once' }] }),
        async check(retried) {
          // The id is taken by the first try.
          if (retried.status !== 200) expectError(retried, 'INVALID_ARGUMENT');
          expect((await tenant.tasks('agent')).map(({ id }) => id)).toEqual(['once']);
          expect(await tenant.timeline('agent', 'TASK_CHANGED')).toHaveLength(1);
        },
      };
    },
  ],

  updateTask: [
    async (tenant) => {
      await atWork(tenant);
      await tenant.addTasks('agent', { id: 'task', subject: 'before' });
      return {
        sent: about(tenant, 'agent/tasks/update', { id: 'task', subject: 'after' }),
        async check(retried) {
          expect(expectOk(retried)).toMatchObject({ task: { id: 'task', subject: 'after' } });
          expect(await tenant.timeline('agent', 'TASK_CHANGED')).toHaveLength(2);
        },
      };
    },
  ],

  writeResource: (['persona', 'token'] as const).map((kind) => async (tenant) => {
    const name = uniqueName('lost');
    const document = kind === 'persona' ? { instructions: 'once' } : { role: 'viewer' };
    return {
      sent: {
        path: `/v1/catalog/${kind}/${name}`,
        body: { payload: encode(document), ifGenerationMatch: '0' },
      },
      async check(retried) {
        expectError(retried, 'FAILED_PRECONDITION');
        expect(await readDocument(tenant.api, kind, name)).toMatchObject({ generation: '1', document });
        expect(await historyOf(tenant, kind, name)).toEqual(['1 WRITE']);
      },
    };
  }),

  deleteResource: [
    async (tenant) => {
      const name = uniqueName('lost');
      expectOk(await postResource(tenant.api, 'persona', name, {}));
      return {
        sent: { method: 'DELETE', path: `/v1/catalog/persona/${name}?ifGenerationMatch=1` },
        async check(retried) {
          expect([400, 404]).toContain(retried.status);
          expect(await historyOf(tenant, 'persona', name)).toEqual(['2 DELETE', '1 WRITE']);
        },
      };
    },
  ],

  checkpoint: [
    async (tenant) => {
      const { claim } = await heldRun(tenant);
      const checkpointId = await tenant.runner.saveCheckpoint(claim, Buffer.from('once'));
      return {
        sent: about(tenant, 'agent/checkpoint'),
        async check(retried) {
          expect(expectOk(retried)).toMatchObject({ checkpointId, content: 'b25jZQ==' });
        },
      };
    },
  ],
};
