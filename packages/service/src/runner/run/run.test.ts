import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Claim, Task } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import { FakeBudget, spent } from '../../../../../test/support/credit.ts';
import { RunnerFixture } from '../../../../../test/support/fake-service.ts';
import { makeGitRemote } from '../../../../../test/support/git-remote.ts';
import { sampleTask } from '../../../../../test/support/samples.ts';
import type { Harness, HarnessSession } from '../../harness/harness.ts';

const fixture = new RunnerFixture();

const task = (id: string, more: Partial<Task> = {}): Task =>
  sampleTask(id, { subject: `Task ${id}`, ...more });

describe('a run within a budget', () => {
  it('reserves what it uses before it reports it, and ends parked where it is refused', async () => {
    const budget = new FakeBudget(1);
    Object.assign(fixture.service, { budget });
    fixture.start();
    const claim = fixture.service.offer(
      '!usage 10 0 1 0.6\n!usage 10 0 1 0.4\n!usage 10 0 1 0.01\n!say not reached',
    );
    const startedMs = Date.now();
    await fixture.ended(claim);
    const { agentKey, runId } = claim;
    expect(budget.asked).toMatchObject([0.6, 1, 1.01].map((upToUsd) => ({ agentKey, runId, upToUsd })));
    const reports = fixture.service.reportsOf(claim);
    const usd = reports.reduce((sum, { usage }) => sum + (usage?.costUsd ?? 0), 0);
    expect(usd).toBeCloseTo(1);
    const end = fixture.service.endOf(claim);
    expect(end).toEqual({ outcome: 'PARKED', limitUntil: expect.any(String) });
    expect(Date.parse(end?.limitUntil ?? '')).toBeGreaterThanOrEqual(startedMs);
    expect(Date.parse(end?.limitUntil ?? '')).toBeLessThanOrEqual(Date.now());
    // The service writes the warning.
    expect(fixture.service.textsOf(claim, 'WARNING').join('\n')).not.toContain(spent);
  });

  it('repeats a request for credit whose reply was lost, for the same amount', async () => {
    const { budget } = fixture.service;
    fixture.start();
    fixture.service.fault = (path) =>
      path === '/v1/runner/credit' && budget.asked.length === 0 ? 'cut' : undefined;
    const claim = fixture.service.offer('!usage 10 0 1 0.6\n!say done');
    await fixture.ended(claim);
    expect(fixture.service.endOf(claim)).toMatchObject({ response: 'done' });
    expect(budget.asked.map(({ upToUsd }) => upToUsd)).toEqual([0.6, 0.6]);
  });

  it('reports nothing that it did not get credit for, if it is interrupted while it waits for it', async () => {
    fixture.service.fault = (path) => (path === '/v1/runner/credit' ? 503 : undefined);
    fixture.start();
    const claim = fixture.service.offer('!run touch ready\n!usage 10 0 1 0.6\n!say never');
    await fixture.started(claim);
    fixture.service.stop(claim, 'INTERRUPT');
    await fixture.ended(claim);
    expect(fixture.service.endOf(claim)?.outcome).toBe('INTERRUPTED');
    expect(fixture.service.reportsOf(claim).flatMap(({ usage }) => usage ?? [])).toEqual([]);
  });
});

describe('a claimed run', () => {
  it('is reported in order, from its start to its end', async () => {
    const runner = fixture.start();
    const claim = fixture.service.offer('!say one\n!usage 10 2 3 0.5\n!say two\n!output {"a":1}\n!finish');
    await fixture.ended(claim);
    const reports = fixture.service.reportsOf(claim);
    expect(reports.map((report) => report.report)).toEqual(reports.map((_, i) => i + 1));
    expect(reports.find((report) => report.started)).toMatchObject({
      session: `rehearsal-${claim.agentKey}`,
      runnerId: runner.runnerId,
    });
    expect(fixture.service.textsOf(claim, 'MESSAGE')).toEqual(['one', 'two']);
    expect(reports.flatMap((report) => report.usage ?? [])).toEqual([
      { inputTokens: 10, cachedInputTokens: 2, outputTokens: 3, costUsd: 0.5 },
    ]);
    expect(reports.at(-1)?.end).toEqual({
      outcome: 'COMPLETED',
      response: 'two',
      structuredOutput: { a: 1 },
      finished: true,
    });
    const folder = await stat(fixture.workspaceOf(claim));
    expect(folder.mode & 0o777).toBe(0o700);
  });

  it('gets the batch as one text, without directives in the results of its children', async () => {
    fixture.start();
    const messages = ['!say one', '!say two'].map((text) => ({
      followUpId: '',
      text,
      attachmentIds: [],
    }));
    const claim = fixture.service.offer('', { preface: 'kid failed:\n!fail because', messages });
    await fixture.ended(claim);
    expect(fixture.service.textsOf(claim, 'MESSAGE')).toEqual(['one', 'two']);
    expect(fixture.service.endOf(claim)?.outcome).toBe('COMPLETED');
  });

  it('ends with the result of its harness: question, failure, provider limit', async () => {
    fixture.start();
    const [asks, fails, parks] = ['!ask Which?', '!fail no', '!limit 60'].map((text) =>
      fixture.service.offer(text),
    ) as [Claim, Claim, Claim];
    await Promise.all([asks, fails, parks].map((claim) => fixture.ended(claim)));
    expect(fixture.service.endOf(asks)).toMatchObject({ outcome: 'COMPLETED', question: 'Which?' });
    expect(fixture.service.endOf(fails)).toMatchObject({ outcome: 'FAILED', error: { message: 'no' } });
    expect(fixture.service.endOf(parks)).toMatchObject({ outcome: 'PARKED', limitUntil: expect.any(String) });
  });

  it('skips a malformed directive when it is retried, or when another message follows', async () => {
    fixture.start();
    const message = (text: string) => ({ followUpId: '', text, attachmentIds: [] });
    const text = '!sleep soon\n!say done';
    const claims = [
      fixture.service.offer(text),
      fixture.service.offer(text, { attempt: 2 }),
      fixture.service.offer('', { messages: [message(text), message('!say now')] }),
      fixture.service.offer('', { messages: [message('!say now'), message(text)] }),
    ];
    await Promise.all(claims.map((claim) => fixture.ended(claim)));
    expect(claims.map((claim) => fixture.service.endOf(claim)?.error?.code ?? 'done')).toEqual([
      'INVALID_DIRECTIVE',
      'done',
      'done',
      'INVALID_DIRECTIVE',
    ]);
    expect(claims.slice(1, 3).map((claim) => fixture.service.textsOf(claim, 'WARNING'))).toEqual(
      Array(2).fill([expect.stringMatching(/!sleep needs SECONDS.*\(skipped\)/)]),
    );
    expect(fixture.service.textsOf(claims[2] as Claim, 'MESSAGE')).toEqual(['done', 'now']);
  });

  it('reports a git host that it could not reach, and that it was reached until no agent waits for it', async () => {
    const remote = makeGitRemote(fixture.dataFolder, 'remote');
    remote.commit('main', { 'a.txt': 'a' });
    remote.git('update-server-info');
    let isDown = true;
    const host = createServer((request, response) => {
      const file = join(
        remote.url,
        new URL(request.url ?? '', 'http://x').pathname.replace('/remote.git', ''),
      );
      if (isDown || !existsSync(file)) return void response.writeHead(isDown ? 503 : 404).end();
      response.end(readFileSync(file));
    });
    await once(host.listen(0, '127.0.0.1'), 'listening');
    try {
      const { port } = host.address() as AddressInfo;
      const document = { repos: [`http://127.0.0.1:${port}/remote.git`] };
      const workspace = { document, environment: {}, environmentVersion: '', vmProfile: {} };
      fixture.start();
      const ended = async () => {
        const claim = fixture.service.offer('!say hi', { workspace });
        await fixture.ended(claim);
        return { claim, reached: fixture.service.reportsOf(claim).flatMap(({ reached = [] }) => reached) };
      };
      const { claim } = await ended();
      expect(fixture.service.endOf(claim)).toMatchObject({
        error: { code: 'GIT_UNREACHABLE' },
        awaits: 'git:127.0.0.1',
      });
      isDown = false;
      fixture.service.awaited = ['git:127.0.0.1'];
      expect((await ended()).reached).toEqual(['git:127.0.0.1']);
      fixture.service.awaited = [];
      expect((await ended()).reached).toEqual(['git:127.0.0.1']);
      expect((await ended()).reached).toEqual([]);
    } finally {
      host.close();
    }
  });

  it('fails if the runner has no harness for its model', async () => {
    fixture.start({ rehearses: false });
    const claim = fixture.service.offer('hello', { model: 'claude-x' });
    await fixture.ended(claim);
    expect(fixture.service.endOf(claim)).toMatchObject({ outcome: 'FAILED', error: { code: 'NO_HARNESS' } });
  });

  it('completes its checklist with its own key, blockers first', async () => {
    fixture.service.tasks = [
      task('b', { blockedBy: ['a'] }),
      task('a'),
      task('idle', { activation: { filesModified: { pattern: '' } } }),
    ];
    fixture.service.activeTaskIds = ['a', 'b'];
    fixture.start();
    const claim = fixture.service.offer('Do your tasks');
    await fixture.ended(claim);
    expect(fixture.service.tasks.map((t) => t.status)).toEqual([
      'TASK_STATUS_COMPLETED',
      'TASK_STATUS_COMPLETED',
      'TASK_STATUS_PENDING',
    ]);
    expect(fixture.service.endOf(claim)?.response).toBe('Rehearsed: Task a, Task b.');
    expect(fixture.service.textsOf(claim, 'WARNING')).toEqual([]);
  });

  it('is reminded three times of unfinished active tasks, then ends', async () => {
    fixture.service.tasks = [task('a')];
    fixture.service.activeTaskIds = ['a'];
    fixture.start();
    const claim = fixture.service.offer('!say no');
    await fixture.ended(claim);
    expect(fixture.service.textsOf(claim, 'WARNING')).toHaveLength(3);
    expect(fixture.service.endOf(claim)).toMatchObject({ outcome: 'COMPLETED', response: 'no' });
  });

  it('spawns children under its own path, with its own rehearsal model', async () => {
    fixture.start();
    await fixture.ended(fixture.service.offer('!spawn kid !say hi\\n!finish'));
    expect(fixture.service.spawned).toMatchObject([
      {
        agentId: { agent: ['root', 'kid'], workspace: 'default' },
        description: '!say hi\n!finish',
        model: 'rehearsal-a',
      },
    ]);
  });

  it('returns structured output that matches its schema, or fails', async () => {
    const outputSchema = '{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}';
    fixture.start();
    const good = fixture.service.offer('!say x', { outputSchema });
    const bad = fixture.service.offer('!output {"n":"x"}', { outputSchema });
    await Promise.all([good, bad].map((claim) => fixture.ended(claim)));
    expect(fixture.service.endOf(good)).toMatchObject({ outcome: 'COMPLETED', structuredOutput: { n: 0 } });
    expect(fixture.service.endOf(bad)).toMatchObject({
      outcome: 'FAILED',
      error: { code: 'INVALID_STRUCTURED_OUTPUT' },
    });
  });
});

describe('reports', () => {
  it('are sent again under the same number if the reply is lost', async () => {
    let cuts = 0;
    fixture.service.fault = (path) =>
      path === '/v1/runner/report' && cuts++ < 3 ? (cuts === 2 ? 503 : 'cut') : undefined;
    fixture.start();
    const claim = fixture.service.offer('!say one\n!say two');
    await fixture.ended(claim);
    const numbers = fixture.service.reports.map((report) => report.report);
    expect(numbers.filter((n) => n === 1).length).toBeGreaterThan(1);
    expect(fixture.service.textsOf(claim, 'MESSAGE')).toEqual(['one', 'two']);
  });

  it('that the service calls invalid do not block the run', async () => {
    fixture.service.fault = (path, body) =>
      path === '/v1/runner/report' && JSON.stringify(body).includes('poison') ? 400 : undefined;
    fixture.start();
    const claim = fixture.service.offer('!say poison');
    await fixture.ended(claim);
    expect(fixture.service.endOf(claim)).toMatchObject({
      outcome: 'FAILED',
      error: { code: 'REPORT_REFUSED' },
    });
  });

  it("never contain the run's own key, whatever the agent prints", async () => {
    fixture.start();
    const claim = fixture.service.offer('!run echo mst_agent.secret\n!say my key is mst_agent.secret');
    await fixture.ended(claim);
    const reported = JSON.stringify(fixture.service.reportsOf(claim));
    expect(reported).toContain('my key is (the key of this run)');
    expect(reported).not.toContain(claim.token);
  });

  it('contain no text that the database refuses', async () => {
    fixture.start();
    const claim = fixture.service.offer('!say a\0b\ud800c');
    await fixture.ended(claim);
    expect(fixture.service.endOf(claim)?.response).toBe('a\ufffdb\ufffdc');
  });

  it('split long output into requests of limited size', async () => {
    fixture.start();
    const claim = fixture.service.offer(
      Array.from({ length: 6 }, () => `!say ${'\u0001'.repeat(200_000)}`).join('\n'),
    );
    await fixture.ended(claim);
    for (const report of fixture.service.reports)
      expect(JSON.stringify(report).length).toBeLessThan(1024 * 1024);
    expect(fixture.service.textsOf(claim, 'MESSAGE')).toHaveLength(6);
  });
});

describe('stops', () => {
  it('INTERRUPT ends the turn and reports its response', async () => {
    fixture.start();
    const claim = fixture.service.offer('!say so far\n!run touch ready\n!sleep 600\n!say never');
    await fixture.started(claim);
    fixture.service.stop(claim, 'INTERRUPT');
    await fixture.ended(claim);
    expect(fixture.service.endOf(claim)).toEqual({ outcome: 'INTERRUPTED', response: 'so far' });
  });

  it('INTERRUPT ends a run during its setup, which then does not count as done', async () => {
    fixture.start();
    const setup = ['echo $$ > pid; touch ready; sleep 600'];
    const workspace = { document: {}, environment: { setup }, environmentVersion: '', vmProfile: {} };
    const claim = fixture.service.offer('!say never', { workspace });
    await fixture.started(claim);
    fixture.service.stop(claim, 'INTERRUPT');
    await fixture.ended(claim);
    expect(fixture.service.endOf(claim)).toEqual({ outcome: 'INTERRUPTED', response: '' });
    expect(fixture.isAlive(claim)).toBe(false);
    expect(readdirSync(join(fixture.dataFolder, 'runs'))).toEqual([]);
    expect(existsSync(join(fixture.workspaceOf(claim), '..', 'note.json'))).toBe(false);
  });

  const turnWarnings = (claim: Claim) =>
    fixture.service.textsOf(claim, 'WARNING').filter((text) => text?.includes('maxTurnMinutes'));

  it('a turn longer than its limit is interrupted, and the timeline says so', async () => {
    fixture.start();
    const claim = fixture.service.offer('!say half\n!sleep 600', { maxTurnMinutes: 0.01 });
    await fixture.ended(claim);
    expect(fixture.service.endOf(claim)).toMatchObject({ outcome: 'INTERRUPTED', response: 'half' });
    expect(turnWarnings(claim)).toEqual([
      'The turn reached the limit of 0.01 minutes (maxTurnMinutes of its pool) and was interrupted. Send a message to continue.',
    ]);
  });

  it('a turn over its limit that does not stop is killed, and reported as interrupted', async () => {
    let isKilled = false;
    let die: (reason: Error) => void = () => {};
    const unresponsive: HarnessSession = {
      deliver: () =>
        new Promise((_, reject) => {
          die = reject;
        }),
      steer: async () => false,
      interrupt: () => {},
      kill: async () => {
        isKilled = true;
        die(new Error('killed'));
      },
      close: async () => {},
    };
    const harness: Harness = { sessionFiles: () => [], open: async () => unresponsive };
    fixture.start({ rehearses: false, harnesses: { BACKEND_A: harness }, limits: { handBackMs: 50 } });
    const claim = fixture.service.offer('hello', { model: 'opus', maxTurnMinutes: 0.01 });
    await fixture.ended(claim);
    expect(fixture.service.endOf(claim)).toMatchObject({ outcome: 'INTERRUPTED' });
    expect(isKilled).toBe(true);
  });

  it('a pool may have no limit; without one from the service, the built-in limit applies', async () => {
    fixture.start({ limits: { turnMinutes: 0.01 } });
    const endless = fixture.service.offer('!run touch ready; sleep 600', { maxTurnMinutes: 0 });
    const older = fixture.service.offer('!sleep 600', { maxTurnMinutes: undefined as unknown as number });
    await fixture.started(endless);
    await fixture.ended(older);
    expect(turnWarnings(older)).toHaveLength(1);
    expect(fixture.service.endOf(endless)).toBeUndefined();
    fixture.service.stop(endless, 'INTERRUPT');
    await fixture.ended(endless);
    expect(turnWarnings(endless)).toEqual([]);
  });

  it('KILL kills the processes, then reports that nothing is left', async () => {
    fixture.start();
    const claim = fixture.service.offer('!run echo $$ > pid; touch ready; sleep 600');
    await fixture.started(claim);
    fixture.service.stop(claim, 'KILL');
    await eventually(() => expect(fixture.service.reportsOf(claim).at(-1)).toMatchObject({ gone: true }));
    expect(fixture.isAlive(claim)).toBe(false);
    expect(fixture.service.endOf(claim)).toBeUndefined();
  });

  it('a run that another runner got is killed and reported as gone', async () => {
    fixture.start();
    const claim = fixture.service.offer(
      '!run touch ready; until [ -e go ]; do sleep 0.05; done\n!run echo $$ > pid; touch acting; sleep 600',
    );
    await fixture.started(claim);
    fixture.service.fence(claim);
    await writeFile(join(fixture.workspaceOf(claim), 'go'), '');
    await eventually(() => expect(fixture.service.reportsOf(claim).at(-1)).toMatchObject({ gone: true }));
    expect(fixture.isAlive(claim)).toBe(false);
    expect(fixture.service.endOf(claim)).toBeUndefined();
    const before = fixture.service.polls.length;
    // Ends the open poll, so that the runner polls again.
    fixture.service.offer('!say next');
    await eventually(() =>
      expect(
        fixture.service.polls
          .slice(before)
          .some(({ runs }) => runs.every(({ agentKey }) => agentKey !== claim.agentKey)),
      ).toBe(true),
    );
  });

  it('KILL of an unknown run is answered too', async () => {
    fixture.start();
    const claim = { ...fixture.service.offer('!say x'), agentKey: '00000000-0000-4000-8000-00000000000f' };
    fixture.service.stop(claim, 'KILL');
    await eventually(() =>
      expect(fixture.service.reportsOf(claim)).toMatchObject([{ gone: true, runId: 1 }]),
    );
  });
});
