import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GithubHost } from '../../packages/service/src/codehost/github/host.ts';
import { commentIds } from '../../packages/service/src/codehost/github/rest.ts';
import type { Host, Person, Subject } from '../../packages/service/src/codehost/host.ts';
import { hostRuleOf } from '../../packages/service/src/lib/host-rules.ts';
import { type GitRemote, makeGitRemote } from '../support/git-remote.ts';
import { type Caller, EmulatedGithub, type Json } from './emulated-github.ts';
import {
  type FakeHost,
  type FakeThread,
  type NewCheck,
  type NewReview,
  type Role,
  roles,
} from './fake-host.ts';
import { GithubServer } from './github-server.ts';

const repo = 'team/project';
const logins = { maintainer: 'maintainer', reviewer: 'reviewer', stranger: 'stranger', bot: 'linter[bot]' };
export const tokenOf = (role: Role): string => `ghp_token_of_${role}`;
const integrationToken = 'ghp_token_of_the_integration';
const integrationLogin = 'muster-account';
const hookEvents = ['*'];

export const app = { id: 4711, slug: 'muster', installation: 1147 };

/** What the App needs. */
export const appPermissions = {
  metadata: 'read',
  contents: 'write',
  pull_requests: 'write',
  issues: 'write',
  checks: 'read',
  statuses: 'read',
  actions: 'read',
} as const;

const appEvents = [
  ...['pull_request', 'pull_request_review', 'pull_request_review_comment', 'pull_request_review_thread'],
  ...['issue_comment', 'issues', 'check_run', 'check_suite', 'status', 'push'],
];

let generated: string | undefined;

const privateKey = (): string => {
  generated ??= generateKeyPairSync('rsa', { modulusLength: 2048 })
    .privateKey.export({ type: 'pkcs1', format: 'pem' })
    .toString();
  return generated;
};

export interface GithubOptions {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly events?: readonly string[];
}

export interface ConnectOptions {
  readonly timeoutMs?: number;
  readonly as?: 'app' | 'token';
  /** Another one than that of the integration. */
  readonly token?: string;
  readonly privateKey?: string;
}

/** The tests' GitHub, driven as people drive the real one. */
export class FakeGithub implements FakeHost {
  readonly type = 'github';
  readonly repo = repo;
  readonly token = integrationToken;
  readonly app = { appId: String(app.id), privateKey: privateKey() };
  readonly people: FakeHost['people'];
  readonly remote: GitRemote;
  readonly server: GithubServer;
  readonly #emulated: EmulatedGithub;
  readonly #folder: string;
  #hook: number | undefined;
  #jobs = 0;

  private constructor(
    server: GithubServer,
    emulated: EmulatedGithub,
    remote: GitRemote,
    folder: string,
    people: FakeHost['people'],
  ) {
    this.server = server;
    this.#emulated = emulated;
    this.remote = remote;
    this.#folder = folder;
    this.people = people;
  }

  static async start({
    permissions = appPermissions,
    events = appEvents,
  }: GithubOptions = {}): Promise<FakeGithub> {
    const folder = mkdtempSync(join(tmpdir(), 'muster-github-'));
    mkdirSync(join(folder, 'team'));
    const remote = makeGitRemote(join(folder, 'team'), 'project');
    remote.commit('main', { 'README.md': '# project\n', 'src/sum.ts': 'one\ntwo\nthree\nfour\n' });
    const emulated = await EmulatedGithub.start(seedOf(permissions, events), tokenOf('maintainer'));
    const owner = tokenOf('maintainer');
    const server = new GithubServer({ repo, root: folder, remote, emulated, owner, callers: callers() });
    await server.start();
    for (const login of [logins.reviewer, integrationLogin])
      await emulated.call(owner, 'PUT', `/repos/${repo}/collaborators/${login}`, { permission: 'push' });
    const people = await Promise.all(
      roles.map(async (role): Promise<[Role, Person]> => {
        const user = await emulated.call(owner, 'GET', `/users/${encodeURIComponent(logins[role])}`);
        return [role, { id: String(user.id), login: String(user.login) }];
      }),
    );
    await server.mirror();
    return new FakeGithub(server, emulated, remote, folder, Object.fromEntries(people) as FakeHost['people']);
  }

  get url(): string {
    return this.server.url;
  }

  get gitUrl(): string {
    return `${this.url}/${repo}.git`;
  }

  get faults(): FakeHost['faults'] {
    return this.server.faults;
  }

  get deliveries(): FakeHost['deliveries'] {
    return this.server.deliveries;
  }

  connect({ as = 'app', token = integrationToken, timeoutMs, ...others }: ConnectOptions = {}): Host {
    return new GithubHost({
      url: this.url,
      credential: as === 'app' ? { ...this.app, ...others } : { token },
      innerHosts: [this.url, this.server.logUrl].flatMap((url) => hostRuleOf(new URL(url).host) ?? []),
      ...(timeoutMs !== undefined && { timeoutMs }),
    });
  }

  async deliverTo(url: string, secret: string): Promise<void> {
    this.server.secret = secret;
    this.deliveries.to(url);
    if (this.#hook !== undefined) await this.#as('maintainer', 'DELETE', `/hooks/${this.#hook}`);
    const config = { url: `${this.url}/relay`, content_type: 'json', secret };
    const hook = await this.#as('maintainer', 'POST', '/hooks', { name: 'web', events: hookEvents, config });
    this.#hook = Number(hook.id);
  }

  async addIssue(by: Role, title: string, body: string): Promise<number> {
    return Number((await this.#as(by, 'POST', '/issues', { title, body })).number);
  }

  async label({ type, number }: Subject, label: string, by: Role): Promise<void> {
    await this.#as(by, 'POST', `/issues/${number}/labels`, { labels: [label] });
    if (type === 'change-request')
      await this.#deliverPull('labeled', number, by, { label: { name: label, color: 'ededed' } });
  }

  async closeIssue(number: number): Promise<void> {
    await this.#as('maintainer', 'PATCH', `/issues/${number}`, { state: 'closed' });
  }

  async editIssue(number: number, body: string): Promise<void> {
    await this.#as('maintainer', 'PATCH', `/issues/${number}`, { body });
  }

  /** The title and the description of a change request. */
  async textOf(number: number): Promise<string> {
    const { title, body } = await this.#as('maintainer', 'GET', `/pulls/${number}`);
    return `${title}\n${body}`;
  }

  async assign({ type, number }: Subject, login: string, by: Role): Promise<void> {
    await this.#as(by, 'POST', `/issues/${number}/assignees`, { assignees: [login] });
    if (type === 'change-request')
      await this.#deliverPull('assigned', number, by, { assignee: { id: 1, login } });
  }

  async comment({ number }: Subject, body: string, by: Role): Promise<void> {
    await this.#as(by, 'POST', `/issues/${number}/comments`, { body });
  }

  async openFrom(branch: string, title: string, by: Role): Promise<number> {
    return Number((await this.#as(by, 'POST', '/pulls', { title, head: branch, base: 'main' })).number);
  }

  async openFromFork(title: string): Promise<number> {
    await this.#emulated.call(tokenOf('stranger'), 'POST', `/repos/${repo}/forks`, {});
    const pull = { title, head: 'stranger:main', base: 'main' };
    return Number((await this.#as('stranger', 'POST', '/pulls', pull)).number);
  }

  async review(number: number, { by, verdict, body = '', threads }: NewReview): Promise<readonly string[]> {
    const before = new Set((await this.#reviewThreads(number)).map(({ id }) => id));
    for (const { path, line, startLine, body: text } of threads)
      if (startLine !== undefined) this.server.threads.setStartLine(path, line, text, startLine);
    const event = { APPROVED: 'APPROVE', CHANGES_REQUESTED: 'REQUEST_CHANGES', COMMENTED: 'COMMENT' }[
      verdict
    ];
    const comments = threads.map(({ path, line, body: text }) => ({ path, position: line, body: text }));
    const review = await this.#as(by, 'POST', `/pulls/${number}/reviews`, { event, body, comments });
    const context = await this.server.context(logins[by], number);
    const created = await this.#as<Json[]>(by, 'GET', `/pulls/${number}/reviews/${review.id}/comments`);
    for (const comment of created)
      this.server.deliver('pull_request_review_comment', { ...context, action: 'created', comment });
    return (await this.#reviewThreads(number)).map(({ id }) => id).filter((id) => !before.has(id));
  }

  async replyInThread(_number: number, thread: string, body: string, by: Role): Promise<void> {
    await this.server.threads.reply(thread, body, callerOf(by));
  }

  async setCheck(
    sha: string,
    { name, state, summary = '', log, suite = 1, annotations = [] }: NewCheck,
  ): Promise<void> {
    const list = await this.#as<{ check_runs: Json[] }>('maintainer', 'GET', `/commits/${sha}/check-runs`);
    const { suites } = this.server;
    const pending = list.check_runs.find(
      (run) => run.name === name && run.status !== 'completed' && suites.get(Number(run.id)) === suite,
    );
    this.#jobs += 1;
    if (log !== undefined) this.server.logs.set(String(this.#jobs), log);
    const link = `${this.url}/${repo}/actions/runs/1/job/${this.#jobs}`;
    const started = { name, head_sha: sha, status: 'in_progress', details_url: link };
    const run: Json = pending ?? (await this.#as('maintainer', 'POST', '/check-runs', started));
    suites.set(Number(run.id), suite);
    if (state === 'PENDING') return;
    await this.#as('maintainer', 'PATCH', `/check-runs/${run.id}`, {
      status: 'completed',
      conclusion: { PASSED: 'success', FAILED: 'failure', SKIPPED: 'skipped' }[state],
      details_url: link,
      output: {
        title: summary,
        summary,
        annotations: annotations.map(({ path, line, message }) => ({
          ...{ path, message, start_line: line, end_line: line, annotation_level: 'failure' },
        })),
      },
    });
  }

  /** In the older form, without a log. */
  setStatus(sha: string, context: string, state: 'pending' | 'success' | 'failure' | 'error'): void {
    const statuses = this.server.statuses.get(sha) ?? [];
    const status = {
      id: statuses.length + 1,
      context,
      state,
      description: `${context} is ${state}`,
      target_url: null,
    };
    this.server.statuses.set(sha, [status, ...statuses]);
    this.server.deliver('status', {
      ...{ id: status.id, sha, state, context, sender: null },
      repository: { full_name: repo },
    });
  }

  /** Merges in the repository first, so that those who are told find it there. */
  async merge(number: number, by: Role): Promise<void> {
    const pull = await this.server.pull(number);
    const { ref: base } = pull.base as { ref: string };
    const { ref: head } = pull.head as { ref: string };
    const tree = this.remote.git('merge-tree', '--write-tree', base, head);
    const parents = ['-p', this.remote.tip(base), '-p', this.remote.tip(head)];
    const merged = this.remote.git('commit-tree', tree, ...parents, '-m', `Merge pull request #${number}`);
    this.server.mergedHeads.set(number, this.remote.tip(head));
    await this.#as(by, 'PUT', `/pulls/${number}/merge`, {});
    this.remote.git('update-ref', `refs/heads/${base}`, merged);
    await this.server.mirror();
  }

  async close(number: number, by: Role): Promise<void> {
    await this.#as(by, 'PATCH', `/pulls/${number}`, { state: 'closed' });
  }

  async reopen(number: number, by: Role): Promise<void> {
    await this.#as(by, 'PATCH', `/pulls/${number}`, { state: 'open' });
  }

  async threads(number: number): Promise<readonly FakeThread[]> {
    const onLines = (await this.#reviewThreads(number)).map(({ id, path, isResolved, comments }) => ({
      ...{ id, path, isResolved },
      comments: comments.map(({ author, body }) => ({ author, body })),
    }));
    const conversation = await this.#conversation(number);
    return [
      ...onLines,
      ...conversation.map(({ id, author, body }) => ({
        ...{ id: commentIds.conversation(id), path: '', isResolved: false },
        comments: [{ author, body }],
      })),
    ];
  }

  async comments({ number }: Subject): Promise<readonly { author: string; body: string }[]> {
    return (await this.#conversation(number)).map(({ author, body }) => ({ author, body }));
  }

  /** What the tokens of installations are for, newest last. */
  async issuedTokens(): Promise<readonly Json[]> {
    const path = '/_emulate/installation-tokens';
    const reply = await this.#emulated.call<{ installation_tokens: Json[] }>(this.token, 'GET', path);
    return reply.installation_tokens;
  }

  async issueCount(): Promise<number> {
    return (await this.#as<Json[]>('maintainer', 'GET', '/issues?state=all&per_page=100')).length;
  }

  async stop(): Promise<void> {
    await this.server.stop();
    await this.#emulated.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #conversation(number: number): Promise<{ id: number; author: string; body: string }[]> {
    const found = await this.#as<Json[]>('maintainer', 'GET', `/issues/${number}/comments?per_page=100`);
    return found.map(({ id, user, body }) => ({
      ...{ id: Number(id), author: String((user as Json).login), body: String(body) },
    }));
  }

  #reviewThreads(number: number): ReturnType<GithubServer['threads']['threads']> {
    return this.server.threads.threads(repo, number, callerOf('maintainer'));
  }

  async #deliverPull(action: string, number: number, by: Role, more: Json): Promise<void> {
    const context = await this.server.context(logins[by], number);
    this.server.deliver('pull_request', { ...context, ...more, action, number });
  }

  async #as<T = Json>(role: Role, method: string, path: string, body?: unknown): Promise<T> {
    await this.server.mirror();
    return this.#emulated.call<T>(tokenOf(role), method, `/repos/${repo}${path}`, body);
  }
}

export const startFake = (): Promise<FakeHost> => FakeGithub.start();

const callerOf = (role: Role): Caller => ({
  token: tokenOf(role),
  login: logins[role],
  permissions: {},
  repositories: [],
  role: role === 'maintainer' || role === 'reviewer' ? 'write' : 'read',
});

const callers = (): Caller[] => [
  ...roles.map(callerOf),
  { token: integrationToken, login: integrationLogin, permissions: {}, repositories: [], role: 'write' },
];

const seedOf = (permissions: Readonly<Record<string, string>>, events: readonly string[]): Json => ({
  tokens: Object.fromEntries(callers().map(({ token, login }) => [token, { login, scopes: ['repo'] }])),
  github: {
    // An App's account exists from the start.
    users: [...Object.values(logins), integrationLogin, `${app.slug}[bot]`].map((login) => ({ login })),
    orgs: [{ login: 'team', members: [{ login: logins.maintainer, role: 'admin' }] }],
    repos: [{ owner: 'team', name: 'project', auto_init: false }],
    apps: [
      {
        ...{ app_id: app.id, slug: app.slug, name: 'Muster', private_key: privateKey() },
        ...{ permissions, events },
        installations: [{ installation_id: app.installation, account: 'team', repository_selection: 'all' }],
      },
    ],
  },
});
