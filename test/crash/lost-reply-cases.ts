import { randomUUID } from 'node:crypto';
import type { PollReply, ReplyOf, RouteName, SignedIn, SignInCode, SpawnReply } from '@muster/sdk/contract';
import { expect } from 'vitest';
import { expectOk, expectRefusal } from '../support/answers.ts';
import type { Answer } from '../support/api.ts';
import { encode, stored, unique, writeResource } from '../support/catalog.ts';
import { browserOf, codeOf, giveBack } from '../support/sign-in.ts';
import type { Stage } from '../support/stage.ts';
import type { Sent } from './insist.ts';
import { runnerKey } from './runner-process.ts';

/** A request whose reply is lost, and how to tell after a retry that it had one effect. */
export interface LostReply {
  readonly sent: Sent;
  /** Whose request it is, if not the admin's. */
  readonly key?: string;
  /** What happens between the first try and the second. */
  readonly between?: () => Promise<unknown>;
  check(retried: Answer<unknown>): Promise<void>;
}

type Prepare = (stage: Stage) => Promise<LostReply>;

const about = (stage: Stage, route: string, more: Record<string, unknown> = {}): Sent => ({
  path: `/v1/${route}`,
  body: { agentId: stage.id('agent'), ...more },
});

/** An agent at work on its first run. */
async function atWork(stage: Stage) {
  await stage.spawn('agent');
  return stage.start('agent');
}

/** The same, and how its runner names it and a new checkpoint. */
async function heldRun(stage: Stage) {
  const claim = await atWork(stage);
  const { agentKey, runId } = claim;
  return { claim, run: { runnerId: stage.runner.runnerId, agentKey, runId, checkpointId: randomUUID() } };
}

const historyOf = async (stage: Stage, kind: string, name: string): Promise<string[]> => {
  const answer = await stage.api.get<{ entries: { generation: string; action: string }[] }>(
    `/v1/catalog/${kind}/${name}/history`,
  );
  return expectOk(answer).entries.map(({ generation, action }) => `${generation} ${action}`);
};

const spawnWith =
  (path: readonly string[]): Prepare =>
  async (stage) => ({
    sent: {
      path: '/v1/agent/spawn',
      body: {
        agentId: { workspace: stage.workspace, agent: path },
        description: 'once',
        model: 'rehearsal-a',
      },
      headers: { 'idempotency-key': unique('spawn') },
    },
    async check(retried) {
      const { agentId } = expectOk(retried as Answer<SpawnReply>);
      const { entries } = expectOk(
        await stage.api.post<ReplyOf<'list'>>('/v1/agents', { workspace: stage.workspace }),
      );
      expect(entries.map((entry) => entry.agentId)).toEqual([agentId]);
    },
  });

export const lostReplies: Readonly<Partial<Record<RouteName, readonly Prepare[]>>> = {
  spawn: [spawnWith(['agent']), spawnWith([])],

  signInCode: [
    async ({ api }) => ({
      sent: { path: '/v1/sign-in/code', body: {} },
      async check(retried) {
        const { code } = expectOk(retried as Answer<SignInCode>);
        const { caller } = expectOk(await giveBack(api.url, code)) as SignedIn;
        expect(caller).toEqual((await api.get('/v1/whoami')).body);
      },
    }),
  ],

  signIn: [
    async ({ api }) => ({
      sent: { path: '/v1/sign-in', body: { code: await codeOf(api) } },
      // The code was good once; who lost the cookie asks for another code.
      async check(retried) {
        expectRefusal(retried, 'UNAUTHENTICATED');
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
          expectRefusal(retried, 'NOT_FOUND');
          expect((await browser.send('/v1/whoami')).status).toBe(401);
        },
      };
    },
  ],

  queue: [
    async (stage) => {
      await atWork(stage);
      await stage.queue('agent', { followUpId: 'old', description: 'old' });
      return {
        sent: about(stage, 'agent/queue', { followUpId: 'urgent', description: 'now', preempt: true }),
        // What comes after the first try must survive the second: it preempts no more.
        between: () => stage.queue('agent', { followUpId: 'later', description: 'later' }),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ followUpId: 'urgent', state: 'QUEUED' });
          const { followUps } = await stage.status('agent');
          expect(followUps.map((f) => f.followUpId)).toEqual(['urgent', 'later']);
          const cleared = await stage.timeline('agent', 'FOLLOW_UP_CLEARED');
          expect(cleared.map((entry) => entry.followUpId)).toEqual(['old']);
        },
      };
    },
    async (stage) => {
      await stage.rested('agent');
      return {
        sent: about(stage, 'agent/queue', { followUpId: 'once', description: 'once' }),
        // Delivered and done before the second try.
        between: () => stage.turn('agent'),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ followUpId: 'once', state: 'DELIVERED' });
          expect(await stage.offered()).toEqual([]);
          expect(await stage.timeline('agent', 'FOLLOW_UP_DELIVERED')).toHaveLength(1);
        },
      };
    },
    async (stage) => {
      await atWork(stage);
      await stage.queue('agent', { followUpId: 'draft', description: 'first' });
      await stage.queue('agent', { followUpId: 'other', description: 'other' });
      const content = { followUpId: 'draft', description: 'second', replace: true };
      return {
        sent: about(stage, 'agent/queue', content),
        between: () => stage.queue('agent', { followUpId: 'last', description: 'last' }),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ followUpId: 'draft', state: 'QUEUED' });
          const { followUps } = await stage.status('agent');
          expect(followUps.map((f) => f.followUpId)).toEqual(['other', 'draft', 'last']);
          expect(await stage.timeline('agent', 'FOLLOW_UP_REMOVED')).toHaveLength(1);
        },
      };
    },
  ],

  labels: [
    async (stage) => {
      await stage.rested('agent');
      return {
        sent: about(stage, 'agent/labels', { labels: { team: 'web' } }),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ labels: { team: 'web' } });
        },
      };
    },
  ],

  removeFollowUp: [
    async (stage) => {
      await atWork(stage);
      await stage.queue('agent', { followUpId: 'gone', description: 'gone' });
      await stage.queue('agent', { followUpId: 'kept', description: 'kept' });
      return {
        sent: about(stage, 'agent/queue/remove', { followUpId: 'gone' }),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ removed: false });
          expect(await stage.timeline('agent', 'FOLLOW_UP_REMOVED')).toHaveLength(1);
          const { followUps } = await stage.status('agent');
          expect(followUps.map((f) => f.followUpId)).toEqual(['kept']);
        },
      };
    },
  ],

  clearFollowUps: [
    async (stage) => {
      await atWork(stage);
      await stage.queue('agent', 'one');
      await stage.queue('agent', 'two');
      return {
        sent: about(stage, 'agent/clear-follow-ups'),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ cleared: 0 });
          expect(await stage.timeline('agent', 'FOLLOW_UP_CLEARED')).toHaveLength(2);
        },
      };
    },
  ],

  stopTurn: (['INTERRUPT', 'KILL'] as const).map((mode) => async (stage) => {
    const claim = await atWork(stage);
    await stage.queue('agent', 'next');
    return {
      sent: about(stage, 'agent/stop-turn', { runId: '1', mode: `STOP_TURN_MODE_${mode}` }),
      // The next run is at work when the second try comes: that one must not be hit.
      between: async () => {
        if (mode === 'INTERRUPT') await stage.end(claim, 'INTERRUPTED');
        else await stage.report(claim, { gone: true });
        await stage.start('agent');
      },
      async check(retried) {
        expectRefusal(retried, 'INVALID_ARGUMENT', 'runId');
        expect((await stage.status('agent')).run).toMatchObject({ runId: '2', state: 'RUNNING' });
        expect(await stage.timeline('agent', 'RUN_ENDED')).toHaveLength(1);
      },
    };
  }),

  kill: [
    async (stage) => {
      await atWork(stage);
      await stage.spawn('agent/child');
      return {
        sent: about(stage, 'agent/kill'),
        async check(retried) {
          expectOk(retried);
          expect([await stage.phase('agent'), await stage.phase('agent/child')]).toEqual([
            'CANCELED/KILLED',
            'CANCELED/PARENT_KILLED',
          ]);
          expect(await stage.timeline('agent', 'RUN_ENDED')).toHaveLength(1);
        },
      };
    },
  ],

  ask: [
    async (stage) => {
      const claim = await atWork(stage);
      return {
        key: claim.token,
        sent: about(stage, 'agent/ask', { question: 'Which one?' }),
        async check(retried) {
          expectOk(retried);
          await stage.end(claim);
          expect(await stage.phase('agent')).toBe('WAITING_FOR_INPUT/QUESTION');
          expect(await stage.timeline('agent', 'QUESTION')).toHaveLength(1);
        },
      };
    },
  ],

  finish: [
    async (stage) => {
      const claim = await atWork(stage);
      return {
        key: claim.token,
        sent: about(stage, 'agent/finish', { text: 'Done.' }),
        async check(retried) {
          expectOk(retried);
          await stage.end(claim);
          expect(await stage.phase('agent')).toBe('COMPLETED/FINISHED');
        },
      };
    },
  ],

  fail: [
    async (stage) => {
      const claim = await atWork(stage);
      return {
        key: claim.token,
        sent: about(stage, 'agent/fail', { message: 'It can not be done.' }),
        async check(retried) {
          expectOk(retried);
          await stage.end(claim);
          expect(await stage.phase('agent')).toBe('FAILED/ERROR');
          expect(await stage.timeline('agent', 'ERROR')).toHaveLength(1);
        },
      };
    },
  ],

  retry: [
    async (stage) => {
      const error = { code: 'PROVIDER_KEY_REFUSED', message: 'no' };
      await stage.end(await atWork(stage), 'FAILED', { error });
      return {
        sent: about(stage, 'agent/retry'),
        async check(retried) {
          // The first try has ended the block.
          expectRefusal(retried, 'FAILED_PRECONDITION');
          await stage.turn('agent');
          expect(await stage.offered()).toEqual([]);
          expect(await stage.status('agent')).toMatchObject({ phaseReason: 'RESTING', runCount: '2' });
        },
      };
    },
  ],

  reopen: [
    async (stage) => {
      await stage.end(await atWork(stage), 'COMPLETED', { finished: true });
      return {
        sent: about(stage, 'agent/reopen'),
        // The message after the first try must survive the second.
        between: () => stage.queue('agent', { followUpId: 'next', description: 'next' }),
        async check(retried) {
          expectOk(retried);
          const { followUps } = await stage.status('agent');
          expect(followUps.map((f) => f.followUpId)).toEqual(['next']);
        },
      };
    },
  ],

  createTasks: [
    async (stage) => {
      await atWork(stage);
      return {
        sent: about(stage, 'agent/tasks/create', { tasks: [{ id: 'once', subject: 'once' }] }),
        async check(retried) {
          // The id is taken by the first try.
          if (retried.status !== 200) expectRefusal(retried, 'INVALID_ARGUMENT');
          expect((await stage.tasks('agent')).map(({ id }) => id)).toEqual(['once']);
          expect(await stage.timeline('agent', 'TASK_CHANGED')).toHaveLength(1);
        },
      };
    },
  ],

  updateTask: [
    async (stage) => {
      await atWork(stage);
      await stage.addTasks('agent', { id: 'task', subject: 'before' });
      return {
        sent: about(stage, 'agent/tasks/update', { id: 'task', subject: 'after' }),
        async check(retried) {
          expect(expectOk(retried)).toMatchObject({ task: { id: 'task', subject: 'after' } });
          expect(await stage.timeline('agent', 'TASK_CHANGED')).toHaveLength(2);
        },
      };
    },
  ],

  writeResource: (['persona', 'token'] as const).map((kind) => async (stage) => {
    const name = unique('lost');
    const document = kind === 'persona' ? { instructions: 'once' } : { role: 'viewer' };
    return {
      sent: {
        path: `/v1/catalog/${kind}/${name}`,
        body: { payload: encode(document), ifGenerationMatch: '0' },
      },
      async check(retried) {
        expectRefusal(retried, 'FAILED_PRECONDITION');
        expect(await stored(stage.api, kind, name)).toMatchObject({ generation: '1', document });
        expect(await historyOf(stage, kind, name)).toEqual(['1 WRITE']);
      },
    };
  }),

  deleteResource: [
    async (stage) => {
      const name = unique('lost');
      expectOk(await writeResource(stage.api, 'persona', name, {}));
      return {
        sent: { method: 'DELETE', path: `/v1/catalog/persona/${name}?ifGenerationMatch=1` },
        async check(retried) {
          expect([400, 404]).toContain(retried.status);
          expect(await historyOf(stage, 'persona', name)).toEqual(['2 DELETE', '1 WRITE']);
        },
      };
    },
  ],

  runnerPoll: [
    async (stage) => {
      await stage.spawn('agent');
      const key = await runnerKey(stage.api, stage.workspace);
      const poll = {
        runnerId: randomUUID(),
        name: `deaf-${randomUUID().slice(0, 8)}`,
        poll: 1,
        rehearses: true,
        free: { real: 8, rehearsed: 8 },
        runs: [],
      };
      return {
        key,
        sent: { path: '/v1/runner/poll', body: poll },
        async check(retried) {
          // The same poll again is an old one; the next brings the claim that was lost.
          if (retried.status !== 200) expectRefusal(retried, 'ABORTED');
          const again = await stage.api.as(key).post<PollReply>('/v1/runner/poll', { ...poll, poll: 2 });
          expect(expectOk(again).claims.map(({ runId }) => runId)).toEqual([1]);
          expect(await stage.status('agent')).toMatchObject({ runCount: '1', run: { state: 'STARTING' } });
        },
      };
    },
  ],

  runnerReport: [
    { items: [{ type: 'MESSAGE', text: 'once' }], usage: { costUsd: 1, inputTokens: 7 } },
    {
      items: [{ type: 'MESSAGE', text: 'once' }],
      usage: { costUsd: 1, inputTokens: 7 },
      end: { outcome: 'COMPLETED' },
    },
  ].map((report) => async (stage) => {
    const claim = await atWork(stage);
    const { runnerId, key } = stage.runner;
    return {
      key,
      sent: {
        path: '/v1/runner/report',
        body: { runnerId, agentKey: claim.agentKey, runId: 1, report: 2, ...report },
      },
      async check(retried) {
        expectOk(retried);
        expect(await stage.timeline('agent', 'MESSAGE')).toHaveLength(1);
        expect(await stage.timeline('agent', 'RUN_ENDED')).toHaveLength(report.end ? 1 : 0);
        expect(await stage.status('agent')).toMatchObject({ cost: 1, inputTokens: '7', runCount: '1' });
      },
    };
  }),

  checkpoint: [
    async (stage) => {
      const { claim } = await heldRun(stage);
      const checkpointId = await stage.runner.saveCheckpoint(claim, Buffer.from('once'));
      return {
        sent: about(stage, 'agent/checkpoint'),
        async check(retried) {
          expect(expectOk(retried)).toMatchObject({ checkpointId, content: 'b25jZQ==' });
        },
      };
    },
  ],

  runnerSaveCheckpoint: [
    async (stage) => {
      const { claim, run } = await heldRun(stage);
      return {
        key: stage.runner.key,
        sent: { path: '/v1/runner/checkpoint/save', body: { ...run, part: 0, content: 'b25jZQ==' } },
        async check(retried) {
          expectOk(retried);
          expectOk(await stage.runner.completeCheckpoint(claim, run.checkpointId, 1));
          expect(expectOk(await stage.runner.checkpoints(claim)).checkpoints).toMatchObject([{ bytes: 4 }]);
          expect(await stage.runner.loadCheckpoint(claim)).toEqual(Buffer.from('once'));
        },
      };
    },
  ],

  runnerCompleteCheckpoint: [
    async (stage) => {
      const { claim, run } = await heldRun(stage);
      expectOk(await stage.runner.savePart(claim, run.checkpointId, 0, Buffer.from('once')));
      return {
        key: stage.runner.key,
        sent: { path: '/v1/runner/checkpoint/complete', body: { ...run, parts: 1, final: true } },
        async check(retried) {
          expectOk(retried);
          const { checkpoints } = expectOk(await stage.runner.checkpoints(claim));
          expect(checkpoints).toMatchObject([{ checkpointId: run.checkpointId, parts: 1, final: true }]);
        },
      };
    },
  ],

  runnerCheckpoints: [
    async (stage) => {
      const { claim, run } = await heldRun(stage);
      const checkpointId = await stage.runner.saveCheckpoint(claim, Buffer.from('once'));
      return {
        key: stage.runner.key,
        sent: { path: '/v1/runner/checkpoints', body: run },
        async check(retried) {
          expect(expectOk(retried)).toMatchObject({ checkpoints: [{ checkpointId }] });
        },
      };
    },
  ],

  runnerLoadCheckpoint: [
    async (stage) => {
      const { claim, run } = await heldRun(stage);
      const checkpointId = await stage.runner.saveCheckpoint(claim, Buffer.from('once'));
      return {
        key: stage.runner.key,
        sent: { path: '/v1/runner/checkpoint/load', body: { ...run, checkpointId, part: 0 } },
        async check(retried) {
          expect(expectOk(retried)).toEqual({ content: 'b25jZQ==' });
        },
      };
    },
  ],

  runnerEndedAgents: [
    async (stage) => {
      const { key } = stage.runner;
      const { agentKey } = await atWork(stage);
      await stage.kill('agent');
      const body = { runnerId: stage.runner.runnerId, agentKeys: [agentKey, randomUUID()] };
      return {
        key,
        sent: { path: '/v1/runner/agents/ended', body },
        async check(retried) {
          expect(expectOk(retried)).toEqual({ ended: [agentKey] });
        },
      };
    },
  ],
};
