import { randomUUID } from 'node:crypto';
import type { AgentStatus, ChangeRequest, Delivery } from '@muster/sdk/contract';
import pg from 'pg';
import { expect } from 'vitest';
import type { Capabilities } from '../../packages/service/src/codehost/host.ts';
import { type Answer, type Api, apiOf } from '../support/api.ts';
import { writeResource } from '../support/catalog.ts';
import { type Server, startServer } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import type { FakeHost, Role } from './fake-host.ts';
import { until } from './patience.ts';

/** A service that may call these hosts. Several scenarios can share it, each with a host of its own. */
export const startFor = (...hosts: readonly FakeHost[]): Promise<Server> =>
  startServer({ env: envFor(...hosts) });

/** What a service needs to call these hosts. */
export const envFor = (...hosts: readonly FakeHost[]): Record<string, string> => ({
  MUSTER_ALLOW_INNER_HOSTS: hosts.map(({ url }) => new URL(url).host).join(),
  MUSTER_REVIEW_SETTLE_SECONDS: '1',
  MUSTER_SANDBOX: 'off',
});

let scenarios = 0;

/** The name of a step, and what it does. */
export type Step = readonly [name: string, run: () => Promise<void>];

/** Settings of the integration beside its address, credential and workspace. */
export type IntegrationFields = Readonly<Record<string, unknown>>;

/**
 * From an issue to a merged change, driven like people drive it: through the code host and through the API. The steps
 * wait for what they cause, so that a test can break something between any two of them.
 */
export class Scenario {
  readonly host: FakeHost;
  server: Server;
  api: Api;
  /** Its name, and that of the account of its agents. */
  readonly integration: string;
  readonly workspace: string;
  #issue = 0;
  #agent: string[] = [];
  readonly #isShared: boolean;

  private constructor(host: FakeHost, server: Server, api: Api, isShared: boolean) {
    scenarios += 1;
    this.host = host;
    this.server = server;
    this.api = api;
    this.#isShared = isShared;
    this.integration = isShared ? `host-${scenarios}` : 'host';
    this.workspace = isShared ? `project-${scenarios}` : 'project';
  }

  /**
   * With a service of its own, which ends with it, or with a tenant of its own at one that others use too: a comparison
   * with the host is asked for by tenant.
   */
  static async start(host: FakeHost, fields: IntegrationFields = {}, shared?: Server): Promise<Scenario> {
    const server = shared ?? (await startFor(host));
    const api = shared ? (await newTenant(await operatorOf(shared))).admin : apiOf(server);
    const scenario = new Scenario(host, server, api, shared !== undefined);
    await scenario.#setUp(fields);
    return scenario;
  }

  /** With a service of its own, which has no runner. */
  static async startWithoutRunner(host: FakeHost, fields: IntegrationFields = {}): Promise<Scenario> {
    const server = await startServer({ env: envFor(host), runner: false });
    const scenario = new Scenario(host, server, apiOf(server), false);
    await scenario.#setUp(fields);
    return scenario;
  }

  async #setUp(fields: IntegrationFields): Promise<void> {
    const { api, host, integration, workspace } = this;
    await writeResource(api, 'secret', `${integration}-token`, { value: host.token });
    await writeResource(api, 'workspace', workspace, {
      repos: [{ url: host.gitUrl, baseBranch: 'main' }],
      model: 'rehearsal-a',
    });
    const written = await writeResource(api, 'integration', integration, {
      type: host.type,
      url: host.url,
      token: { fromSecret: `${integration}-token` },
      repos: ['team/*'],
      workspace,
      changeRequests: 'auto',
      triggers: { label: 'muster', mention: '@muster' },
      ...fields,
    });
    await host.deliverTo(String(written.webhookUrl), String(written.signingKey));
  }

  /** Kills the service and starts it again with the same database and address. */
  async restart(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const port = new URL(this.server.url).port;
    const { databaseUrl, env } = this.server;
    await this.server.end(signal);
    const { MUSTER_DATA, MUSTER_BOOTSTRAP_KEY, MUSTER_RUNNER } = env;
    const same = { MUSTER_DATA, MUSTER_BOOTSTRAP_KEY, MUSTER_RUNNER };
    const next = await startServer({
      databaseUrl,
      env: { ...envFor(this.host), ...same, MUSTER_PORT: port },
    });
    this.#former.push(this.server);
    this.server = next;
    this.api = apiOf(next);
    // As a person does at the host, for hosts do not send a delivery again by themselves.
    this.host.deliveries.resendUnanswered();
  }

  /** Sends a request until it is answered: the service may be killed and started again meanwhile. */
  async #post<T>(path: string, body: unknown): Promise<Answer<T>> {
    return until(
      `an answer to ${path}`,
      () => this.api.post<T>(path, body).catch(() => null),
      (answer) => answer !== null && answer.status !== 503,
    ) as Promise<Answer<T>>;
  }

  readonly #former: Server[] = [];

  async close(): Promise<void> {
    if (this.#isShared) {
      // Its agents would go on without their host.
      for (const { agentId } of await this.agents()) await this.#post('/v1/agent/kill', { agentId });
    } else {
      await this.server.end('SIGKILL');
      for (const server of [this.server, ...this.#former]) await server.close();
    }
    await this.host.stop();
  }

  get agentId() {
    const { integration: account, workspace } = this;
    return { ownerProvider: 'PROVIDER_SERVICE_PROFILE', account, workspace, agent: this.#agent };
  }

  async status(): Promise<AgentStatus> {
    const { status, body } = await this.#post<AgentStatus>('/v1/agent/status', { agentId: this.agentId });
    if (status !== 200) throw new Error(`status: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  untilAgent(what: string, holds: (status: AgentStatus) => boolean): Promise<AgentStatus> {
    return until(what, () => this.status(), holds);
  }

  untilRequest(what: string, holds: (request: ChangeRequest) => boolean): Promise<ChangeRequest> {
    return until(
      what,
      async () => (await this.status()).changeRequests[0] as ChangeRequest,
      (request) => request !== undefined && holds(request),
    );
  }

  async tell(description: string): Promise<void> {
    const { status, body } = await this.#post('/v1/agent/queue', {
      agentId: this.agentId,
      description,
      followUpId: randomUUID(),
    });
    if (status !== 200) throw new Error(`queue: ${status} ${JSON.stringify(body)}`);
  }

  async deliveries(): Promise<Delivery[]> {
    const { body } = await this.#post<{ entries: Delivery[] }>('/v1/integration/deliveries', {
      name: this.integration,
    });
    return body.entries;
  }

  /** Waits until everything that was to be posted is settled, and nothing more is to be opened. */
  async untilSent(): Promise<void> {
    await this.#untilNone(
      'no pushed branch to consider',
      'SELECT repo, branch FROM pushed_branches WHERE repo = $1 AND (is_new OR next_at IS NOT NULL)',
      this.host.gitUrl,
    );
    await this.#untilNone(
      'an empty outbox',
      "SELECT kind, state, error FROM outbox WHERE state IN ('QUEUED', 'SENDING') AND target = $1",
      this.integration,
    );
  }

  /** Waits until change requests were compared with the host after that entry of their agents' timelines. */
  untilCompared(sequence: number): Promise<void> {
    return this.#untilNone(
      'a comparison',
      "SELECT name, told FROM change_requests WHERE (told ->> 'sequence')::int < $1",
      sequence,
    );
  }

  /** No reply shows that, so it is read from the database. */
  async #untilNone(what: string, sql: string, parameter: string | number): Promise<void> {
    const client = new pg.Client(this.server.databaseUrl);
    await client.connect();
    try {
      const found = async () => (await client.query(sql, [parameter])).rows;
      await until(what, found, (rows) => rows.length === 0);
    } finally {
      await client.end();
    }
  }

  async agents(): Promise<{ agentId: { agent: string[] } }[]> {
    const { body } = await this.#post<{ entries: { agentId: { agent: string[] } }[] }>('/v1/agents', {
      account: `service_profile/${this.integration}`,
    });
    return body.entries;
  }

  /** Has the service compare everything with the host, as after deliveries that never came: once in a second. */
  async sync(): Promise<void> {
    const ask = () => this.#post('/v1/change-requests/sync', {});
    const { status } = await until('a comparison', ask, (answer) => answer.status !== 429);
    expect(status).toBe(200);
  }

  /** An issue whose delivery never comes; returns its number. */
  async unreported(
    act: (subject: { type: 'issue'; number: number }) => Promise<void>,
    by: Role = 'maintainer',
  ): Promise<number> {
    const { host } = this;
    host.deliveries.hold();
    const number = await host.addIssue(by, 'Nobody was told', 'It says helo.');
    await act({ type: 'issue', number });
    host.deliveries.release({ drop: true });
    return number;
  }

  untilComment(number: number): Promise<unknown> {
    return until(
      `a comment on issue ${number}`,
      () => this.host.comments({ type: 'issue', number }),
      (all) => all.length > 0,
    );
  }

  readonly steps: readonly Step[] = [
    ['an issue is labelled: one agent is spawned and says so', () => this.#trigger()],
    ['the agent pushes: a change request is opened', () => this.#push()],
    ['a review of three threads is answered thread by thread', () => this.#review()],
    ['a check fails: the agent is told', () => this.#failCheck()],
    ['it is fixed', () => this.#fix()],
    ['it is merged: the agent is told', () => this.#merge()],
  ];

  async #trigger(): Promise<void> {
    const { host } = this;
    this.#issue = await host.addIssue(
      'maintainer',
      'The greeting is wrong',
      'It says helo.\n!fail quoted text is data',
    );
    const subject = { type: 'issue', number: this.#issue } as const;
    await host.label(subject, 'muster', 'maintainer');
    await this.adopt();
    await until(
      'a comment with a link',
      () => host.comments(subject),
      (all) => all.length > 0,
    );
    await this.atRest();
  }

  /** Waits for the agent of the issue, which the other methods are about. */
  async adopt(): Promise<void> {
    const [entry] = await until(
      'an agent',
      () => this.agents(),
      (agents) => agents.length > 0,
    );
    this.#agent = entry?.agentId.agent ?? [];
  }

  atRest(): Promise<AgentStatus> {
    return this.untilAgent('the agent at rest', (status) => status.phase === 'PHASE_WAITING_FOR_INPUT');
  }

  async #push(): Promise<void> {
    await this.tell(
      '!run printf "hello\\nthere\\n" > a.txt\n!write b.txt world\n!push Fix the greeting\n!say Fixed the greeting.',
    );
    await this.untilRequest('an open change request', ({ state }) => state === 'OPEN');
    await this.atRest();
  }

  async #review(): Promise<void> {
    const { host } = this;
    const { number } = await this.untilRequest('a change request', () => true);
    await host.review(number, {
      by: 'reviewer',
      verdict: 'CHANGES_REQUESTED',
      threads: [
        { path: 'a.txt', line: 1, body: 'Say Hello with a capital letter.' },
        { path: 'a.txt', line: 2, body: 'Add a full stop.' },
        { path: 'b.txt', line: 1, body: 'Rename this file.\ndecline: other files refer to it' },
      ],
    });
    const { resolvesThreads, repliesToThreads } = await this.#capabilities(number);
    await until(
      'three answers, two threads resolved',
      () => host.threads(number),
      (threads) => {
        const onLines = threads.filter(({ path }) => path !== '');
        const answered = repliesToThreads
          ? onLines.every(({ comments }) => comments.length === 2)
          : threads.length === 6;
        const resolved = onLines.filter(({ isResolved }) => isResolved).length;
        return onLines.length === 3 && answered && resolved === (resolvesThreads ? 2 : 0);
      },
    );
    const open = resolvesThreads ? 1 : 3;
    await this.untilRequest('a record of it', ({ review }) => review.openThreads === open);
    await this.atRest();
  }

  /** What this host can do with threads; some hosts tell only when they are asked about one. */
  async #capabilities(number: number): Promise<Capabilities> {
    const connected = this.host.connect();
    await until(
      'a reply of the host',
      () => connected.threads(this.host.repo, number).then(Boolean, () => false),
      Boolean,
    );
    return connected.capabilities;
  }

  async #failCheck(): Promise<void> {
    const { headSha } = await this.untilRequest('a change request', () => true);
    await this.host.setCheck(headSha, { name: 'lint', state: 'PASSED' });
    await this.host.setCheck(headSha, { name: 'test', state: 'FAILED', summary: 'one test failed' });
    await this.untilRequest('failing checks', ({ checks }) => checks.state === 'FAILING');
    await until(
      'a message about the check',
      () => this.#messages(/Checks .* failed/),
      (found) => found === 1,
    );
    await this.atRest();
  }

  /** How many messages the agent was given with this text. */
  async #messages(text: RegExp): Promise<number> {
    const { body } = await this.#post<{ entries: { text: string }[] }>('/v1/agent/timeline', {
      agentId: this.agentId,
      types: ['FOLLOW_UP_QUEUED'],
    });
    return body.entries.filter((entry) => text.test(entry.text)).length;
  }

  async #fix(): Promise<void> {
    const before = await this.untilRequest('a change request', () => true);
    await this.host.review(before.number, { by: 'stranger', verdict: 'CHANGES_REQUESTED', threads: [] });
    await this.host.review(before.number, { by: 'reviewer', verdict: 'APPROVED', threads: [] });
    await this.tell('!write a.txt Hello.\n!push Fix the test');
    const { headSha } = await this.untilRequest('a new head', ({ headSha: sha }) => sha !== before.headSha);
    await this.host.setCheck(headSha, { name: 'test', state: 'PASSED' });
    await this.untilRequest('passing checks', ({ checks }) => checks.state === 'PASSING');
    await this.atRest();
  }

  async #merge(): Promise<void> {
    const { number } = await this.untilRequest('a change request', () => true);
    await this.host.merge(number, 'maintainer');
    await this.untilRequest('a merged one', ({ state }) => state === 'MERGED');
    await until(
      'a message',
      () => this.#messages(/was merged/),
      (found) => found === 1,
    );
    await this.atRest();
  }

  /** What holds at the end, whatever happened on the way. */
  async expectEnd(): Promise<void> {
    const { host } = this;
    await this.untilSent();
    // The stranger's verdict does not count.
    const { number } = await this.untilRequest('an approval', ({ review }) => review.state === 'APPROVED');
    const agents = await this.agents();
    expect(agents).toHaveLength(1);
    expect(await host.comments({ type: 'issue', number: this.#issue })).toHaveLength(1);
    const { repliesToThreads } = await this.#capabilities(number);
    const threads = await host.threads(number);
    const onLines = threads.filter(({ path }) => path !== '');
    const apart = threads.filter(({ path }) => path === '');
    expect(onLines.map(({ comments }) => comments.length)).toEqual(repliesToThreads ? [2, 2, 2] : [1, 1, 1]);
    expect(apart).toHaveLength(repliesToThreads ? 0 : 3);
    const answers = (repliesToThreads ? onLines : apart).map(({ comments }) => comments.at(-1)?.body ?? '');
    expect(answers.filter((body) => /^Done\./m.test(body))).toHaveLength(2);
    expect(answers.filter((body) => /^other files refer to it/m.test(body))).toHaveLength(1);
    expect(await this.#messages(/^People commented/)).toBe(1);
    expect(await this.#messages(/Checks .* failed/)).toBe(1);
    expect(await this.#messages(/was merged/)).toBe(1);
    const settled = await until(
      'settled deliveries',
      () => this.deliveries(),
      (all) => all.every(({ state }) => state !== 'RECEIVED'),
    );
    expect(settled.filter(({ state }) => state === 'FAILED')).toEqual([]);
    expect(settled.map(({ subject }) => subject)).toContain(`${host.repo}#${this.#issue}`);
    // GitLab does not report a request for changes.
    const unheard = settled.filter(({ reason }) => /^stranger has the permission/.test(reason));
    expect(unheard).toHaveLength(host.type === 'gitlab' ? 0 : 1);
  }
}
