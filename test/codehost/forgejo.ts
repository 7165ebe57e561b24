import { createHmac, randomUUID } from 'node:crypto';
import { ForgejoHost } from '../../packages/service/src/codehost/forgejo/host.ts';
import type { Host } from '../../packages/service/src/codehost/host.ts';
import { hostRuleOf } from '../../packages/service/src/lib/host-rules.ts';
import { Limiter } from '../../packages/service/src/work/limiter.ts';
import { listedItems } from './listed-items.ts';
import {
  type Account,
  type Call,
  type Item,
  type ItemAction,
  notFound,
  ok,
  type Reply,
  type Route,
  SmallHost,
  type StoredCheck,
  type StoredComment,
  type StoredThread,
} from './small-host.ts';

const repoId = 7;
const forkId = 8;
const statuses = { PENDING: 'pending', PASSED: 'success', FAILED: 'failure', SKIPPED: 'skipped' };
const reviewStates = { APPROVED: 'APPROVED', CHANGES_REQUESTED: 'REQUEST_CHANGES', COMMENTED: 'COMMENT' };
/** Below the repository. */
const at = (path: string): RegExp => new RegExp(`^/repos/team/project${path}$`);
const forbidden = (message: string): Reply => ({ status: 403, body: { message } });
const invalid: Reply = { status: 422, body: { message: '[Title]: Required' } };

export const forgejoVersions = {
  forgejo: '11.0.3+gitea-1.22.0',
  gitea: '1.27.0',
  oldGitea: '1.22.6',
} as const;

/** The tests' Forgejo; with another version it is a Gitea. */
export class FakeForgejo extends SmallHost {
  readonly type = 'forgejo';
  protected readonly apiPath = '/api/v1';
  protected readonly hasOneNumbering = true;
  readonly #version: keyof typeof forgejoVersions;
  /** What the integration's token is allowed to do. */
  scopes = ['read:user', 'write:repository', 'write:issue'];
  /** Pull requests that can't be merged. */
  readonly conflicts = new Set<number>();

  private constructor(version: keyof typeof forgejoVersions) {
    super('admin');
    this.#version = version;
  }

  static start(version: keyof typeof forgejoVersions = 'gitea'): Promise<FakeForgejo> {
    return new FakeForgejo(version).listen();
  }

  connect({ timeoutMs, token = this.token }: { timeoutMs?: number; token?: string } = {}): Host {
    return new ForgejoHost({
      url: this.url,
      token,
      limiter: new Limiter({ writeSpacingMs: 1 }),
      innerHosts: [hostRuleOf(new URL(this.url).host) ?? []].flat(),
      ...(timeoutMs !== undefined && { timeoutMs }),
    });
  }

  protected readonly routes: readonly Route[] = [
    ['GET', /^\/version$/, () => ok({ version: forgejoVersions[this.#version] })],
    ['GET', /^\/user$/, ({ by }) => this.#scoped('read:user') ?? ok(user(by))],
    ['GET', /^\/user\/repos$/, (call) => this.page(call, [this.#repository(call.by)])],
    ['GET', at(''), ({ by }) => ok(this.#repository(by))],
    ['GET', at('/collaborators/([^/]+)/permission'), (call) => this.#permission(call)],
    [
      'GET',
      at('/pulls'),
      (call) =>
        this.page(
          call,
          this.#openOnes().map((item) => this.#pull(item)),
        ),
    ],
    ['POST', at('/pulls'), (call) => this.#scoped('write:repository') ?? this.#open(call)],
    ['GET', at('/pulls/(\\d+)'), (call) => this.#about(call, (item) => ok(this.#pull(item)))],
    ['GET', at('/pulls/(\\d+)/reviews'), (call) => this.#about(call, (item) => this.#reviews(call, item))],
    [
      'GET',
      at('/pulls/(\\d+)/reviews/(\\d+)/comments'),
      (call) => this.#about(call, (item) => this.#lines(call, item)),
    ],
    [
      'POST',
      at('/pulls/(\\d+)/reviews/(\\d+)/comments'),
      (call) =>
        this.#version === 'forgejo' ? this.#about(call, (item) => this.#replyInReview(call, item)) : notFound,
    ],
    [
      'POST',
      at('/pulls/(\\d+)/comments/(\\d+)/replies'),
      (call) => (this.#version === 'gitea' ? this.#about(call, (item) => this.#reply(call, item)) : notFound),
    ],
    ['POST', at('/pulls/comments/(\\d+)/(resolve|unresolve)'), (call) => this.#resolve(call)],
    ['GET', at('/issues'), (call) => this.#listed(call)],
    ['GET', at('/issues/(\\d+)/timeline'), (call) => this.#timeline(call)],
    ['POST', at('/issues'), () => this.#scoped('write:issue') ?? invalid],
    ['GET', at('/issues/(\\d+)/comments'), (call) => this.#comments(call)],
    ['POST', at('/issues/(\\d+)/comments'), (call) => this.#scoped('write:issue') ?? this.#comment(call)],
    [
      'GET',
      at('/commits/([^/]+)/status'),
      (call) => {
        const found = this.checks.filter(({ sha }) => sha === call.groups[0]).map(status);
        // Without a link to the next page, and its total is that of this page.
        const { body } = this.page(call, found);
        return ok({ state: 'pending', statuses: body, total_count: (body as unknown[]).length });
      },
    ],
  ];

  protected override threadId(comment: number): string {
    return String(comment);
  }

  #scoped(scope: string): Reply | undefined {
    if (this.scopes.includes(scope)) return undefined;
    return forbidden(`token does not have at least one of required scope(s): [${scope}]`);
  }

  #repository({ access }: Account): Record<string, unknown> {
    const push = access === 'write' || access === 'admin';
    return {
      ...{ id: repoId, full_name: this.repo, default_branch: 'main', has_pull_requests: true },
      ...{ html_url: `${this.url}/${this.repo}`, clone_url: this.gitUrl },
      permissions: { admin: access === 'admin', push, pull: true },
    };
  }

  #permission({ by, groups }: Call): Reply {
    const account = Object.values(this.accounts).find((other) => other.login === groups[0]);
    if (by.access !== 'admin') return forbidden('Only admins can query all permissions');
    if (!account) return notFound;
    return ok({ permission: account.access, role_name: account.access, user: user(account) });
  }

  #openOnes(): Item[] {
    return this.items.filter(({ type, state }) => type === 'change-request' && state === 'open');
  }

  #open({ by, body }: Call): Reply {
    const { head: branch, base, title, body: text } = body as Record<string, string>;
    if (!branch || !base || !title) return invalid;
    if (this.#openOnes().some((item) => item.branch === branch && item.base === base))
      return { status: 409, body: { message: 'pull request already exists for these targets' } };
    return ok(this.#pull(this.addItem('change-request', by, { title, body: text ?? '', branch, base })), 201);
  }

  #about({ groups }: Call, answer: (item: Item) => Reply): Reply {
    const number = Number(groups[0]);
    const item = this.items.find((other) => other.type === 'change-request' && other.number === number);
    return item ? answer(item) : notFound;
  }

  #pull(item: Item): Record<string, unknown> {
    const id = item.isFork ? forkId : repoId;
    return {
      ...{ ...this.#subject(item), merged: item.state === 'merged', draft: item.title.startsWith('WIP: ') },
      ...{
        mergeable: !item.title.startsWith('WIP: ') && !this.conflicts.has(item.number),
        updated_at: item.updatedAt,
      },
      head: { ref: item.branch, sha: this.headOf(item), repo_id: id, repo: { full_name: this.repo } },
      base: {
        ref: item.base,
        sha: this.remote.tip(item.base),
        repo_id: repoId,
        repo: { full_name: this.repo },
      },
    };
  }

  /** What issues and pull requests have. */
  #subject(item: Item): Record<string, unknown> {
    return {
      ...{ id: 1000 + item.number, number: item.number, title: item.title, body: item.body },
      ...{
        user: user(item.author),
        state: item.state === 'open' ? 'open' : 'closed',
        html_url: this.#webUrl(item),
      },
      ...{ labels: item.labels.map((name) => ({ name })), assignees: item.assignees.map(user) },
    };
  }

  #listed(call: Call): Reply {
    const { query } = call;
    const since = query.get('since') ?? '';
    const found = listedItems(this.items, null, query.get('labels'), query.get('assigned_by'), since);
    return this.page(
      call,
      found.map((item) => ({
        ...this.#subject(item),
        pull_request: item.type === 'issue' ? null : { merged: false },
        updated_at: item.events.at(-1)?.at,
      })),
    );
  }

  #timeline(call: Call): Reply {
    const item = this.items.find(({ number }) => number === Number(call.groups[0]));
    if (!item) return notFound;
    const assigneeOf = (login: string) => item.assignees.find((account) => account.login === login);
    const happened = item.events.filter(({ what }) => what !== 'text');
    const entries = happened.map(({ id, what, value, by, at: created_at }) => ({
      ...{ id, user: user(by), created_at, updated_at: created_at },
      ...(what === 'label'
        ? { type: 'label', body: '1', label: { name: value } }
        : { type: 'assignees', body: '', removed_assignee: false }),
      ...(what === 'assignee' && { assignee: user(assigneeOf(value) ?? by) }),
    }));
    return this.page(call, entries);
  }

  #webUrl({ type, number }: Item): string {
    return `${this.url}/${this.repo}/${type === 'issue' ? 'issues' : 'pulls'}/${number}`;
  }

  #reviews(call: Call, item: Item): Reply {
    const reviews = item.reviews.map(({ id, author, verdict, body, at: submitted_at }) => ({
      ...{ id, user: user(author), state: reviewStates[verdict], body, submitted_at, dismissed: false },
      ...{ comments_count: item.threads.filter(({ review }) => review === id).length },
      html_url: `${this.#webUrl(item)}#issuecomment-${id}`,
    }));
    return this.page(call, reviews);
  }

  #lines(call: Call, item: Item): Reply {
    const found = item.threads.filter(({ review }) => review === Number(call.groups[1]));
    if (call.query.has('limit')) return invalid;
    // The host sends them by path and line, in no order of time, and all at once.
    return ok(
      found
        .flatMap((thread) => thread.comments.map((comment) => this.#line(item, thread, comment)))
        .reverse(),
    );
  }

  #line(item: Item, thread: StoredThread, comment: StoredComment): Record<string, unknown> {
    const isFirst = thread.comments[0] === comment;
    return {
      ...this.#shown(item, comment),
      ...{ path: thread.path, position: thread.line, original_position: 0 },
      ...{ pull_request_review_id: thread.review },
      resolver: isFirst && thread.isResolved ? user(this.accounts.integration) : null,
    };
  }

  #shown(item: Item, { id, body, author, createdAt }: StoredComment): Record<string, unknown> {
    return {
      ...{ id, body, user: user(author), created_at: createdAt, updated_at: createdAt },
      html_url: `${this.#webUrl(item)}#issuecomment-${id}`,
    };
  }

  #replyInReview({ by, body, groups }: Call, item: Item): Reply {
    const { path, new_position: line } = body;
    const thread = item.threads.find(
      (other) => other.review === Number(groups[1]) && other.path === path && other.line === line,
    );
    return thread
      ? ok(this.#line(item, thread, this.addReply(item, thread, by, String(body.body))))
      : invalid;
  }

  #reply({ by, body, groups }: Call, item: Item): Reply {
    const thread = item.threads.find(({ comments }) => comments.some(({ id }) => id === Number(groups[1])));
    return thread
      ? ok(this.#line(item, thread, this.addReply(item, thread, by, String(body.body))), 201)
      : notFound;
  }

  #resolve({ groups }: Call): Reply {
    if (this.#version !== 'gitea') return { status: 405, body: '' };
    const thread = this.items.flatMap(({ threads }) => threads).find(({ id }) => id === groups[0]);
    if (!thread) return notFound;
    thread.isResolved = groups[1] === 'resolve';
    return { status: 204, body: null };
  }

  #comments({ groups, query }: Call): Reply {
    const item = this.items.find(({ number }) => number === Number(groups[0]));
    if (!item) return notFound;
    if (query.has('limit')) return invalid;
    const since = Date.parse(query.get('since') ?? '1970-01-01T00:00:00Z');
    const comments = item.threads.filter(({ path }) => path === '').flatMap((thread) => thread.comments);
    return ok(
      comments
        .filter(({ createdAt }) => Date.parse(createdAt) >= since)
        .map((comment) => this.#shown(item, comment)),
    );
  }

  #comment({ by, body, groups }: Call): Reply {
    const item = this.items.find(({ number }) => number === Number(groups[0]));
    if (!item) return notFound;
    const { comments } = this.addThread(item, by, { body: String(body.body) });
    return ok(this.#shown(item, comments[0] as StoredComment), 201);
  }

  #deliver(event: string, type: string, by: Account, body: Readonly<Record<string, unknown>>): void {
    const text = JSON.stringify({ ...body, repository: this.#repository(by), sender: user(by) });
    const digest = this.secret && createHmac('sha256', this.secret).update(text).digest('hex');
    const id = randomUUID();
    const names =
      this.#version === 'forgejo' ? ['forgejo', 'gitea', 'gogs', 'github'] : ['gitea', 'gogs', 'github'];
    this.deliveries.send(
      {
        'content-type': 'application/json',
        'x-hub-signature-256': `sha256=${digest}`,
        ...Object.fromEntries(
          names.flatMap((name) => [
            [`x-${name}-delivery`, id],
            [`x-${name}-event`, event],
            [`x-${name}-event-type`, type],
            ...(name === 'github' ? [] : [[`x-${name}-signature`, digest]]),
          ]),
        ),
      },
      text,
    );
  }

  protected deliverItem(item: Item, by: Account, action: ItemAction): void {
    const isIssue = item.type === 'issue';
    const names = {
      opened: 'opened',
      labeled: 'label_updated',
      assigned: 'assigned',
      pushed: 'synchronized',
      merged: 'closed',
      closed: 'closed',
    };
    const types = {
      labeled: '_label',
      assigned: '_assign',
      pushed: '_sync',
      opened: '',
      merged: '',
      closed: '',
    };
    const subject = isIssue
      ? { issue: this.#subject(item) }
      : { pull_request: this.#pull(item), review: null };
    const type = isIssue
      ? types[action]
        ? `issue${types[action]}`
        : 'issues'
      : `pull_request${types[action]}`;
    const body = { action: names[action], number: item.number, ...subject };
    this.#deliver(isIssue ? 'issues' : 'pull_request', type, by, body);
  }

  /** Comments on lines are reported with their review only; a later one as a review of its own. */
  protected deliverComment(item: Item, thread: StoredThread, comment: StoredComment): void {
    const isPull = item.type === 'change-request';
    if (thread.path !== '') {
      if (thread.comments[0] !== comment) this.#deliverReview(item, comment.author, 'comment', comment.body);
      return;
    }
    const type = isPull ? 'pull_request_comment' : 'issue_comment';
    this.#deliver('issue_comment', type, comment.author, {
      ...{ action: 'created', is_pull: isPull, comment: this.#shown(item, comment) },
      issue: { ...this.#subject(item), pull_request: isPull ? { merged: item.state === 'merged' } : null },
    });
  }

  protected deliverReview(item: Item, { author, verdict, body }: Item['reviews'][number]): void {
    const kind = { APPROVED: 'approved', CHANGES_REQUESTED: 'rejected', COMMENTED: 'comment' }[verdict];
    this.#deliverReview(item, author, kind, body);
  }

  #deliverReview(item: Item, by: Account, kind: string, content: string): void {
    const review = { type: `pull_request_review_${kind}`, content };
    const body = { action: 'reviewed', number: item.number, pull_request: this.#pull(item), review };
    this.#deliver(`pull_request_${kind}`, `pull_request_review_${kind}`, by, body);
  }

  protected deliverCheck(check: StoredCheck): void {
    const { context, status: state, description, target_url } = status(check);
    const body = { id: check.id, sha: check.sha, context, state, description, target_url };
    this.#deliver('status', 'status', this.accounts.maintainer, body);
  }
}

const user = ({ id, login }: Account): Record<string, unknown> => ({ id, login, username: login });

const status = ({ id, name, state, summary = '' }: StoredCheck): Record<string, unknown> => ({
  ...{ id, context: name, status: statuses[state], description: summary },
  target_url: `/team/project/actions/runs/${id}/jobs/0`,
});
