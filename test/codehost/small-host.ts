import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Host, HostType, Person, Subject } from '../../packages/service/src/codehost/host.ts';
import { type GitRemote, makeGitRemote } from '../support/git-remote.ts';
import { DeliverySender } from './delivery-sender.ts';
import {
  type FakeHost,
  type FakeThread,
  type NewCheck,
  type NewReview,
  type Role,
  roles,
} from './fake-host.ts';
import { answerWithFault, Faults } from './faults.ts';
import { isGitRequest, serveGit } from './git-server.ts';

export interface Account {
  readonly id: number;
  readonly login: string;
  readonly token: string;
  access: 'none' | 'read' | 'write' | 'admin';
}

export interface StoredComment {
  readonly id: number;
  readonly author: Account;
  readonly body: string;
  readonly createdAt: string;
}

export interface StoredThread {
  readonly id: string;
  /** Empty for a comment in the conversation. */
  readonly path: string;
  readonly line: number;
  readonly startLine: number;
  readonly review: number;
  isResolved: boolean;
  readonly comments: StoredComment[];
}

/** An issue or a change request. */
export interface Item extends Subject {
  readonly title: string;
  body: string;
  readonly author: Account;
  readonly branch: string;
  readonly base: string;
  readonly isFork: boolean;
  state: 'open' | 'closed' | 'merged';
  updatedAt: string;
  readonly labels: string[];
  readonly assignees: Account[];
  /** Labels, assignments and changes of the text, at the real time. */
  readonly events: {
    readonly id: number;
    readonly what: 'label' | 'assignee' | 'text';
    readonly value: string;
    readonly by: Account;
    readonly at: string;
  }[];
  readonly threads: StoredThread[];
  readonly reviews: {
    readonly id: number;
    readonly author: Account;
    readonly verdict: NewReview['verdict'];
    readonly body: string;
    readonly at: string;
  }[];
}

export interface StoredCheck extends NewCheck {
  readonly id: number;
  readonly sha: string;
}

/** A request of the API by somebody. */
export interface Call {
  readonly by: Account;
  readonly query: URLSearchParams;
  readonly body: Readonly<Record<string, unknown>>;
  /** What the groups of the route's pattern matched, decoded. */
  readonly groups: readonly string[];
}

export interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export type Route = readonly [method: string, path: RegExp, answer: (call: Call) => Reply];

export const ok = (body: unknown, status = 200): Reply => ({ status, body });
export const notFound: Reply = { status: 404, body: { message: '404 Not found' } };

const repo = 'team/project';
const logins = { maintainer: 'maintainer', reviewer: 'reviewer', stranger: 'stranger', bot: 'linter-bot' };
const access = { maintainer: 'admin', reviewer: 'write', stranger: 'none', bot: 'read' } as const;

/** The parts of a small code host that do not depend on its type: state, git, HTTP, what people do. */
export abstract class SmallHost implements FakeHost {
  abstract readonly type: HostType;
  readonly repo = repo;
  readonly faults = new Faults();
  readonly deliveries = new DeliverySender();
  readonly remote: GitRemote;
  readonly accounts: Readonly<Record<Role | 'integration', Account>>;
  readonly items: Item[] = [];
  readonly checks: StoredCheck[] = [];
  /** Requests of the API: method and path. */
  readonly requests: string[] = [];
  /** The requests of the API that change something, with their bodies. */
  readonly writes: { readonly request: string; readonly body: Readonly<Record<string, unknown>> }[] = [];
  pageSize = 100;
  protected secret = '';
  readonly #folder: string;
  readonly #server: Server;
  readonly #tips = new Map<number, string>();
  #numbers = 100;
  #clock = 0;

  protected constructor(integrationAccess: Account['access']) {
    this.#folder = mkdtempSync(join(tmpdir(), 'muster-code-host-'));
    mkdirSync(join(this.#folder, 'team'));
    this.remote = makeGitRemote(join(this.#folder, 'team'), 'project');
    this.remote.commit('main', { 'README.md': '# project\n', 'src/sum.ts': 'one\ntwo\nthree\nfour\n' });
    const accountOf = (login: string, may: Account['access']): Account => ({
      ...{ id: this.newNumber(), login, token: `token-of-${login}`, access: may },
    });
    this.accounts = {
      ...(Object.fromEntries(roles.map((role) => [role, accountOf(logins[role], access[role])])) as Record<
        Role,
        Account
      >),
      integration: accountOf('muster-account', integrationAccess),
    };
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  protected async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get gitUrl(): string {
    return `${this.url}/${repo}.git`;
  }

  get token(): string {
    return this.accounts.integration.token;
  }

  get people(): FakeHost['people'] {
    return Object.fromEntries(
      roles.map((role): [Role, Person] => [role, personOf(this.accounts[role])]),
    ) as FakeHost['people'];
  }

  abstract connect(options?: { readonly timeoutMs?: number; readonly token?: string }): Host;
  protected abstract readonly routes: readonly Route[];
  protected abstract readonly apiPath: string;
  /** Issues and change requests are numbered together. */
  protected abstract readonly hasOneNumbering: boolean;
  protected abstract deliverItem(item: Item, by: Account, action: ItemAction, value?: string): void;
  protected abstract deliverComment(item: Item, thread: StoredThread, comment: StoredComment): void;
  protected abstract deliverReview(item: Item, review: Item['reviews'][number]): void;
  protected abstract deliverCheck(check: StoredCheck): void;

  async deliverTo(url: string, secret: string): Promise<void> {
    this.secret = secret;
    this.deliveries.to(url);
  }

  async addIssue(by: Role, title: string, body: string): Promise<number> {
    const item = this.addItem('issue', this.accounts[by], { title, body });
    return item.number;
  }

  async label(subject: Subject, label: string, by: Role): Promise<void> {
    const item = this.item(subject);
    item.labels.push(label);
    this.#happened(item, 'label', label, by);
    this.deliverItem(item, this.accounts[by], 'labeled', label);
  }

  async assign(subject: Subject, login: string, by: Role): Promise<void> {
    const item = this.item(subject);
    const account = Object.values(this.accounts).find((other) => other.login === login);
    if (!account) throw new Error(`nobody is called ${login}`);
    item.assignees.push(account);
    this.#happened(item, 'assignee', login, by);
    this.deliverItem(item, this.accounts[by], 'assigned', login);
  }

  /** Changes the text of an issue, a minute after what happened to it before. */
  editIssue(number: number, body: string, by: Role): void {
    const item = this.item({ type: 'issue', number });
    item.body = body;
    this.#happened(item, 'text', '', by, Date.now() + 60_000);
  }

  #happened(
    item: Item,
    what: Item['events'][number]['what'],
    value: string,
    by: Role,
    atMs = Date.now(),
  ): void {
    const at = new Date(atMs).toISOString();
    item.events.push({ id: this.newNumber(), what, value, by: this.accounts[by], at });
  }

  async comment(subject: Subject, body: string, by: Role): Promise<void> {
    this.addThread(this.item(subject), this.accounts[by], { body });
  }

  async openFromFork(title: string): Promise<number> {
    const more = { title, branch: 'main', base: 'main', isFork: true };
    return this.addItem('change-request', this.accounts.stranger, more).number;
  }

  async review(number: number, { by, verdict, body = '', threads }: NewReview): Promise<readonly string[]> {
    const item = this.item({ type: 'change-request', number });
    const review = { id: this.newNumber(), author: this.accounts[by], verdict, body, at: this.now() };
    item.reviews.push(review);
    const added = threads.map((thread) => this.addThread(item, this.accounts[by], thread, review.id));
    this.deliverReview(item, review);
    return added.map(({ id }) => id);
  }

  async replyInThread(number: number, thread: string, body: string, by: Role): Promise<void> {
    const item = this.item({ type: 'change-request', number });
    const found = item.threads.find(({ id }) => id === thread);
    if (!found) throw new Error(`thread ${thread} not found`);
    this.addReply(item, found, this.accounts[by], body);
  }

  async setCheck(sha: string, check: NewCheck): Promise<void> {
    const stored = { ...check, id: this.newNumber(), sha };
    const previous = this.checks.findIndex((other) => other.sha === sha && other.name === check.name);
    if (previous >= 0) this.checks.splice(previous, 1);
    this.checks.push(stored);
    this.deliverCheck(stored);
  }

  /** Merges in the repository first, so that those who are told find it there. */
  async merge(number: number, by: Role): Promise<void> {
    const item = this.item({ type: 'change-request', number });
    const parents = [item.base, item.branch].map((branch) => this.remote.tip(branch));
    const tree = this.remote.git('merge-tree', '--write-tree', ...parents);
    const commit = this.remote.git('commit-tree', tree, ...parents.flatMap((p) => ['-p', p]), '-m', 'Merge');
    this.remote.git('update-ref', `refs/heads/${item.base}`, commit);
    this.#end(item, 'merged', this.accounts[by]);
  }

  async close(number: number, by: Role): Promise<void> {
    this.#end(this.item({ type: 'change-request', number }), 'closed', this.accounts[by]);
  }

  #end(item: Item, state: 'merged' | 'closed', by: Account): void {
    item.state = state;
    item.updatedAt = this.now();
    this.deliverItem(item, by, state);
  }

  async threads(number: number): Promise<readonly FakeThread[]> {
    return this.item({ type: 'change-request', number }).threads.map(shownThread);
  }

  async comments(subject: Subject): Promise<readonly { author: string; body: string }[]> {
    const threads = this.item(subject).threads.filter(({ path }) => path === '');
    return threads.flatMap((thread) => shownThread(thread).comments);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  item({ type, number }: Subject): Item {
    const found = this.items.find((item) => item.type === type && item.number === number);
    if (!found) throw new Error(`there is no ${type} ${number}`);
    return found;
  }

  /** The commit that a change request would merge. */
  headOf(item: Item): string {
    return item.state === 'open'
      ? this.remote.tip(item.branch)
      : (this.#tips.get(item.number) ?? this.remote.tip('main'));
  }

  newNumber(): number {
    this.#numbers += 1;
    return this.#numbers;
  }

  /** Each moment is later than the one before. */
  now(): string {
    this.#clock = Math.max(this.#clock + 1, Date.now());
    return new Date(this.#clock).toISOString();
  }

  addItem(type: Subject['type'], author: Account, more: Partial<Item>): Item {
    const others = this.items.filter((item) => this.hasOneNumbering || item.type === type);
    const item: Item = {
      ...{
        type,
        number: others.length + 1,
        title: '',
        body: '',
        author,
        branch: '',
        base: '',
        isFork: false,
      },
      ...{ state: 'open', updatedAt: this.now(), labels: [], assignees: [], events: [] },
      ...{ threads: [], reviews: [] },
      ...more,
    };
    this.items.push(item);
    if (type === 'change-request') this.#tips.set(item.number, this.headOf(item));
    this.deliverItem(item, author, 'opened');
    return item;
  }

  /** A comment on lines, or without a path one in the conversation. */
  addThread(
    item: Item,
    author: Account,
    place: {
      readonly body: string;
      readonly path?: string;
      readonly line?: number;
      readonly startLine?: number;
    },
    review = 0,
  ): StoredThread {
    const { body, path = '', line = 0, startLine = 0 } = place;
    const comment = { id: this.newNumber(), author, body, createdAt: this.now() };
    const id = this.threadId(comment.id);
    const thread = { id, path, line, startLine, review, isResolved: false, comments: [comment] };
    item.threads.push(thread);
    this.deliverComment(item, thread, comment);
    return thread;
  }

  addReply(item: Item, thread: StoredThread, author: Account, body: string): StoredComment {
    const comment = { id: this.newNumber(), author, body, createdAt: this.now() };
    thread.comments.push(comment);
    this.deliverComment(item, thread, comment);
    return comment;
  }

  protected threadId(_comment: number): string {
    return randomBytes(20).toString('hex');
  }

  /** One page of a list. The link names another host: only its query may be used. */
  protected page(call: Call, items: readonly unknown[]): Reply {
    const page = Number(call.query.get('page') ?? 1);
    const asked = Number(call.query.get('per_page') ?? call.query.get('limit') ?? this.pageSize);
    const size = Math.min(asked, this.pageSize);
    const next = new URLSearchParams(call.query);
    next.set('page', String(page + 1));
    const link = `<http://internal.invalid/list?${next}>; rel="next"`;
    const hasMore = page * size < items.length;
    return { ...ok(items.slice((page - 1) * size, page * size)), headers: hasMore ? { link } : {} };
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (isGitRequest(request)) {
      await serveGit(request, response, {
        root: this.#folder,
        accessOf: (_repo, _username, password) => {
          const found = this.#accountOf(password)?.access ?? 'none';
          return found === 'admin' ? 'write' : found;
        },
        onPush: (_repo, password) => this.#pushed(password),
      });
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const fault = this.faults.take(request);
    const reply = fault && !fault.isAfter ? null : this.#answer(request, Buffer.concat(chunks).toString());
    if (fault) return answerWithFault(fault, response);
    const { status, body, headers } = reply ?? notFound;
    const text = typeof body === 'string' ? body : body === null ? '' : JSON.stringify(body);
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
  }

  #answer(request: IncomingMessage, body: string): Reply {
    const { method = 'GET', url = '' } = request;
    const { pathname, searchParams: query } = new URL(url, 'http://host');
    this.requests.push(`${method} ${pathname}`);
    if (method !== 'GET')
      this.writes.push({ request: `${method} ${pathname}`, body: JSON.parse(body || '{}') });
    const by = this.#accountOf(
      /^(?:bearer|token) (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '',
    );
    if (!by) return { status: 401, body: { message: '401 Unauthorized' } };
    const path = pathname.slice(this.apiPath.length);
    for (const [verb, pattern, answer] of pathname.startsWith(this.apiPath) ? this.routes : []) {
      const match = verb === method ? pattern.exec(path) : null;
      if (!match) continue;
      const groups = match.slice(1).map((group) => decodeURIComponent(group ?? ''));
      return answer({ by, query, body: body === '' ? {} : JSON.parse(body), groups });
    }
    return notFound;
  }

  #accountOf(token: string): Account | undefined {
    return Object.values(this.accounts).find((account) => account.token === token);
  }

  #pushed(password: string): void {
    const by = this.#accountOf(password) ?? this.accounts.maintainer;
    for (const item of this.items) {
      if (item.type !== 'change-request' || item.state !== 'open' || item.isFork) continue;
      const tip = this.headOf(item);
      if (this.#tips.get(item.number) === tip) continue;
      this.#tips.set(item.number, tip);
      item.updatedAt = this.now();
      this.deliverItem(item, by, 'pushed');
    }
  }
}

export type ItemAction = 'opened' | 'labeled' | 'assigned' | 'pushed' | 'merged' | 'closed';

const personOf = ({ id, login }: Account): Person => ({ id: String(id), login });

const shownThread = ({ id, path, isResolved, comments }: StoredThread): FakeThread => ({
  ...{ id, path, isResolved },
  comments: comments.map(({ author, body }) => ({ author: author.login, body })),
});
