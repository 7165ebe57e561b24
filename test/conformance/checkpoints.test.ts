import { randomBytes, randomUUID } from 'node:crypto';
import { type Claim, limits, routes } from '@muster/sdk/contract';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { createKey } from '../support/catalog.ts';
import { execute } from '../support/database.ts';
import { expectError, expectOk, expectRunFenced } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useSharedServer } from '../support/shared-server.ts';
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

/** The agent's checkpoints that the runner can list. */
const listed = async ({ runner }: TestTenant, run: Claim): Promise<string[]> =>
  expectOk(await runner.checkpoints(run)).checkpoints.map(({ checkpointId }) => checkpointId);

describe('a checkpoint', () => {
  test('is absent before the first one', async () => {
    const { t, run } = await live();
    expect(await listed(t, run)).toEqual([]);
    expectError(await t.runner.loadPart(run, randomUUID(), 0), 'NOT_FOUND');
  });

  test('accepts its parts in any order, and a repeated part once', async () => {
    const { t, run } = await live();
    const id = randomUUID();
    for (const part of [2, 0, 2, 1, 0]) await savePart(t, run, id, part);
    expectOk(await t.runner.savePart(run, id, 1, Buffer.from('another')));
    expectOk(await t.runner.completeCheckpoint(run, id, 3));
    expect(expectOk(await t.runner.checkpoints(run)).checkpoints).toEqual([
      {
        checkpointId: id,
        runId: 1,
        final: false,
        parts: 3,
        bytes: whole.length,
        completedAt: expect.stringMatching(/Z$/),
      },
    ]);
    expect(await t.runner.loadCheckpoint(run)).toEqual(whole);
    expectError(await t.runner.loadPart(run, id, 3), 'NOT_FOUND');
  });

  test('concurrent repeats count once', async () => {
    const { t, run } = await live();
    const id = randomUUID();
    const same = Array.from({ length: 5 }, () => parts.map((_, part) => savePart(t, run, id, part)));
    await Promise.all(same.flat());
    const completions = same.map(() => t.runner.completeCheckpoint(run, id, 3));
    for (const answer of await Promise.all(completions)) expectOk(answer);
    const { checkpoints } = expectOk(await t.runner.checkpoints(run));
    expect(checkpoints).toMatchObject([{ checkpointId: id, bytes: whole.length }]);
    expect(await t.runner.loadCheckpoint(run)).toEqual(whole);
  });

  test('several that are saved at the same time are refused for missing parts, or complete', async () => {
    const { t, run } = await live();
    const ids = Array.from({ length: 4 }, () => randomUUID());
    const save = async (id: string) => {
      for (const part of parts.keys()) await savePart(t, run, id, part);
      return t.runner.completeCheckpoint(run, id, 3);
    };
    const answers = await Promise.all(ids.map(save));
    for (const answer of answers) if (answer.status !== 200) expectError(answer, 'FAILED_PRECONDITION');
    const complete = ids.filter((_, at) => answers[at]?.status === 200);
    const kept = await listed(t, run);
    expect(kept).toHaveLength(Math.min(complete.length, 2));
    expect(complete).toEqual(expect.arrayContaining(kept));
    for (const id of kept) {
      for (const [part, bytes] of parts.entries())
        expect(expectOk(await t.runner.loadPart(run, id, part)).content).toBe(bytes.toString('base64'));
    }
  });

  test('is used only when complete; until then the previous one is', async () => {
    const { t, run } = await live();
    const first = await t.runner.saveCheckpoint(run, Buffer.from('first'));
    const second = randomUUID();
    await savePart(t, run, second, 0);
    await savePart(t, run, second, 2);
    const expectInvisible = async () => {
      expect(await listed(t, run)).toEqual([first]);
      expectError(await t.runner.loadPart(run, second, 0), 'NOT_FOUND');
      expect(await t.runner.loadCheckpoint(run)).toEqual(Buffer.from('first'));
      expect(await t.send('agent/checkpoint', 'a')).toMatchObject({ body: { checkpointId: first } });
    };
    for (const count of [1, 2, 3])
      expectError(await t.runner.completeCheckpoint(run, second, count), 'FAILED_PRECONDITION');
    expectError(await t.runner.completeCheckpoint(run, randomUUID(), 1), 'FAILED_PRECONDITION');
    await expectInvisible();
    await savePart(t, run, second, 1);
    await expectInvisible();
    expectOk(await t.runner.completeCheckpoint(run, second, 3));
    expect(await listed(t, run)).toEqual([second, first]);
    expect(await t.runner.loadCheckpoint(run)).toEqual(whole);
  });

  test('once complete never changes, except that it may become final', async () => {
    const { t, run } = await live();
    const id = await t.runner.saveCheckpoint(run, Buffer.from('first'));
    const [made] = expectOk(await t.runner.checkpoints(run)).checkpoints;
    expectOk(await t.runner.completeCheckpoint(run, id, 1, true));
    const before = expectOk(await t.runner.checkpoints(run));
    expect(before.checkpoints).toEqual([{ ...made, final: true }]);
    expectOk(await t.runner.completeCheckpoint(run, id, 1, false));
    expectError(await t.runner.completeCheckpoint(run, id, 2), 'FAILED_PRECONDITION');
    expectOk(await t.runner.savePart(run, id, 0, Buffer.from('other')));
    expectError(await t.runner.savePart(run, id, 1, Buffer.from('more')), 'FAILED_PRECONDITION');
    expect(expectOk(await t.runner.checkpoints(run))).toEqual(before);
    expect(before.checkpoints).toMatchObject([{ final: true, bytes: 5, parts: 1 }]);
    expect(await t.runner.loadCheckpoint(run)).toEqual(Buffer.from('first'));
  });

  test('the newest two are kept, across runs', async () => {
    const { t, run } = await live();
    const ids = [];
    for (const text of ['1', '2', '3']) ids.push(await t.runner.saveCheckpoint(run, Buffer.from(text)));
    expect(await listed(t, run)).toEqual([ids[2], ids[1]]);
    expectError(await t.runner.loadPart(run, ids[0] ?? '', 0), 'NOT_FOUND');
    await t.end(run);
    await t.queue('a', 'again');
    const next = await t.start('a');
    const fourth = await t.runner.saveCheckpoint(next, Buffer.from('4'));
    expect(await listed(t, next)).toEqual([fourth, ids[2]]);
    const { checkpoints } = expectOk(await t.runner.checkpoints(next));
    expect(checkpoints.map(({ runId }) => runId)).toEqual([2, 1]);
  });

  test('that is incomplete is dropped when another one starts', async () => {
    const { t, run } = await live();
    const [dropped, next] = [randomUUID(), randomUUID()];
    await savePart(t, run, dropped, 0);
    await savePart(t, run, next, 0);
    expectError(await t.runner.completeCheckpoint(run, dropped, 1), 'FAILED_PRECONDITION');
    expectOk(await t.runner.completeCheckpoint(run, next, 1));
    expect(await listed(t, run)).toEqual([next]);
  });

  test('is loaded by another runner in a later run', async () => {
    const { t, run } = await live();
    await t.runner.saveCheckpoint(run, whole, true);
    await t.end(run);
    await t.runner.poll({ leaving: true });
    await t.queue('a', 'elsewhere');
    const other = await t.withAnotherRunner();
    expect(await other.runner.loadCheckpoint(await other.start('a'))).toEqual(whole);
  });

  test('has up to 64 parts of up to 1 MiB', async () => {
    const { t, run } = await live();
    const id = randomUUID();
    const largest = randomBytes(limits.checkpointPartBytes);
    expectOk(await t.runner.savePart(run, id, 0, largest));
    for (let part = 1; part < limits.checkpointParts; part += 1)
      expectOk(await t.runner.savePart(run, id, part, Buffer.from([part])));
    expectOk(await t.runner.completeCheckpoint(run, id, limits.checkpointParts));
    const loaded = await t.runner.loadCheckpoint(run);
    const small = Array.from({ length: limits.checkpointParts - 1 }, (_, at) => at + 1);
    expect(loaded?.equals(Buffer.concat([largest, Buffer.from(small)]))).toBe(true);
  });
});

describe('only the runner that holds the live run', () => {
  /** Each of the four routes, for a checkpoint that exists. */
  async function expectAllFenced(
    runner: FakeRunner,
    ref: Pick<Claim, 'agentKey' | 'runId'>,
    id: string,
  ): Promise<void> {
    expectRunFenced(await runner.savePart(ref, randomUUID(), 0, Buffer.from('late')));
    expectRunFenced(await runner.savePart(ref, id, 1, Buffer.from('late')));
    expectRunFenced(await runner.completeCheckpoint(ref, id, 1));
    expectRunFenced(await runner.checkpoints(ref));
    expectRunFenced(await runner.loadPart(ref, id, 0));
  }

  test('saves, completes, lists and loads', async () => {
    const { t, run } = await live();
    const id = await t.runner.saveCheckpoint(run, whole);
    const { runner: other } = await t.withAnotherRunner();
    expectOk(await other.poll());
    await expectAllFenced(other, run, id);
    await expectAllFenced(t.runner, { ...run, runId: 2 }, id);
    await expectAllFenced(t.runner, { ...run, agentKey: randomUUID() }, id);
    await t.end(run);
    await expectAllFenced(t.runner, run, id);
    await t.queue('a', 'again');
    const next = await t.start('a');
    await expectAllFenced(t.runner, run, id);
    expect(await listed(t, next)).toEqual([id]);
    expect(await t.send('agent/checkpoint', 'a')).toMatchObject({ body: { checkpointId: id } });
  });

  test('saves what a killed run left, once its process is gone, until the agent has another run or five minutes are over', async () => {
    const { t, run } = await live();
    const first = await t.runner.saveCheckpoint(run, Buffer.from('first'));
    await t.stop('a', 1, 'KILL');
    expectOk(await t.runner.report(run, { gone: true }));
    const { runner: other } = await t.withAnotherRunner();
    expectOk(await other.poll({ free: { real: 0, rehearsed: 0 } }));
    await expectAllFenced(other, run, first);
    await t.runner.saveCheckpoint(run, Buffer.from('killed'), true);
    expect(await t.status('a')).toMatchObject({ unpushed: null, checkpointAt: null });
    expectOk(await t.runner.report(run, { gone: true, unpushed: { commits: 1, files: 2, isSaved: true } }));
    expect(await t.status('a')).toMatchObject({
      unpushed: { commits: 1, files: 2 },
      checkpointAt: expect.any(String),
    });
    await t.queue('a', 'again');
    const next = await t.start('a');
    await expectAllFenced(t.runner, run, first);

    await t.kill('a');
    const last = await t.runner.saveCheckpoint(next, whole, true);
    expect(await t.send('agent/checkpoint', 'a')).toMatchObject({ body: { checkpointId: last, runId: '2' } });
    await execute(
      server.databaseUrl,
      `UPDATE runs SET ended_at = ended_at - interval '5 minutes' WHERE agent = '${next.agentKey}'`,
    );
    await expectAllFenced(t.runner, next, last);
  });

  test('a run that was lost does not, whatever it had started', async () => {
    const { t, run } = await live();
    const kept = await t.runner.saveCheckpoint(run, whole);
    const begun = randomUUID();
    await savePart(t, run, begun, 0);
    const restarted = new FakeRunner(api.as(t.runner.key), t.runner.name);
    const next = await restarted.claim();
    expect(next.runId).toBe(2);
    await expectAllFenced(t.runner, run, begun);
    expect(expectOk(await restarted.checkpoints(next)).checkpoints).toMatchObject([{ checkpointId: kept }]);
    expectOk(await restarted.completeCheckpoint(next, await restarted.saveCheckpoint(next, whole), 1));
    expectError(await restarted.completeCheckpoint(next, begun, 1), 'FAILED_PRECONDITION');
  });

  test("a runner of another tenant reaches no agent's checkpoints", async () => {
    const { t, run } = await live();
    const id = await t.runner.saveCheckpoint(run, Buffer.from('secret'));
    const { admin } = await newTenant(server.operator);
    const stranger = new FakeRunner((await createKey(admin, { role: 'runner', pool: 'default' })).api);
    expectOk(await stranger.poll({ free: { real: 0, rehearsed: 0 } }));
    await expectAllFenced(stranger, run, id);
    const posing = new FakeRunner(
      (await createKey(admin, { role: 'runner' })).api,
      t.runner.name,
      t.runner.runnerId,
    );
    expectError(await posing.savePart(run, id, 1, Buffer.from('x')), 'PERMISSION_DENIED');
    expectError(await posing.completeCheckpoint(run, id, 1), 'PERMISSION_DENIED');
    expectError(await posing.checkpoints(run), 'PERMISSION_DENIED');
    expectError(await posing.loadPart(run, id, 0), 'PERMISSION_DENIED');
    expect(await t.runner.loadCheckpoint(run)).toEqual(Buffer.from('secret'));
  });
});

describe('refused checkpoints', () => {
  test.each([
    ['empty', 0, 'must be 1 to 1048576 bytes; got none'],
    ['too large', limits.checkpointPartBytes + 1, 'must be at most 1048576 bytes'],
  ])('a part that is %s', async (_, bytes, problem) => {
    const { t, run } = await live();
    const id = randomUUID();
    const refused = await t.runner.savePart(run, id, 0, Buffer.alloc(bytes));
    expect(JSON.stringify(expectError(refused, 'INVALID_ARGUMENT'))).toContain(problem);
    expectError(await t.runner.completeCheckpoint(run, id, 1), 'FAILED_PRECONDITION');
  });

  test.each([-1, limits.checkpointParts, 0.5])('the part number %s', async (part) => {
    const { t, run } = await live();
    const id = randomUUID();
    expectError(await t.runner.savePart(run, id, part, Buffer.from('x')), 'INVALID_ARGUMENT', 'part');
    expectError(await t.runner.loadPart(run, id, part), 'INVALID_ARGUMENT', 'part');
    expectError(await t.send('agent/checkpoint', 'a', { part }), 'INVALID_ARGUMENT', 'part');
  });

  test('no parts, or too many', async () => {
    const { t, run } = await live();
    for (const count of [0, limits.checkpointParts + 1]) {
      const answer = await t.runner.completeCheckpoint(run, randomUUID(), count);
      expectError(answer, 'INVALID_ARGUMENT', 'parts');
    }
  });

  test('an id that is not a UUID', async () => {
    const { t, run } = await live();
    expectError(
      await t.runner.savePart(run, 'mine', 0, Buffer.from('x')),
      'INVALID_ARGUMENT',
      'checkpointId',
    );
    expectError(await t.runner.completeCheckpoint(run, 'mine', 1), 'INVALID_ARGUMENT', 'checkpointId');
    expectError(await t.runner.loadPart(run, 'mine', 0), 'INVALID_ARGUMENT', 'checkpointId');
  });

  test('more than 10 GiB of one tenant, with the size, until some are deleted', async () => {
    const { admin, tenant } = await newTenant(server.operator);
    const { t, run } = await live(admin);
    const { t: elsewhere, run: other } = await live();
    const client = new pg.Client({ connectionString: server.databaseUrl });
    await client.connect();
    const ofTenant = 'tenant = (SELECT id FROM tenants WHERE org = $2)';
    const setBytes = (bytes: number) =>
      client.query(`UPDATE checkpoints SET bytes = $1 WHERE ${ofTenant}`, [bytes, tenant.org]);
    try {
      await client.query(
        `INSERT INTO checkpoints SELECT tenant, id, gen_random_uuid(), 1, true, 1, $1, now() FROM agents WHERE ${ofTenant}`,
        [limits.checkpointBytesPerTenant - 3, tenant.org],
      );
      const [kept] = await listed(t, run);
      const id = randomUUID();
      expectOk(await t.runner.savePart(run, id, 0, Buffer.from('ab')));
      const refused = await t.runner.savePart(run, id, 1, Buffer.from('cd'));
      expectError(refused, 'RESOURCE_EXHAUSTED');
      const { message } = refused.body as { message: string };
      expect(message).toContain(String(limits.checkpointBytesPerTenant - 1));
      expect(message).toContain(String(limits.checkpointBytesPerTenant));
      expectOk(await t.runner.savePart(run, id, 1, Buffer.from('c')));
      expectError(await t.runner.savePart(run, id, 2, Buffer.from('d')), 'RESOURCE_EXHAUSTED');
      expectOk(await t.runner.completeCheckpoint(run, id, 2));
      expect(await listed(t, run)).toEqual([id, kept]);
      await elsewhere.runner.saveCheckpoint(other, whole);
      await setBytes(0);
      await t.runner.saveCheckpoint(run, whole);
    } finally {
      await client.end();
    }
  });

  test('a report is at most 1 MiB, and only a runner may send a part', async () => {
    const { key } = await createKey(api, { role: 'runner' });
    /** A body with a Content-Length; the reply comes before it is sent. */
    const announce = (path: string, bearer: string, bytes: number) =>
      sendRaw(server.url, {
        path,
        headers: {
          authorization: `Bearer ${bearer}`,
          'content-type': 'application/json',
          'content-length': String(bytes),
        },
        body: '{',
      });
    const { path, bodyBytes } = routes.runnerSaveCheckpoint;
    const report = await announce(routes.runnerReport.path, key, limits.bodyBytes + 1);
    expectError(report, 'INVALID_ARGUMENT');
    expect(report.text).toContain('1 MiB');
    expectError(await announce(path, api.key, bodyBytes), 'PERMISSION_DENIED');
    expectError(
      await announce(path, 'mst_nobody.0123456789abcdef0123456789abcdef', bodyBytes),
      'UNAUTHENTICATED',
    );
  });
});
