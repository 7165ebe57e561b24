import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Claim, PollReply, PollRequest, ReportReply, ReportRequest, Task } from '@muster/sdk/contract';
import { afterEach, beforeEach, expect } from 'vitest';
import { silentLog } from '../../packages/service/src/lib/log.ts';
import { Runner, type RunnerOptions } from '../../packages/service/src/runner/runner.ts';
import { eventually } from './async.ts';
import { FakeBudget } from './credit.ts';

/** The routes of the service that a runner uses, with ways to make them fail. */
class FakeService {
  leaseMs = 30_000;
  /** Whether a report extends the runner's lease. */
  reportsExtend = false;
  /** Polls are answered after this. */
  held: Promise<void> = Promise.resolve();
  /** Whether replies ask the runner to drain. */
  drains = false;
  /** Whether they ask one that drains to take runs again. */
  undrains = false;
  readonly polls: PollRequest[] = [];
  /** Every report that arrived, including repeated ones. */
  readonly reports: ReportRequest[] = [];
  /** The first arrival of each report. */
  readonly accepted: ReportRequest[] = [];
  tasks: Task[] = [];
  activeTaskIds: string[] = [];
  awaited: string[] = [];
  readonly spawned: unknown[] = [];
  /** Over all runs together. */
  budget = new FakeBudget(1e6);
  endedAgents: string[] = [];
  /** Makes a request fail: with an HTTP status, or with `cut` for a reply that never comes. */
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
      messages: [{ followUpId: '', text, attachmentIds: [] }],
      account: '',
      retried: false,
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
      pushed: {},
      startFrom: [],
      maxTurnMinutes: 120,
      workspace: { document: {}, environment: {}, environmentVersion: '', vmProfile: {} },
      secrets: [],
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

  /** Another runner gets the run, and this one is not notified. */
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
    const [path = '', query] = (request.url ?? '').split('?');
    // Only uploads have a query.
    const body: unknown = query === undefined ? JSON.parse(Buffer.concat(chunks).toString() || '{}') : {};
    const fault = this.fault(path, body);
    const status = typeof fault === 'number' ? fault : this.#refusal(path, body as ReportRequest);
    if (status) return this.#answer(response, status, { code: 10, message: 'refused', details: [] });
    const reply =
      path === '/v1/runner/poll'
        ? await this.#poll(body as PollRequest, response)
        : this.#reply(path, body as never);
    if (fault === 'cut') response.destroy();
    else this.#answer(response, 200, await reply);
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
    await this.held;
    const isFor = ({ agentKey }: Claim) => !request.runs.some((run) => run.agentKey === agentKey);
    const ready = () => {
      const claims = [...this.#starting.values()].filter(isFor).slice(0, request.free.rehearsed);
      return claims.length + this.#stops.length > 0 ? claims : undefined;
    };
    const until = Date.now() + (request.waitMs ?? 0);
    let claims = ready();
    while (!claims && Date.now() < until && !response.destroyed) {
      await this.#change(response, until - Date.now());
      claims = ready();
    }
    const stops = response.destroyed ? [] : this.#stops.splice(0);
    return {
      leaseMs: this.leaseMs,
      claims: claims ?? [],
      stops,
      steers: [],
      watched: [],
      drain: this.drains,
      undrain: this.undrains,
    };
  }

  async #change(response: ServerResponse, ms: number): Promise<void> {
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
    if (path === '/v1/runner/credit') return this.budget.ask(body, new AbortController().signal);
    if (path === '/v1/agent/spawn') this.spawned.push(body);
    return {};
  }

  #report(request: ReportRequest): ReportReply {
    const isRepeat = this.reports.some((r) => r.agentKey === request.agentKey && r.report === request.report);
    this.reports.push(request);
    if (!isRepeat) this.accepted.push(request);
    this.#starting.delete(request.agentKey);
    const { leaseMs, tasks, activeTaskIds, awaited } = this;
    return {
      stop: '',
      tasks,
      activeTaskIds,
      asked: false,
      awaited,
      leaseMs: this.reportsExtend ? leaseMs : 0,
    };
  }

  #updateTask({ id, status }: Pick<Task, 'id' | 'status'>): unknown {
    this.tasks = this.tasks.map((task) => (task.id === id ? { ...task, status } : task));
    if (status === 'TASK_STATUS_COMPLETED')
      this.activeTaskIds = this.activeTaskIds.filter((active) => active !== id);
    return { task: this.tasks.find((task) => task.id === id) };
  }
}

/** A new fake service and data folder for each test, and a runner when the test starts one. */
export class RunnerFixture {
  service = new FakeService();
  dataFolder = '';
  #url = '';
  #runner: Runner | undefined;

  constructor() {
    beforeEach(async () => {
      this.service = new FakeService();
      this.#url = await this.service.start();
      this.dataFolder = await mkdtemp(join(tmpdir(), 'muster-runner-'));
    });
    afterEach(async () => {
      await this.#runner?.abandon();
      await this.service.close();
      await rm(this.dataFolder, { recursive: true, force: true });
    });
  }

  start(options: Partial<RunnerOptions> = {}): Runner {
    this.#runner = new Runner({
      url: this.#url,
      apiKey: 'mst_r.s',
      name: 'one',
      dataFolder: this.dataFolder,
      rehearses: true,
      harnesses: {},
      providers: {},
      prices: new Map(),
      stallMs: 300_000,
      limitWaitMs: 60_000,
      keepFoldersDays: 7,
      diskReserveGb: 0,
      innerHosts: [],
      checkpointMs: 60_000,
      sandbox: null,
      environment: {},
      tenantAllow: new Map(),
      turnMs: 10,
      log: silentLog,
      build: 'test',
      ...options,
    });
    return this.#runner;
  }

  ended(claim: Claim): Promise<void> {
    return eventually(() => expect(this.service.endOf(claim)).toBeDefined());
  }

  workspaceOf(claim: Claim): string {
    return join(this.dataFolder, 'agents', claim.agentKey, 'workspace');
  }

  /** When the agent has made the file `ready`. */
  started(claim: Claim): Promise<void> {
    return eventually(() => expect(existsSync(join(this.workspaceOf(claim), 'ready'))).toBe(true));
  }

  /** Whether the agent has written the file `pid` and the process with this pid is running. */
  isAlive(claim: Claim): boolean {
    const file = join(this.workspaceOf(claim), 'pid');
    return existsSync(file) && isAlive(Number(readFileSync(file, 'utf8')));
  }
}

/** A zombie is not alive. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return (
      !existsSync('/proc/self/stat') || !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    );
  } catch {
    return false;
  }
}
