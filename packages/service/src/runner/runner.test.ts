import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Claim, PollReply, PollRequest, ReportReply, ReportRequest, Task } from '@muster/sdk/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../../test/support/async.ts';
import { sampleTask } from '../../../../test/support/samples.ts';
import type { Harness, HarnessSession } from '../harness/harness.ts';
import { type Runner, type RunnerOptions, startRunner } from './runner.ts';

/** What the runner's tests talk to: the two runner routes and the task routes, and ways to misbehave. */
class FakeService {
  leaseMs = 30_000;
  readonly polls: PollRequest[] = [];
  /** Every report that arrived, repeats too. */
  readonly reports: ReportRequest[] = [];
  /** The first arrival of each report. */
  readonly accepted: ReportRequest[] = [];
  tasks: Task[] = [];
  activeTaskIds: string[] = [];
  readonly spawned: unknown[] = [];
  endedAgents: string[] = [];
  /** Says what goes wrong with a request: an HTTP status, or `cut` for a reply that never comes. */
  fault: (path: string, body: unknown) => number | 'cut' | undefined = () => undefined;
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  readonly #starting = new Map<string, Claim>();
  readonly #fenced = new Set<string>();
  #stops: PollReply['stops'] = [];
  #wake: () => void = () => {};

  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** Gives the runner a run of the rehearsal agent. */
  offer(text: string, more: Partial<Claim> = {}): Claim {
    const claim: Claim = {
      agentKey: randomUUID(),
      runId: 1,
      attempt: 1,
      token: 'mst_agent.secret',
      preface: '',
      messages: [{ followUpId: '', text }],
      models: [],
      model: 'rehearsal-a',
      backend: 'BACKEND_A',
      outputSchema: '',
      session: '',
      tasks: [],
      firstTenant: true,
      agentId: {
        tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'local' },
        ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
        account: 'admin',
        agent: ['root'],
        workspace: 'default',
      },
      expectedOutput: '',
      persona: { name: 'default', instructions: '' },
      reasoningEffort: '',
      serviceTier: '',
      fastMode: false,
      homeSince: 1,
      branch: 'muster/root-000001',
      startFrom: [],
      maxTurnMinutes: 120,
      workspace: { document: {}, environment: {}, vmProfile: {} },
      ...more,
    };
    this.#starting.set(claim.agentKey, claim);
    this.#wake();
    return claim;
  }

  stop(claim: Claim, kind: 'INTERRUPT' | 'KILL'): void {
    if (kind === 'KILL') this.fence(claim);
    this.#stops.push({ agentKey: claim.agentKey, runId: claim.runId, kind });
    this.#wake();
  }

  /** From now on the run is not the runner's any more, and nobody tells it. */
  fence(claim: Claim): void {
    this.#fenced.add(claim.agentKey);
  }

  reportsOf(claim: Claim): ReportRequest[] {
    return this.accepted.filter((report) => report.agentKey === claim.agentKey);
  }

  endOf(claim: Claim): NonNullable<ReportRequest['end']> | undefined {
    return this.reportsOf(claim).find((report) => report.end)?.end ?? undefined;
  }

  textsOf(claim: Claim, type: string): (string | undefined)[] {
    const items = this.reportsOf(claim).flatMap((report) => report.items ?? []);
    return items.filter((item) => item.type === type).map((item) => item.text);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString() || '{}');
    const path = request.url ?? '';
    const fault = this.fault(path, body);
    const status = typeof fault === 'number' ? fault : this.#refusal(path, body as ReportRequest);
    if (status) return this.#answer(response, status, { code: 10, message: 'refused', details: [] });
    const reply =
      path === '/v1/runner/poll'
        ? await this.#poll(body as PollRequest, response)
        : this.#reply(path, body as never);
    if (fault === 'cut') response.destroy();
    else this.#answer(response, 200, reply);
  }

  #answer(response: ServerResponse, status: number, reply: unknown): void {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(reply));
  }

  #refusal(path: string, body: ReportRequest): number | undefined {
    const isFenced = path === '/v1/runner/report' && this.#fenced.has(body.agentKey) && !body.gone;
    return isFenced ? 409 : undefined;
  }

  async #poll(request: PollRequest, response: ServerResponse): Promise<PollReply> {
    this.polls.push(request);
    const isFor = ({ agentKey }: Claim) => !request.runs.some((run) => run.agentKey === agentKey);
    const ready = () => {
      const claims = [...this.#starting.values()].filter(isFor).slice(0, request.free.rehearsed);
      return claims.length + this.#stops.length > 0 ? claims : undefined;
    };
    const until = Date.now() + (request.waitMs ?? 0);
    let claims = ready();
    while (!claims && Date.now() < until && !response.destroyed) {
      await this.#news(response, until - Date.now());
      claims = ready();
    }
    const stops = response.destroyed ? [] : this.#stops.splice(0);
    return { leaseMs: this.leaseMs, claims: claims ?? [], stops };
  }

  async #news(response: ServerResponse, ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      response.once('close', resolve);
      setTimeout(resolve, ms).unref();
    });
  }

  #reply(path: string, body: never): unknown {
    if (path === '/v1/runner/report') return this.#report(body);
    if (path === '/v1/agent/tasks') return { tasks: this.tasks };
    if (path === '/v1/agent/tasks/update') return this.#updateTask(body);
    if (path === '/v1/runner/agents/ended') return { ended: this.endedAgents };
    if (path === '/v1/agent/spawn') this.spawned.push(body);
    return {};
  }

  #report(request: ReportRequest): ReportReply {
    const isRepeat = this.reports.some((r) => r.agentKey === request.agentKey && r.report === request.report);
    this.reports.push(request);
    if (!isRepeat) this.accepted.push(request);
    this.#starting.delete(request.agentKey);
    return { stop: '', tasks: this.tasks, activeTaskIds: this.activeTaskIds, asked: false };
  }

  #updateTask({ id, status }: Pick<Task, 'id' | 'status'>): unknown {
    this.tasks = this.tasks.map((task) => (task.id === id ? { ...task, status } : task));
    if (status === 'TASK_STATUS_COMPLETED')
      this.activeTaskIds = this.activeTaskIds.filter((active) => active !== id);
    return { task: this.tasks.find((task) => task.id === id) };
  }
}

let service: FakeService;
let url: string;
let dataFolder: string;
let runner: Runner;

beforeEach(async () => {
  service = new FakeService();
  url = await service.start();
  dataFolder = await mkdtemp(join(tmpdir(), 'muster-runner-'));
});
afterEach(async () => {
  await runner.abandon();
  await service.close();
  await rm(dataFolder, { recursive: true, force: true });
});

function start(options: Partial<RunnerOptions> = {}): void {
  runner = startRunner({
    url,
    apiKey: 'mst_r.s',
    name: 'one',
    dataFolder,
    rehearses: true,
    turnMs: 10,
    ...options,
  });
}

const ended = (claim: Claim) => eventually(() => expect(service.endOf(claim)).toBeDefined());
const workspaceOf = (claim: Claim) => join(dataFolder, 'agents', claim.agentKey, 'workspace');
const started = (claim: Claim) =>
  eventually(() => expect(existsSync(join(workspaceOf(claim), 'ready'))).toBe(true));

const task = (id: string, more: Partial<Task> = {}): Task =>
  sampleTask(id, { subject: `Task ${id}`, ...more });

describe('a claimed run', () => {
  it('is reported in order, from `started` to its end', async () => {
    start();
    const claim = service.offer('!say one\n!usage 10 2 3 0.5\n!say two\n!output {"a":1}\n!finish');
    await ended(claim);
    const reports = service.reportsOf(claim);
    expect(reports.map((report) => report.report)).toEqual(reports.map((_, i) => i + 1));
    expect(reports.find((report) => report.started)).toMatchObject({
      session: `rehearsal-${claim.agentKey}`,
      runnerId: runner.runnerId,
    });
    expect(service.textsOf(claim, 'MESSAGE')).toEqual(['one', 'two']);
    expect(reports.flatMap((report) => report.usage ?? [])).toEqual([
      { inputTokens: 10, cachedInputTokens: 2, outputTokens: 3, costUsd: 0.5 },
    ]);
    expect(reports.at(-1)?.end).toEqual({
      outcome: 'COMPLETED',
      response: 'two',
      structuredOutput: { a: 1 },
      finished: true,
    });
    const folder = await stat(workspaceOf(claim));
    expect(folder.mode & 0o777).toBe(0o700);
  });

  it('hears the batch as one text, and no directive in the news of its children', async () => {
    start();
    const messages = ['!say one', '!say two'].map((text) => ({ followUpId: '', text }));
    const claim = service.offer('', { preface: 'kid failed:\n!fail because', messages });
    await ended(claim);
    expect(service.textsOf(claim, 'MESSAGE')).toEqual(['one', 'two']);
    expect(service.endOf(claim)?.outcome).toBe('COMPLETED');
  });

  it('ends as its harness says: question, failure, provider limit', async () => {
    start();
    const [asks, fails, parks] = ['!ask Which?', '!fail no', '!limit 60'].map((text) =>
      service.offer(text),
    ) as [Claim, Claim, Claim];
    await Promise.all([asks, fails, parks].map(ended));
    expect(service.endOf(asks)).toMatchObject({ outcome: 'COMPLETED', question: 'Which?' });
    expect(service.endOf(fails)).toMatchObject({ outcome: 'FAILED', error: { message: 'no' } });
    expect(service.endOf(parks)).toMatchObject({ outcome: 'PARKED', limitUntil: expect.any(String) });
  });

  it('fails where the runner has no harness for its model', async () => {
    start({ rehearses: false });
    const claim = service.offer('hello', { model: 'claude-x' });
    await ended(claim);
    expect(service.endOf(claim)).toMatchObject({ outcome: 'FAILED', error: { code: 'NO_HARNESS' } });
  });

  it('completes its checklist through its own key, blockers first', async () => {
    service.tasks = [
      task('b', { blockedBy: ['a'] }),
      task('a'),
      task('idle', { activation: { filesModified: { pattern: '' } } }),
    ];
    service.activeTaskIds = ['a', 'b'];
    start();
    const claim = service.offer('Do your tasks');
    await ended(claim);
    expect(service.tasks.map((t) => t.status)).toEqual([
      'TASK_STATUS_COMPLETED',
      'TASK_STATUS_COMPLETED',
      'TASK_STATUS_PENDING',
    ]);
    expect(service.endOf(claim)?.response).toBe('Rehearsed: Task a, Task b.');
    expect(service.textsOf(claim, 'WARNING')).toEqual([]);
  });

  it('is reminded three times of active tasks it leaves, then ends', async () => {
    service.tasks = [task('a')];
    service.activeTaskIds = ['a'];
    start();
    const claim = service.offer('!say no');
    await ended(claim);
    expect(service.textsOf(claim, 'WARNING')).toHaveLength(3);
    expect(service.endOf(claim)).toMatchObject({ outcome: 'COMPLETED', response: 'no' });
  });

  it('spawns children under its own path, as rehearsed as itself', async () => {
    start();
    await ended(service.offer('!spawn kid !say hi\\n!finish'));
    expect(service.spawned).toMatchObject([
      {
        agentId: { agent: ['root', 'kid'], workspace: 'default' },
        description: '!say hi\n!finish',
        model: 'rehearsal-a',
      },
    ]);
  });

  it('gives structured output that fits its schema, or fails', async () => {
    const outputSchema = '{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}';
    start();
    const good = service.offer('!say x', { outputSchema });
    const bad = service.offer('!output {"n":"x"}', { outputSchema });
    await Promise.all([good, bad].map(ended));
    expect(service.endOf(good)).toMatchObject({ outcome: 'COMPLETED', structuredOutput: { n: 0 } });
    expect(service.endOf(bad)).toMatchObject({
      outcome: 'FAILED',
      error: { code: 'INVALID_STRUCTURED_OUTPUT' },
    });
  });
});

describe('reports', () => {
  it('whose reply is lost are sent again under the same number', async () => {
    let cuts = 0;
    service.fault = (path) =>
      path === '/v1/runner/report' && cuts++ < 3 ? (cuts === 2 ? 503 : 'cut') : undefined;
    start();
    const claim = service.offer('!say one\n!say two');
    await ended(claim);
    const numbers = service.reports.map((report) => report.report);
    expect(numbers.filter((n) => n === 1).length).toBeGreaterThan(1);
    expect(service.textsOf(claim, 'MESSAGE')).toEqual(['one', 'two']);
  });

  it('that the service calls invalid do not hold the run up', async () => {
    service.fault = (path, body) =>
      path === '/v1/runner/report' && JSON.stringify(body).includes('poison') ? 400 : undefined;
    start();
    const claim = service.offer('!say poison');
    await ended(claim);
    expect(service.endOf(claim)).toMatchObject({ outcome: 'FAILED', error: { code: 'REPORT_REFUSED' } });
  });

  it("never hold the run's own key, whatever the agent prints", async () => {
    start();
    const claim = service.offer('!run echo mst_agent.secret\n!say my key is mst_agent.secret');
    await ended(claim);
    const said = JSON.stringify(service.reportsOf(claim));
    expect(said).toContain('my key is (the key of this run)');
    expect(said).not.toContain(claim.token);
  });

  it('hold no text that the store refuses', async () => {
    start();
    const claim = service.offer('!say a\0b\ud800c');
    await ended(claim);
    expect(service.endOf(claim)?.response).toBe('a\ufffdb\ufffdc');
  });

  it('carry long output in pieces that fit a request', async () => {
    start();
    const claim = service.offer(
      Array.from({ length: 6 }, () => `!say ${'\u0001'.repeat(200_000)}`).join('\n'),
    );
    await ended(claim);
    for (const report of service.reports) expect(JSON.stringify(report).length).toBeLessThan(1024 * 1024);
    expect(service.textsOf(claim, 'MESSAGE')).toHaveLength(6);
  });
});

describe('stops', () => {
  it('INTERRUPT lets the turn come to rest and reports what it said', async () => {
    start();
    const claim = service.offer('!say so far\n!run touch ready\n!sleep 600\n!say never');
    await started(claim);
    service.stop(claim, 'INTERRUPT');
    await ended(claim);
    expect(service.endOf(claim)).toEqual({ outcome: 'INTERRUPTED', response: 'so far' });
  });

  it('INTERRUPT ends a run that is still being set up, and it does not count as set up', async () => {
    start();
    const setup = ['echo $$ > pid; touch ready; sleep 600'];
    const workspace = { document: {}, environment: { setup }, vmProfile: {} };
    const claim = service.offer('!say never', { workspace });
    await started(claim);
    service.stop(claim, 'INTERRUPT');
    await ended(claim);
    expect(service.endOf(claim)).toEqual({ outcome: 'INTERRUPTED', response: '' });
    expect(isAlive(claim)).toBe(false);
    expect(readdirSync(join(dataFolder, 'runs'))).toEqual([]);
    expect(existsSync(join(workspaceOf(claim), '..', 'note.json'))).toBe(false);
  });

  const turnWarnings = (claim: Claim) =>
    service.textsOf(claim, 'WARNING').filter((text) => text?.includes('maxTurnMinutes'));

  it('a turn longer than its limit is interrupted, and the timeline names the limit', async () => {
    start();
    const claim = service.offer('!say half\n!sleep 600', { maxTurnMinutes: 0.01 });
    await ended(claim);
    expect(service.endOf(claim)).toMatchObject({ outcome: 'INTERRUPTED', response: 'half' });
    expect(turnWarnings(claim)).toEqual([
      'The turn reached the limit of 0.01 minutes (maxTurnMinutes of its pool) and was interrupted. Send a message to continue.',
    ]);
  });

  it('a turn over its limit that does not stop is killed, and still only interrupted', async () => {
    let isKilled = false;
    let die: (reason: Error) => void = () => {};
    const deaf: HarnessSession = {
      deliver: () =>
        new Promise((_, reject) => {
          die = reject;
        }),
      interrupt: () => {},
      kill: async () => {
        isKilled = true;
        die(new Error('killed'));
      },
      close: async () => {},
    };
    const harness: Harness = { sessionFiles: () => [], open: async () => deaf };
    start({ rehearses: false, harnesses: { BACKEND_A: harness }, limits: { handBackMs: 50 } });
    const claim = service.offer('hello', { model: 'opus', maxTurnMinutes: 0.01 });
    await ended(claim);
    expect(service.endOf(claim)).toMatchObject({ outcome: 'INTERRUPTED' });
    expect(isKilled).toBe(true);
  });

  it('a pool may have no limit; an older service names none, and the builtin one counts', async () => {
    start({ limits: { turnMinutes: 0.01 } });
    const endless = service.offer('!run touch ready; sleep 600', { maxTurnMinutes: 0 });
    const older = service.offer('!sleep 600', { maxTurnMinutes: undefined as unknown as number });
    await started(endless);
    await ended(older);
    expect(turnWarnings(older)).toHaveLength(1);
    expect(service.endOf(endless)).toBeUndefined();
    service.stop(endless, 'INTERRUPT');
    await ended(endless);
    expect(turnWarnings(endless)).toEqual([]);
  });

  it('KILL ends the processes, then says that nothing is left', async () => {
    start();
    const claim = service.offer('!run echo $$ > pid; touch ready; sleep 600');
    await started(claim);
    service.stop(claim, 'KILL');
    await eventually(() => expect(service.reportsOf(claim).at(-1)).toMatchObject({ gone: true }));
    expect(isAlive(claim)).toBe(false);
    expect(service.endOf(claim)).toBeUndefined();
  });

  it('a run that was given away is killed and declared gone', async () => {
    start();
    const claim = service.offer(
      '!run touch ready; until [ -e go ]; do sleep 0.05; done\n!run echo $$ > pid; touch acting; sleep 600',
    );
    await started(claim);
    service.fence(claim);
    await writeFile(join(workspaceOf(claim), 'go'), '');
    await eventually(() => expect(service.reportsOf(claim).at(-1)).toMatchObject({ gone: true }));
    expect(isAlive(claim)).toBe(false);
    expect(service.endOf(claim)).toBeUndefined();
    const before = service.polls.length;
    await eventually(() =>
      expect(service.polls.slice(before).some((poll) => poll.runs.length === 0)).toBe(true),
    );
  });

  it('KILL of a run it never had is answered too', async () => {
    start();
    const claim = { ...service.offer('!say x'), agentKey: '00000000-0000-4000-8000-00000000000f' };
    service.stop(claim, 'KILL');
    await eventually(() => expect(service.reportsOf(claim)).toMatchObject([{ gone: true, runId: 1 }]));
  });
});

describe('polling', () => {
  it('takes no more than it may, and asks again at once when a slot gets free', async () => {
    start({ limits: { rehearsedRunsPerRunner: 1 } });
    const claims = [1, 2, 3].map((n) => service.offer(`!say ${n}`));
    await Promise.all(claims.map(ended));
    for (const poll of service.polls) expect(poll.runs.length).toBeLessThanOrEqual(1);
    expect(service.polls.map((poll) => poll.poll)).toEqual(service.polls.map((_, i) => i + 1));
    expect(service.polls[0]).toMatchObject({ name: 'one', rehearses: true, capabilities: ['deferral'] });
  });

  it('starts a claim once, also when its reply was lost or it is sent again', async () => {
    let cuts = 0;
    const claim = service.offer('!run echo x >> count; touch ready');
    service.fault = (path) => (path === '/v1/runner/poll' && cuts++ < 2 ? 'cut' : undefined);
    start();
    await ended(claim);
    expect(readFileSync(join(workspaceOf(claim), 'count'), 'utf8')).toBe('x\n');
  });

  it('registers again under a new id when the service refuses the old one and its lease is over', async () => {
    service.leaseMs = 1_000;
    start();
    await runner.welcomed;
    const first = runner.runnerId;
    service.fault = (_, body) => ((body as PollRequest).runnerId === first ? 403 : undefined);
    // Only the first lease is meant to be lost.
    service.leaseMs = 3_600_000;
    await eventually(() => expect(service.polls.at(-1)?.runnerId).not.toBe(first));
    const again = service.polls.filter(({ runnerId }) => runnerId !== first);
    expect(again[0]).toMatchObject({ name: 'one', poll: 1, runnerId: runner.runnerId });
    const claim = service.offer('!say served');
    await ended(claim);
    expect(service.reportsOf(claim)[0]?.runnerId).toBe(runner.runnerId);
  });

  it('kills every session when no poll has succeeded for a lease', async () => {
    service.leaseMs = 1500;
    start();
    const claim = service.offer('!run echo $$ > pid; touch ready; sleep 600');
    await started(claim);
    expect(isAlive(claim)).toBe(true);
    service.fault = () => 503;
    await eventually(() => expect(isAlive(claim)).toBe(false));
    service.fault = () => undefined;
    const before = service.polls.length;
    await eventually(() => expect(service.polls.length).toBeGreaterThan(before));
    expect(service.polls.at(-1)?.runs).toEqual([]);
    expect(service.endOf(claim)).toBeUndefined();
  });
});

describe('drain', () => {
  it('hands live runs back, says that it leaves, and ends', async () => {
    start();
    const claim = service.offer('!say x\n!run echo $$ > pid; touch ready; sleep 600');
    await started(claim);
    await runner.drain();
    expect(service.endOf(claim)).toEqual({ outcome: 'HANDED_BACK' });
    expect(service.textsOf(claim, 'MESSAGE')).toEqual(['x']);
    expect(service.polls.at(-1)).toMatchObject({ leaving: true, runs: [], free: { real: 0, rehearsed: 0 } });
    expect(isAlive(claim)).toBe(false);
  });

  it('does not wait for a set-up that has only begun', async () => {
    start({ limits: { handBackMs: 3_600_000 } });
    const setup = ['echo $$ > pid; touch ready; sleep 600'];
    const claim = service.offer('!say never', {
      workspace: { document: {}, environment: { setup }, vmProfile: {} },
    });
    await started(claim);
    await runner.drain();
    expect(service.endOf(claim)).toEqual({ outcome: 'HANDED_BACK' });
    expect(isAlive(claim)).toBe(false);
  });

  it('ends also when the service is away', async () => {
    start();
    await eventually(() => expect(service.polls.length).toBeGreaterThan(0));
    service.fault = () => 503;
    await runner.drain();
  });

  it('abandons without a word', async () => {
    start();
    const claim = service.offer('!run echo $$ > pid; touch ready; sleep 600');
    await started(claim);
    await runner.abandon();
    const said = service.reports.length;
    expect(isAlive(claim)).toBe(false);
    expect(service.endOf(claim)).toBeUndefined();
    expect(service.reports).toHaveLength(said);
  });
});

/** Whether the shell that wrote `pid` lives; one that nobody reaped is dead. */
function isAlive(claim: Claim): boolean {
  try {
    const pid = Number(readFileSync(join(workspaceOf(claim), 'pid'), 'utf8'));
    process.kill(pid, 0);
    return (
      !existsSync('/proc/self/stat') || !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    );
  } catch {
    return false;
  }
}
