import { randomBytes, randomUUID } from 'node:crypto';
import type { AgentEntry, Claim, ReplyOf } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Answer, Api } from '../support/api.ts';
import { createKey, createShareLink } from '../support/catalog.ts';
import { expectError, expectOk, expectRunFenced } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { openStream } from '../support/streams.ts';
import { newTenant } from '../support/tenants.ts';
import { newWorkingTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const live = (by = api) => newWorkingTenant(by);

const parts = [randomBytes(3_000), randomBytes(10), randomBytes(70_000)] as const;
const whole = Buffer.concat(parts);

async function savePart({ runner }: TestTenant, run: Claim, id: string, part: number): Promise<void> {
  expectOk(await runner.savePart(run, id, part, parts[part] ?? Buffer.alloc(0)));
}

describe('a download', () => {
  const download = (by: Api, t: TestTenant, more = {}): Promise<Answer<ReplyOf<'checkpoint'>>> =>
    by.post('/v1/agent/checkpoint', { agentId: t.id('a'), ...more });

  test('has the newest checkpoint in parts', async () => {
    const { t, run } = await live();
    await t.runner.saveCheckpoint(run, Buffer.from('old'));
    const id = randomUUID();
    for (const part of parts.keys()) await savePart(t, run, id, part);
    expectOk(await t.runner.completeCheckpoint(run, id, 3));
    for (const [part, bytes] of parts.entries()) {
      const more = part === 0 ? {} : { checkpointId: id, part };
      expect(expectOk(await download(api, t, more))).toEqual({
        checkpointId: id,
        runId: '1',
        completedAt: expect.stringMatching(/Z$/),
        bytes: String(whole.length),
        parts: 3,
        content: bytes.toString('base64'),
      });
    }
    expectError(await download(api, t, { part: 3 }), 'NOT_FOUND');
    await t.end(run);
    await t.kill('a');
    expect(expectOk(await download(api, t)).checkpointId).toBe(id);
  });

  test('starts again when a newer checkpoint arrived between two parts', async () => {
    const { t, run } = await live();
    const id = randomUUID();
    for (const part of parts.keys()) await savePart(t, run, id, part);
    expectOk(await t.runner.completeCheckpoint(run, id, 3));
    const { checkpointId } = expectOk(await download(api, t));
    const newer = await t.runner.saveCheckpoint(run, Buffer.from('newer'));
    const refused = await download(api, t, { checkpointId, part: 1 });
    expectError(refused, 'ABORTED');
    expect(refused.body).toMatchObject({ details: [{ reason: 'CHECKPOINT_REPLACED', domain: 'muster' }] });
    expect(expectOk(await download(api, t))).toMatchObject({ checkpointId: newer, parts: 1 });
  });

  test('of an agent without a complete checkpoint is NOT_FOUND', async () => {
    const { t, run } = await live();
    expectError(await download(api, t), 'NOT_FOUND');
    await savePart(t, run, randomUUID(), 0);
    expectError(await download(api, t), 'NOT_FOUND');
  });

  test('is for anyone who may command the agent', async () => {
    const { t, run } = await live();
    await t.runner.saveCheckpoint(run, Buffer.from('secret'));
    const as = async (document: Record<string, unknown>) => (await createKey(api, document)).api;
    const owner = (await t.status('a')).agentId;
    const by = async (caller: Api) => caller.post('/v1/agent/checkpoint', { agentId: owner });
    const account = owner.account;
    expectOk(await by(await as({ role: 'member', account })));
    expectError(await by(await as({ role: 'viewer', account })), 'PERMISSION_DENIED');
    expectError(await by(await as({ role: 'runner' })), 'PERMISSION_DENIED');
    expectError(await by((await createShareLink(api, owner)).api), 'PERMISSION_DENIED');
  });

  test("of another tenant's agent reveals nothing about it", async () => {
    const { t, run } = await live();
    await t.runner.saveCheckpoint(run, Buffer.from('secret'));
    const { admin } = await newTenant(server.operator);
    expectError(await admin.post('/v1/agent/checkpoint', { agentId: t.id('a') }), 'NOT_FOUND');
    const { agentId } = await t.status('a');
    expectError(await admin.post('/v1/agent/checkpoint', { agentId }), 'PERMISSION_DENIED');
  });
});

describe('unpushed work', () => {
  const unpushed = (commits: number, files: number, isSaved: boolean) => ({
    unpushed: { commits, files, isSaved },
  });
  const entriesOf = async (t: TestTenant): Promise<AgentEntry[]> =>
    expectOk(await api.post<ReplyOf<'list'>>('/v1/agents', { workspace: t.workspace })).entries;

  test('is shown in status, lists and their streams, with the time of the checkpoint', async () => {
    const { t, run } = await live();
    const shown = async () => {
      const { unpushed, checkpointAt } = await t.status('a');
      expect(await entriesOf(t)).toMatchObject([{ unpushed, checkpointAt }]);
      return { unpushed, checkpointAt };
    };
    expect(await shown()).toEqual({ unpushed: null, checkpointAt: null });
    const stream = await openStream<AgentEntry>(api, '/v1/agents/stream', { workspace: t.workspace });
    try {
      await t.report(run, unpushed(2, 3, false));
      expect(await shown()).toEqual({
        unpushed: { commits: 2, files: 3, isSaved: false },
        checkpointAt: null,
      });
      await t.report(run, unpushed(4, 5, true));
      const saved = await shown();
      expect(saved).toEqual({
        unpushed: { commits: 4, files: 5, isSaved: true },
        checkpointAt: expect.stringMatching(/Z$/),
      });
      const hasSaved = ({ data }: { data: AgentEntry }) => data.checkpointAt === saved.checkpointAt;
      expect(await stream.until((event) => event.type === 'entry' && hasSaved(event))).toBe(true);
      await t.report(run, {});
      expect(await shown()).toEqual(saved);
      await t.report(run, unpushed(0, 0, false));
      expect(await shown()).toEqual({ ...saved, unpushed: { commits: 0, files: 0, isSaved: true } });
    } finally {
      stream.close();
    }
  });

  test('of a repeated or fenced report does not count', async () => {
    const { t, run } = await live();
    await t.report(run, unpushed(1, 1, false));
    expectOk(await t.runner.report(run, unpushed(2, 2, true), 2));
    await t.end(run);
    expectRunFenced(await t.runner.report(run, unpushed(3, 3, true), 9));
    expect(await t.status('a')).toMatchObject({ unpushed: { commits: 1, files: 1 }, checkpointAt: null });
  });

  test('the diff of the working tree is beside that of the pushed branch', async () => {
    const { t, run } = await live();
    const diff = (repo: string, text: string, files: number, workingTree?: boolean) => ({
      diff: {
        repo,
        files,
        insertions: 1,
        deletions: 0,
        text,
        ...(workingTree !== undefined && { workingTree }),
      },
    });
    const shown = async () => expectOk(await t.send('agent/diff', 'a'));
    expect(await shown()).toMatchObject({ diffStat: null, diff: '', workingTree: null });
    await t.report(run, diff('r', 'with work', 2, true));
    expect(await shown()).toMatchObject({
      diffStat: null,
      diff: '',
      workingTree: { diffStat: { files: 2, insertions: 1, deletions: 0 }, diff: 'with work' },
    });
    await t.report(run, diff('r', 'pushed', 1));
    await t.report(run, diff('q', 'more work', 3, true));
    expect(await shown()).toEqual({
      branch: '',
      diffStat: { files: 1, insertions: 1, deletions: 0 },
      diff: 'pushed',
      workingTree: {
        diffStat: { files: 5, insertions: 2, deletions: 0 },
        diff: '# q\nmore work\n# r\nwith work',
      },
    });
    expect(await t.status('a')).toMatchObject({ diffStat: { files: 1 } });
  });
});
