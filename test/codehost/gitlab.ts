import { createHmac, randomUUID } from 'node:crypto';
import { GitlabHost } from '../../packages/service/src/codehost/gitlab/host.ts';
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

const projectId = 7;
const forkId = 8;
const levels = { none: 0, read: 20, write: 30, admin: 40 };
const statuses = { PENDING: 'running', PASSED: 'success', FAILED: 'failed', SKIPPED: 'skipped' };
const project = '/projects/team%2Fproject';
/** Below the project. */
const at = (path: string): RegExp => new RegExp(`^${project}${path}$`);

/** The tests' GitLab. */
export class FakeGitlab extends SmallHost {
  readonly type = 'gitlab';
  protected readonly apiPath = '/api/v4';
  protected readonly hasOneNumbering = false;
  scopes = ['api'];
  /** Pipelines at commits that are not in the merge request. */
  /** The states of jobs by name that differ from those of their checks. */
  readonly jobStates = new Map<string, string>();
  readonly mergedResults = new Map<
    number,
    { readonly id: number; readonly sha: string; readonly jobs: readonly Readonly<Record<string, unknown>>[] }
  >();

  static start(): Promise<FakeGitlab> {
    return new FakeGitlab('write').listen();
  }

  connect({ timeoutMs, token = this.token }: { timeoutMs?: number; token?: string } = {}): Host {
    return new GitlabHost({
      url: this.url,
      token,
      limiter: new Limiter({ writeSpacingMs: 1 }),
      innerHosts: [hostRuleOf(new URL(this.url).host) ?? []].flat(),
      ...(timeoutMs !== undefined && { timeoutMs }),
    });
  }

  protected readonly routes: readonly Route[] = [
    ['GET', /^\/user$/, ({ by }) => ok(user(by))],
    ['GET', /^\/personal_access_tokens\/self$/, () => ok({ id: 1, active: true, scopes: this.scopes })],
    ['GET', /^\/projects$/, (call) => this.page(call, [this.#project()])],
    ['GET', at(''), () => ok(this.#project())],
    ['GET', /^\/users\/(\d+)$/, ({ groups }) => this.#account(Number(groups[0]))],
    ['GET', at('/members/all/(\\d+)'), ({ groups }) => this.#member(Number(groups[0]))],
    [
      'GET',
      at('/merge_requests'),
      (call) =>
        call.query.has('updated_after')
          ? this.#listed(call, 'change-request')
          : this.page(
              call,
              this.#search(call).map((item) => this.#request(item)),
            ),
    ],
    ['POST', at('/merge_requests'), (call) => this.#open(call)],
    ['GET', at('/issues'), (call) => this.#listed(call, 'issue')],
    ['GET', at('/(merge_requests|issues)/(\\d+)/resource_label_events'), (call) => this.#labelEvents(call)],
    ['GET', at('/merge_requests/(\\d+)'), (call) => this.#about(call, (item) => ok(this.#request(item)))],
    [
      'GET',
      at('/merge_requests/(\\d+)/discussions'),
      (call) =>
        this.#about(call, (item) =>
          this.page(
            call,
            item.threads.map((thread) => this.#discussion(thread)),
          ),
        ),
    ],
    ['POST', at('/merge_requests/(\\d+)/discussions/([^/]+)/notes'), (call) => this.#reply(call)],
    ['PUT', at('/merge_requests/(\\d+)/discussions/([^/]+)'), (call) => this.#resolve(call)],
    ['GET', at('/merge_requests/(\\d+)/approvals'), (call) => this.#about(call, approvals)],
    [
      'GET',
      at('/merge_requests/(\\d+)/reviewers'),
      (call) => this.#about(call, (item) => ok(reviewers(item))),
    ],
    ['GET', at('/(merge_requests|issues)/(\\d+)/notes'), (call) => this.#notes(call)],
    ['POST', at('/(merge_requests|issues)/(\\d+)/notes'), (call) => this.#comment(call)],
    ['GET', at('/repository/commits/([^/]+)/statuses'), (call) => this.#statuses(call)],
    [
      'GET',
      at('/repository/commits/([^/]+)/merge_requests'),
      (call) => {
        const found = this.#openOnes().filter((item) => this.headOf(item) === call.groups[0]);
        return this.page(
          call,
          found.map((item) => this.#request(item)),
        );
      },
    ],
    [
      'GET',
      at('/pipelines/(\\d+)/jobs'),
      (call) => {
        const found = [...this.mergedResults.values()].find(({ id }) => id === Number(call.groups[0]));
        return this.page(call, found?.jobs ?? []);
      },
    ],
    [
      'GET',
      at('/jobs/(\\d+)/trace'),
      ({ groups }) => {
        const log = this.checks.find(({ id }) => id === Number(groups[0]))?.log;
        return log === undefined ? notFound : ok(log);
      },
    ],
  ];

  #project(): unknown {
    return {
      ...{
        id: projectId,
        path_with_namespace: this.repo,
        default_branch: 'main',
        merge_requests_enabled: true,
      },
      ...{ web_url: `${this.url}/${this.repo}`, git_http_url: this.gitUrl },
    };
  }

  #member(id: number): Reply {
    const account = Object.values(this.accounts).find((other) => other.id === id);
    if (!account || account.access === 'none') return notFound;
    return ok({ ...user(account), access_level: levels[account.access] });
  }

  #openOnes(): Item[] {
    return this.items.filter(({ type, state }) => type === 'change-request' && state === 'open');
  }

  #search({ query }: Call): Item[] {
    return this.#openOnes().filter(({ branch }) => branch === (query.get('source_branch') ?? branch));
  }

  #open({ by, body }: Call): Reply {
    const { source_branch: branch, target_branch: base, title, description } = body as Record<string, string>;
    if (!branch || !base || !title) return { status: 400, body: { error: 'title is missing' } };
    if (this.#openOnes().some((item) => item.branch === branch && item.base === base))
      return { status: 409, body: { message: ['Another open merge request already exists'] } };
    const item = this.addItem('change-request', by, { title, body: description ?? '', branch, base });
    return ok(this.#request(item), 201);
  }

  #about({ groups }: Call, answer: (item: Item) => Reply): Reply {
    const number = Number(groups[0]);
    const item = this.items.find((other) => other.type === 'change-request' && other.number === number);
    return item ? answer(item) : notFound;
  }

  #subject([kind, number]: readonly string[]): Item {
    return this.item({ type: kind === 'issues' ? 'issue' : 'change-request', number: Number(number) });
  }

  #request(item: Item): Record<string, unknown> {
    return {
      ...{ id: 1000 + item.number, iid: item.number, project_id: projectId, title: item.title },
      ...{ description: item.body, web_url: this.#webUrl(item), author: user(item.author) },
      ...{ state: { open: 'opened', closed: 'closed', merged: 'merged' }[item.state] },
      ...{ draft: item.title.startsWith('Draft: '), source_branch: item.branch, target_branch: item.base },
      ...{ source_project_id: item.isFork ? forkId : projectId, target_project_id: projectId },
      ...{ sha: this.headOf(item), merge_status: 'can_be_merged', detailed_merge_status: 'mergeable' },
      ...{
        has_conflicts: false,
        updated_at: item.updatedAt,
        head_pipeline: this.mergedResults.get(item.number) ?? null,
      },
    };
  }

  #discussion(thread: StoredThread): unknown {
    return {
      id: thread.id,
      individual_note: thread.path === '' && thread.comments.length === 1,
      notes: thread.comments.map((comment) => note(comment, thread)),
    };
  }

  #reply({ by, body, groups: [number, id] }: Call): Reply {
    const item = this.item({ type: 'change-request', number: Number(number) });
    const thread = item.threads.find((other) => other.id === id);
    return thread ? ok(note(this.addReply(item, thread, by, String(body.body)), thread), 201) : notFound;
  }

  #resolve({ by, body, groups: [number, id] }: Call): Reply {
    const item = this.item({ type: 'change-request', number: Number(number) });
    const thread = item.threads.find((other) => other.id === id);
    if (!thread) return notFound;
    if (by.access !== 'write' && by.access !== 'admin')
      return { status: 403, body: { message: '403 Forbidden' } };
    thread.isResolved = body.resolved === true;
    return ok(this.#discussion(thread));
  }

  #listed(call: Call, type: Item['type']): Reply {
    const { query } = call;
    const since = query.get('updated_after') ?? '';
    const found = listedItems(this.items, type, query.get('labels'), query.get('assignee_id'), since);
    return this.page(
      call,
      found.map((item) => ({
        ...{ iid: item.number, title: item.title, description: item.body, author: user(item.author) },
        ...{ web_url: this.#webUrl(item), updated_at: item.events.at(-1)?.at },
      })),
    );
  }

  #labelEvents(call: Call): Reply {
    const events = this.#subject(call.groups).events.filter(({ what }) => what === 'label');
    return this.page(
      call,
      events.map(({ id, value, by, at: created_at }) => ({
        ...{ id, user: user(by), created_at, label: { name: value }, action: 'add' },
      })),
    );
  }

  #notes(call: Call): Reply {
    const item = this.#subject(call.groups);
    if (call.query.get('activity_filter') === 'only_activity') {
      const events = item.events.filter(({ what }) => what === 'assignee');
      return this.page(
        call,
        events.map(({ id, value, by, at: created_at }) => ({
          ...{ id, author: user(by), created_at, system: true, body: `assigned to @${value}` },
        })),
      );
    }
    const notes = item.threads.flatMap((thread) => thread.comments.map((comment) => note(comment, thread)));
    return this.page(call, notes.reverse());
  }

  #comment({ by, body, groups }: Call): Reply {
    const item = this.#subject(groups);
    const thread = this.addThread(item, by, { body: String(body.body) });
    return ok(note(thread.comments[0] as StoredComment, thread), 201);
  }

  #account(id: number): Reply {
    const found = Object.values(this.accounts).find((account) => account.id === id);
    return found ? ok(user(found)) : notFound;
  }

  #statuses(call: Call): Reply {
    const found = this.checks.filter(({ sha }) => sha === call.groups[0]);
    return this.page(
      call,
      found.map(({ id, name, state, summary = '', log }) => ({
        ...{ id, name, description: summary, ref: 'branch', allow_failure: false },
        status: this.jobStates.get(name) ?? statuses[state],
        target_url: log === undefined ? 'https://ci.example.com/1' : `${this.url}/${this.repo}/-/jobs/${id}`,
      })),
    );
  }

  #webUrl({ type, number }: Item): string {
    return `${this.url}/${this.repo}/-/${type === 'issue' ? 'issues' : 'merge_requests'}/${number}`;
  }

  /** Signed if the secret is a signing token, else with the secret itself. */
  #deliver(name: string, body: Readonly<Record<string, unknown>>): void {
    const id = randomUUID();
    const text = JSON.stringify({ project: this.#project(), ...body });
    const timestamp = String(Math.floor(Date.now() / 1000));
    const key = Buffer.from(this.secret.replace('whsec_', ''), 'base64');
    const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${text}`).digest('base64');
    const signed = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${digest}` };
    this.deliveries.send(
      {
        ...{ 'content-type': 'application/json', 'x-gitlab-event': name, 'idempotency-key': id },
        ...(this.secret.startsWith('whsec_') ? signed : { 'x-gitlab-token': this.secret }),
      },
      text,
    );
  }

  protected deliverItem(item: Item, by: Account, action: ItemAction, value = ''): void {
    const isIssue = item.type === 'issue';
    const names = {
      opened: 'open',
      labeled: 'update',
      assigned: 'update',
      pushed: 'update',
      merged: 'merge',
      closed: 'close',
    };
    const labels = item.labels.map((title) => ({ title }));
    const assignees = item.assignees.map(user);
    const before = <T>(list: readonly T[]) => ({ previous: list.slice(0, -1), current: list });
    this.#deliver(isIssue ? 'Issue Hook' : 'Merge Request Hook', {
      object_kind: isIssue ? 'issue' : 'merge_request',
      user: user(by),
      object_attributes: { ...this.#attributes(item), action: names[action] },
      ...{ labels, assignees },
      changes: {
        ...(action === 'labeled' && value && { labels: before(labels) }),
        ...(action === 'assigned' && { assignees: before(assignees) }),
      },
    });
  }

  #attributes(item: Item): Record<string, unknown> {
    return {
      ...{ id: 1000 + item.number, iid: item.number, title: item.title, description: item.body },
      ...{ author_id: item.author.id, url: this.#webUrl(item), state: 'opened' },
      updated_at: item.events.at(-1)?.at ?? item.updatedAt,
    };
  }

  protected deliverComment(item: Item, _thread: StoredThread, comment: StoredComment): void {
    const isIssue = item.type === 'issue';
    this.#deliver('Note Hook', {
      ...{ object_kind: 'note', user: user(comment.author) },
      object_attributes: {
        ...{ id: comment.id, note: comment.body, noteable_type: isIssue ? 'Issue' : 'MergeRequest' },
        ...{ author_id: comment.author.id, system: false, action: 'create' },
        url: `${this.#webUrl(item)}#note_${comment.id}`,
      },
      [isIssue ? 'issue' : 'merge_request']: this.#attributes(item),
    });
  }

  /** The text of a review is a comment in the conversation. */
  protected deliverReview(item: Item, { author, verdict, body }: Item['reviews'][number]): void {
    if (body !== '') this.addThread(item, author, { body });
    if (verdict !== 'APPROVED') return;
    this.#deliver('Merge Request Hook', {
      ...{ object_kind: 'merge_request', user: user(author) },
      object_attributes: { ...this.#attributes(item), action: 'approved' },
    });
  }

  protected deliverCheck({ sha, state }: StoredCheck): void {
    this.#deliver('Pipeline Hook', {
      ...{ object_kind: 'pipeline', user: user(this.accounts.maintainer), merge_request: null },
      object_attributes: { id: 1, sha, status: statuses[state] },
    });
  }
}

const user = ({ id, login }: Account): Record<string, unknown> => ({
  id,
  username: login,
  name: login,
  state: 'active',
});

function note({ id, body, author, createdAt }: StoredComment, thread: StoredThread): Record<string, unknown> {
  const isOnLine = thread.path !== '';
  return {
    ...{ id, body, author: user(author), created_at: createdAt, updated_at: createdAt, system: false },
    ...{ type: isOnLine ? 'DiffNote' : null, resolvable: isOnLine, resolved: thread.isResolved },
    ...(isOnLine && {
      position: {
        ...{ position_type: 'text', new_path: thread.path, old_path: thread.path },
        ...{ new_line: thread.line, old_line: null },
        line_range: { start: { new_line: thread.startLine || thread.line, old_line: null } },
      },
    }),
  };
}

const approvals = (item: Item): Reply =>
  ok({
    approved_by: item.reviews
      .filter(({ verdict }) => verdict === 'APPROVED')
      .map(({ author, at: approved_at }) => ({ user: user(author), approved_at })),
  });

const reviewers = (item: Item): unknown[] =>
  item.reviews.map(({ author, verdict, at: created_at }) => ({
    ...{ user: user(author), created_at },
    state: { APPROVED: 'approved', CHANGES_REQUESTED: 'requested_changes', COMMENTED: 'reviewed' }[verdict],
  }));
