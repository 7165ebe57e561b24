import { type ClientOptions, HttpClient, type HttpRequest } from '../../work/http-client.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import { webUrl } from '../../work/json-reader.ts';
import { happenedSince, type SubjectEvent } from '../found-triggers.ts';
import { listedSubject, permissionIn } from '../github-events.ts';
import {
  type Capabilities,
  type Cause,
  type FoundTrigger,
  type GitCredential,
  type Host,
  type HostChangeRequest,
  type HostCheck,
  type HostComment,
  type HostRequirement,
  type HostReview,
  type HostThread,
  mostFound,
  type NewChangeRequest,
  type Permission,
  type Person,
  type Posted,
  type RepoPath,
  type Subject,
  type WantedTriggers,
} from '../host.ts';
import { orEmpty, orExisting } from '../or-refusal.ts';
import { orNone } from '../people.ts';
import {
  changeRequestOf,
  commentOf,
  conversationThread,
  type FoundReview,
  lineCommentOf,
  personOf,
  reviewOf,
  threadsOf,
} from './bodies.ts';
import { repoPaths } from './paths.ts';
import { readRequirements } from './requirements.ts';
import { unknownVersion, type Version, versionOf } from './version.ts';

export interface ForgejoOptions extends ClientOptions {
  /** The address that people use, such as `https://codeberg.org`. */
  readonly url: string;
  readonly token: string;
}

const limits = {
  ...{ repositories: 100, changeRequests: 500, reviews: 500, comments: 2_000, checks: 500 },
  ...{ titleLength: 255, summaryLength: 1_000 },
};
/** The most that hosts send by default; they call it `limit`. */
const pageSize = 50;
/** Lists that no version documents pages of: they are sent as a whole. */
const whole = { limit: undefined };

/** Forgejo and Gitea, which differ in what they can do with threads. */
export class ForgejoHost implements Host {
  readonly #client: HttpClient;
  readonly #url: string;
  readonly #token: string;
  #self: Person | undefined;
  #version: Version | undefined;

  constructor({ url, token, ...options }: ForgejoOptions) {
    this.#url = url.replace(/\/+$/, '');
    this.#token = token;
    this.#client = new HttpClient({
      ...options,
      baseUrl: `${this.#url}/api/v1`,
      authorize: async () => ({ authorization: `token ${token}` }),
    });
  }

  /** Known after the first call that is about threads, or for the account. */
  get capabilities(): Capabilities {
    return (this.#version ?? unknownVersion).capabilities;
  }

  async self(): Promise<Person> {
    await this.#knownVersion();
    this.#self ??= await this.#client.call({ path: '/user' }, personOf);
    return this.#self;
  }

  async requirements(repo: RepoPath): Promise<readonly HostRequirement[]> {
    return readRequirements(this.#client, repoPaths(repo), repo);
  }

  async repositories(): Promise<readonly RepoPath[]> {
    const read = (repo: JsonReader) =>
      repo.find('permissions')?.flag('push') ? [repo.text('full_name')] : [];
    return (await this.#list({ path: '/user/repos' }, read, limits.repositories)).flat();
  }

  async path(repo: RepoPath): Promise<RepoPath> {
    return this.#client.call({ path: repoPaths(repo)`` }, (found) => found.text('full_name'));
  }

  permissionOf(repo: RepoPath, person: Person): Promise<Permission> {
    const path = repoPaths(repo)`/collaborators/${person.login}/permission`;
    return orNone(this.#client.call({ path }, (reply) => permissionIn(reply, person)));
  }

  async defaultBranch(repo: RepoPath): Promise<string> {
    return this.#client.call({ path: repoPaths(repo)`` }, (found) => found.text('default_branch'));
  }

  async changeRequest(repo: RepoPath, number: number): Promise<HostChangeRequest> {
    return this.#client.call({ path: repoPaths(repo)`/pulls/${number}` }, changeRequestOf);
  }

  async changeRequestsFrom(repo: RepoPath, branch: string): Promise<readonly HostChangeRequest[]> {
    return (await this.#openOnes(repo)).filter((item) => item.branch === branch);
  }

  async openChangeRequest(repo: RepoPath, request: NewChangeRequest): Promise<HostChangeRequest> {
    const { branch, base, body, isDraft } = request;
    const title = `${isDraft ? 'WIP: ' : ''}${request.title}`.slice(0, limits.titleLength);
    const path = repoPaths(repo)`/pulls`;
    const sent = { head: branch, base, title, body };
    const opened = this.#client.call({ method: 'POST', path, body: sent }, changeRequestOf);
    return orExisting(opened, 409, this, repo, request);
  }

  async threads(repo: RepoPath, number: number): Promise<readonly HostThread[]> {
    const at = repoPaths(repo);
    const [{ capabilities }, reviews, conversation] = await Promise.all([
      this.#knownVersion(),
      this.#reviews(repo, number),
      this.#list({ path: at`/issues/${number}/comments`, query: whole }, commentOf, limits.comments),
    ]);
    const comments = await Promise.all(
      reviews
        .filter(({ hasComments }) => hasComments)
        .map(({ review }) => {
          const path = at`/pulls/${number}/reviews/${review.id}/comments`;
          return this.#list({ path, query: whole }, lineCommentOf, limits.comments);
        }),
    );
    return [
      ...threadsOf(comments.flat(), capabilities.resolvesThreads),
      ...reviews.flatMap(({ text }) => text ?? []),
      ...conversation.map(conversationThread),
    ];
  }

  async reviews(repo: RepoPath, number: number): Promise<readonly HostReview[]> {
    return (await this.#reviews(repo, number)).map(({ review }) => review);
  }

  async checks(repo: RepoPath, sha: string): Promise<readonly HostCheck[]> {
    const path = repoPaths(repo)`/commits/${sha}/status`;
    const read = (status: JsonReader) => checkOf(status, this.#url);
    return orEmpty(this.#pages(path, read), 404);
  }

  /** Statuses have no link to the next page, and hosts may send fewer at a time than they are asked for: a shorter page is the last. */
  async #pages(path: string, read: (status: JsonReader) => HostCheck): Promise<HostCheck[]> {
    const found: HostCheck[] = [];
    let perPage = 1;
    for (let page = 1; found.length < limits.checks; page += 1) {
      const request = { path, query: { limit: pageSize, page } };
      const items = await this.#client.call(request, (body) => statusesIn(body).map(read));
      found.push(...items);
      if (items.length < perPage) break;
      perPage = items.length;
    }
    return found.slice(0, limits.checks);
  }

  async endOfLog(): Promise<string> {
    return '';
  }

  async reply(repo: RepoPath, number: number, thread: HostThread, body: string): Promise<Posted> {
    const { replies } = await this.#knownVersion();
    const [first] = thread.comments;
    const at = repoPaths(repo);
    if (thread.path === '' || replies === 'none' || !first)
      return this.comment(repo, { type: 'change-request', number }, `${referenceTo(thread)}${body}`);
    if (replies === 'comment')
      return this.#post(at`/pulls/${number}/comments/${thread.id}/replies`, { body });
    const place = { [thread.side === 'OLD' ? 'old_position' : 'new_position']: thread.line ?? 0 };
    const path = at`/pulls/${number}/reviews/${first.reviewId}/comments`;
    return this.#post(path, { path: thread.path, body, ...place });
  }

  async resolve(repo: RepoPath, _number: number, thread: HostThread, isResolved = true): Promise<void> {
    const action = isResolved ? 'resolve' : 'unresolve';
    const path = repoPaths(repo)`/pulls/comments/${thread.id}/${action}`;
    await this.#client.call({ method: 'POST', path }, () => null);
  }

  async comment(repo: RepoPath, { number }: Subject, body: string): Promise<Posted> {
    return this.#post(repoPaths(repo)`/issues/${number}/comments`, { body });
  }

  async comments(repo: RepoPath, { number }: Subject, since: string): Promise<readonly HostComment[]> {
    const request = { path: repoPaths(repo)`/issues/${number}/comments`, query: { ...whole, since } };
    const found = await this.#list(request, commentOf, limits.comments);
    return found.filter(({ updatedAt }) => Date.parse(updatedAt) >= Date.parse(since));
  }

  async triggersSince(
    repo: RepoPath,
    { label, assignee }: WantedTriggers,
    since: string,
  ): Promise<readonly FoundTrigger[]> {
    const at = repoPaths(repo);
    const search = async (filter: Readonly<Record<string, string>>, what: Cause) => {
      const query = { state: 'open', since, ...filter };
      const subjects = await this.#list({ path: at`/issues`, query }, listedSubject(personOf), mostFound);
      return happenedSince(subjects, since, what, async ({ number }) => {
        const request = { path: at`/issues/${number}/timeline`, query: { since } };
        return (await this.#list(request, (entry) => eventsIn(entry, what), limits.comments)).flat();
      });
    };
    return [
      ...(label ? await search({ labels: label }, { by: 'label', value: label }) : []),
      // It is called so, and means who it is assigned to.
      ...(assignee
        ? await search({ assigned_by: assignee.login }, { by: 'assigned', value: assignee.login })
        : []),
    ];
  }

  async gitCredential(): Promise<GitCredential> {
    return { username: (await this.self()).login, password: this.#token, expiresAt: null };
  }

  async #knownVersion(): Promise<Version> {
    this.#version ??= await this.#client.call({ path: '/version' }, (reply) =>
      versionOf(reply.text('version')),
    );
    return this.#version;
  }

  /** They can't be searched by branch or commit. */
  #openOnes(repo: RepoPath): Promise<readonly HostChangeRequest[]> {
    const request = { path: repoPaths(repo)`/pulls`, query: { state: 'open', sort: 'recentupdate' } };
    return this.#list(request, changeRequestOf, limits.changeRequests);
  }

  async #reviews(repo: RepoPath, number: number): Promise<readonly FoundReview[]> {
    const path = repoPaths(repo)`/pulls/${number}/reviews`;
    return (await this.#list({ path }, reviewOf, limits.reviews)).flatMap((review) => review ?? []);
  }

  #list<T>(
    request: HttpRequest,
    read: (item: JsonReader) => T,
    most: number,
    itemsOf?: (page: JsonReader) => readonly JsonReader[],
  ): Promise<T[]> {
    const query = { limit: pageSize, per_page: undefined, ...request.query };
    return this.#client.list({ ...request, query }, read, most, itemsOf);
  }

  #post(path: string, body: Readonly<Record<string, unknown>>): Promise<Posted> {
    return this.#client.call({ method: 'POST', path, body }, (comment) => ({
      id: String(comment.number('id')),
      url: comment.url('html_url'),
    }));
  }
}

/** An entry for a label that was added has the text 1; one for an assignment says if it was removed. */
function eventsIn(entry: JsonReader, { by, value }: Cause): SubjectEvent[] {
  const type = entry.text('type');
  const isWanted =
    by === 'label'
      ? type === 'label' && entry.textOrEmpty('body') === '1' && entry.find('label')?.text('name') === value
      : type === 'assignees' &&
        !entry.flag('removed_assignee') &&
        entry.find('assignee')?.text('login') === value;
  return isWanted ? [{ sender: personOf(entry.find('user')), at: entry.text('created_at') }] : [];
}

/** What a comment answers, if it can't be added to its thread. */
function referenceTo({ path, line, comments }: HostThread): string {
  const last = comments.at(-1);
  if (!last) return '';
  const place = path && ` on \`${path}${line === null ? '' : `:${line}`}\``;
  return `In reply to [this comment](${last.url})${place}:\n\n`;
}

/** The list is null if there are none. */
function statusesIn(page: JsonReader): readonly JsonReader[] {
  page.text('state');
  return page.list('statuses');
}

const states: Readonly<Record<string, HostCheck['state']>> = {
  success: 'PASSED',
  warning: 'PASSED',
  pending: 'PENDING',
  skipped: 'SKIPPED',
};

/** The address of a job of the host itself is a path. */
function checkOf(status: JsonReader, url: string): HostCheck {
  const target = status.textOrEmpty('target_url');
  return {
    id: '',
    name: status.text('context'),
    state: states[status.text('status')] ?? 'FAILED',
    url: webUrl(target.startsWith('/') ? `${new URL(url).origin}${target}` : target),
    summary: status.textOrEmpty('description').slice(0, limits.summaryLength),
    annotations: [],
  };
}
