import { randomUUID } from 'node:crypto';
import type { PollReply } from '@muster/sdk/contract';
import { expect } from 'vitest';
import { uploadOf } from '../support/api.ts';
import { createKey, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { gif, gifText, png, uploadTo } from '../support/images.ts';
import { PushedBrowser } from '../support/push-service.ts';
import { browserOf } from '../support/sign-in.ts';
import { about, atWork, heldRun, type LostReplies } from './lost-reply-cases.ts';
import type { Sent } from './retrying-client.ts';
import { runnerKey } from './runner-process.ts';

function textUpload(
  to: string,
  { content, ...query }: Readonly<Record<string, unknown>> & { readonly content: string },
): Sent {
  const { path, headers } = uploadOf(to, query);
  return { path, headers, text: content };
}

/** Requests of runners, about money, and about what was seen, whose replies are lost. */
export const lostRunnerReplies: LostReplies = {
  runnerPoll: [
    async (tenant) => {
      await tenant.spawn('agent');
      const key = await runnerKey(tenant.api, tenant.workspace);
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
          if (retried.status !== 200) expectError(retried, 'ABORTED');
          const again = await tenant.api.as(key).post<PollReply>('/v1/runner/poll', { ...poll, poll: 2 });
          expect(expectOk(again).claims.map(({ runId }) => runId)).toEqual([1]);
          expect(await tenant.status('agent')).toMatchObject({ runCount: '1', run: { state: 'STARTING' } });
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
  ].map((report) => async (tenant) => {
    const claim = await atWork(tenant);
    const { runnerId, key } = tenant.runner;
    return {
      key,
      sent: {
        path: '/v1/runner/report',
        body: { runnerId, agentKey: claim.agentKey, runId: 1, report: 2, ...report },
      },
      async check(retried) {
        expectOk(retried);
        expect(await tenant.timeline('agent', 'MESSAGE')).toHaveLength(1);
        expect(await tenant.timeline('agent', 'RUN_ENDED')).toHaveLength(report.end ? 1 : 0);
        expect(await tenant.status('agent')).toMatchObject({ cost: 1, inputTokens: '7', runCount: '1' });
      },
    };
  }),

  drainRunners: [
    async (tenant) => {
      await tenant.rested('agent');
      const { name } = tenant.runner;
      return {
        sent: { path: '/v1/runners/drain', body: { pool: tenant.workspace, runners: [name] } },
        async check(retried) {
          expect(expectOk(retried)).toEqual({ runners: [{ name, runs: 0 }] });
          expect(expectOk(await tenant.runner.poll())).toMatchObject({ drain: true, claims: [] });
        },
      };
    },
  ],

  undrainRunners: [
    async (tenant) => {
      await tenant.rested('agent');
      const { name } = tenant.runner;
      const body = { pool: tenant.workspace, runners: [name] };
      expectOk(await tenant.runner.poll({ capabilities: ['undrain'] }));
      expectOk(await tenant.api.post('/v1/runners/drain', body));
      return {
        sent: { path: '/v1/runners/undrain', body },
        async check(retried) {
          expect(expectOk(retried)).toEqual({ runners: [{ name, draining: false }] });
          expect(expectOk(await tenant.runner.poll())).toMatchObject({ drain: false });
        },
      };
    },
  ],

  updateMember: [
    async ({ api }) => {
      const account = uniqueName('mia');
      const { api: member } = await createKey(api, { role: 'member', account });
      const ownerProvider = 'PROVIDER_CODEHOST_OAUTH';
      return {
        sent: { path: '/v1/members/update', body: { account, ownerProvider, disabled: true } },
        async check(retried) {
          expect(expectOk(retried)).toMatchObject({ account, disabled: true });
          expectError(await member.get('/v1/whoami'), 'UNAUTHENTICATED');
        },
      };
    },
  ],

  setup: [
    async ({ api }) => ({
      sent: { path: '/v1/setup', body: { dismissed: true } },
      async check(retried) {
        expect(expectOk(retried)).toMatchObject({ dismissed: true });
        expectOk(await api.post('/v1/setup', { dismissed: false }));
      },
    }),
  ],

  unsubscribePush: [
    async ({ api }) => {
      const browser = await browserOf(api.url, api.key);
      const { subscription } = new PushedBrowser('https://push.example/x');
      expectOk(await browser.send('/v1/push/subscribe', subscription));
      return {
        sent: { path: '/v1/push/unsubscribe', body: { id: browser.session.id } },
        // What is gone stays gone; the client takes this for done.
        async check(retried) {
          expectError(retried, 'NOT_FOUND');
        },
      };
    },
  ],

  markAgents: [
    async (tenant) => {
      await atWork(tenant);
      return {
        sent: {
          path: '/v1/agents/marks',
          body: { marks: [{ agentId: tenant.id('agent'), seen: 1, pinned: true }] },
        },
        async check(retried) {
          expect(expectOk(retried)).toEqual({});
        },
      };
    },
  ],

  setBudget: [
    async (tenant) => {
      await tenant.rested('agent');
      return {
        sent: about(tenant, 'agent/budget', { budgetUsd: 5 }),
        async check(retried) {
          expect(expectOk(retried)).toEqual({ budgetUsd: 5 });
          expect(await tenant.timeline('agent', 'SETTINGS_CHANGED')).toHaveLength(1);
        },
      };
    },
  ],

  runnerCredit: [
    async (tenant) => {
      const { claim, run } = await heldRun(tenant);
      expectOk(await tenant.send('agent/budget', 'agent', { budgetUsd: 1 }));
      const { agentKey, runId } = claim;
      return {
        key: tenant.runner.key,
        sent: { path: '/v1/runner/credit', body: { runnerId: run.runnerId, agentKey, runId, upToUsd: 0.5 } },
        async check(retried) {
          const { coveredUsd } = expectOk(retried) as { coveredUsd: number };
          const [budget] = (await tenant.status('agent')).budgets;
          expect(budget?.reservedUsd).toBeCloseTo(coveredUsd);
        },
      };
    },
  ],

  runnerPartials: [
    async (tenant) => {
      const { claim, run } = await heldRun(tenant);
      const { agentKey, runId } = claim;
      const partial = { agentKey, runId, key: 'k', type: 'MESSAGE', offset: 0, text: 'once' };
      return {
        key: tenant.runner.key,
        sent: { path: '/v1/runner/partials', body: { runnerId: run.runnerId, partials: [partial] } },
        async check(retried) {
          expect(expectOk(retried)).toEqual({});
          expect(await tenant.timeline('agent', 'MESSAGE')).toEqual([]);
        },
      };
    },
  ],

  runnerSaveCheckpoint: [
    async (tenant) => {
      const { claim, run } = await heldRun(tenant);
      return {
        key: tenant.runner.key,
        sent: textUpload('/v1/runner/checkpoint/save', { ...run, part: 0, content: 'once' }),
        async check(retried) {
          expectOk(retried);
          expectOk(await tenant.runner.completeCheckpoint(claim, run.checkpointId, 1));
          expect(expectOk(await tenant.runner.checkpoints(claim)).checkpoints).toMatchObject([{ bytes: 4 }]);
          expect(await tenant.runner.loadCheckpoint(claim)).toEqual(Buffer.from('once'));
        },
      };
    },
  ],

  runnerCompleteCheckpoint: [
    async (tenant) => {
      const { claim, run } = await heldRun(tenant);
      expectOk(await tenant.runner.savePart(claim, run.checkpointId, 0, Buffer.from('once')));
      return {
        key: tenant.runner.key,
        sent: { path: '/v1/runner/checkpoint/complete', body: { ...run, parts: 1, final: true } },
        async check(retried) {
          expectOk(retried);
          const { checkpoints } = expectOk(await tenant.runner.checkpoints(claim));
          expect(checkpoints).toMatchObject([{ checkpointId: run.checkpointId, parts: 1, final: true }]);
        },
      };
    },
  ],

  runnerCheckpoints: [
    async (tenant) => {
      const { claim, run } = await heldRun(tenant);
      const checkpointId = await tenant.runner.saveCheckpoint(claim, Buffer.from('once'));
      return {
        key: tenant.runner.key,
        sent: { path: '/v1/runner/checkpoints', body: run },
        async check(retried) {
          expect(expectOk(retried)).toMatchObject({ checkpoints: [{ checkpointId }] });
        },
      };
    },
  ],

  runnerLoadCheckpoint: [
    async (tenant) => {
      const { claim, run } = await heldRun(tenant);
      const checkpointId = await tenant.runner.saveCheckpoint(claim, Buffer.from('once'));
      return {
        key: tenant.runner.key,
        sent: { path: '/v1/runner/checkpoint/load', body: { ...run, checkpointId, part: 0 } },
        async check(retried) {
          expect(expectOk(retried)).toEqual({ content: 'b25jZQ==' });
        },
      };
    },
  ],

  runnerAttachment: [
    async (tenant) => {
      const { claim, run } = await heldRun(tenant);
      const { attachmentId } = expectOk(await uploadTo(tenant.api, claim.agentId, png()));
      return {
        key: tenant.runner.key,
        sent: { path: '/v1/runner/attachment', body: { ...run, attachmentId } },
        async check(retried) {
          expect(expectOk(retried)).toMatchObject({ attachmentId, content: png().toString('base64') });
        },
      };
    },
  ],

  runnerSaveAttachment: [
    async (tenant) => {
      const { claim, run } = await heldRun(tenant);
      return {
        key: tenant.runner.key,
        sent: textUpload('/v1/runner/attachments', { ...run, content: gifText }),
        async check(retried) {
          const { attachmentId } = expectOk(retried) as { attachmentId: string };
          const { agentId } = claim;
          const read = await tenant.api.post('/v1/agent/attachment', { agentId, attachmentId });
          expect(expectOk(read)).toMatchObject({ attachmentId, content: gif.toString('base64') });
        },
      };
    },
  ],

  runnerGitCredential: [
    async (tenant) => {
      const { run } = await heldRun(tenant);
      const body = { ...run, repo: 'https://github.com/team/project.git' };
      return {
        key: tenant.runner.key,
        sent: { path: '/v1/runner/git-credential', body },
        async check(retried) {
          expect(expectOk(retried)).toEqual({ credential: null });
        },
      };
    },
  ],

  runnerEndedAgents: [
    async (tenant) => {
      const { key } = tenant.runner;
      const { agentKey } = await atWork(tenant);
      await tenant.kill('agent');
      const body = { runnerId: tenant.runner.runnerId, agentKeys: [agentKey, randomUUID()] };
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
