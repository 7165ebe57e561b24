import { type ClientOptions, HttpClient, urlPath } from '../../work/http-client.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import type {
  FoundTrigger,
  GitCredential,
  Host,
  HostChangeRequest,
  HostCheck,
  HostComment,
  HostRequirement,
  HostReview,
  HostThread,
  NewChangeRequest,
  Permission,
  Person,
  Posted,
  RepoPath,
  Subject,
  WantedTriggers,
} from '../host.ts';
import { orEmpty, orExisting } from '../or-refusal.ts';
import { orNone } from '../people.ts';
import { changeRequestOf, commentOf, personOf, threadOf, withoutCommands } from './bodies.ts';
import { readChecks, readEndOfLog } from './checks.ts';
import { readTriggers } from './found-triggers.ts';
import { projectPaths } from './paths.ts';
import { readRequirements } from './requirements.ts';

export interface GitlabOptions extends ClientOptions {
  /** The address that people use, such as `https://gitlab.com`. */
  readonly url: string;
  /** Of a person, a project or a group. */
  readonly token: string;
}

const limits = { repositories: 100, changeRequests: 100, threads: 2_000, notes: 500, titleLength: 255 };

/** The role from which on a member may write, or administrate. */
const roles = { developer: 30, maintainer: 40 };

export class GitlabHost implements Host {
  readonly capabilities = {
    resolvesThreads: true,
    repliesToThreads: true,
    namesAdditions: true,
    readsLogs: true,
  };
  readonly #client: HttpClient;
  readonly #url: string;
  readonly #token: string;
  #self: Person | undefined;

  constructor({ url, token, ...options }: GitlabOptions) {
    this.#url = url.replace(/\/+$/, '');
    this.#token = token;
    this.#client = new HttpClient({
      ...options,
      baseUrl: `${this.#url}/api/v4`,
      authorize: async () => ({ authorization: `Bearer ${token}` }),
    });
  }

  async self(): Promise<Person> {
    this.#self ??= await this.#client.call({ path: '/user' }, personOf);
    return this.#self;
  }

  requirements(repo: RepoPath): Promise<readonly HostRequirement[]> {
    return readRequirements(this.#client, projectPaths(repo), repo);
  }

  repositories(): Promise<readonly RepoPath[]> {
    const query = {
      membership: 'true',
      min_access_level: roles.developer,
      archived: 'false',
      simple: 'true',
    };
    const read = (project: JsonReader) => project.text('path_with_namespace');
    return this.#client.list({ path: '/projects', query }, read, limits.repositories);
  }

  path(repo: RepoPath): Promise<RepoPath> {
    return this.#client.call({ path: projectPaths(repo)`` }, (project) =>
      project.text('path_with_namespace'),
    );
  }

  async permissionOf(repo: RepoPath, person: Person): Promise<Permission> {
    const path = projectPaths(repo)`/members/all/${person.id}`;
    return orNone(this.#client.call({ path }, permissionIn));
  }

  account(id: string): Promise<Person> {
    return this.#client.call({ path: urlPath`/users/${id}` }, personOf);
  }

  defaultBranch(repo: RepoPath): Promise<string> {
    return this.#client.call({ path: projectPaths(repo)`` }, (project) => project.text('default_branch'));
  }

  changeRequest(repo: RepoPath, number: number): Promise<HostChangeRequest> {
    const path = projectPaths(repo)`/merge_requests/${number}`;
    return this.#client.call({ path }, (request) => changeRequestOf(repo, request));
  }

  async changeRequestsFrom(repo: RepoPath, branch: string): Promise<readonly HostChangeRequest[]> {
    const query = { state: 'opened', source_branch: branch };
    const found = await this.#list(repo, projectPaths(repo)`/merge_requests`, query);
    return found.filter((item) => item.branch === branch);
  }

  async openChangeRequest(repo: RepoPath, request: NewChangeRequest): Promise<HostChangeRequest> {
    const { branch, base, body, isDraft } = request;
    const title = `${isDraft ? 'Draft: ' : ''}${request.title}`.slice(0, limits.titleLength);
    const sent = { source_branch: branch, target_branch: base, title, description: withoutCommands(body) };
    const path = projectPaths(repo)`/merge_requests`;
    const opened = this.#client.call({ method: 'POST', path, body: sent }, (reply) =>
      changeRequestOf(repo, reply),
    );
    return orExisting(opened, 409, this, repo, request);
  }

  async threads(repo: RepoPath, number: number): Promise<readonly HostThread[]> {
    const path = projectPaths(repo)`/merge_requests/${number}/discussions`;
    const urlOf = this.#noteUrl(repo, { type: 'change-request', number });
    const read = (discussion: JsonReader) => threadOf(discussion, urlOf);
    const found = await this.#client.list({ path }, read, limits.threads);
    return found.flatMap((thread) => thread ?? []);
  }

  /** GitLab has no reviews, only what each reviewer thinks now; comments of one review are single comments. */
  async reviews(repo: RepoPath, number: number): Promise<readonly HostReview[]> {
    const at = projectPaths(repo);
    const [approvals, reviewers] = await Promise.all([
      orEmpty(this.#client.call({ path: at`/merge_requests/${number}/approvals` }, approvalsIn), 404),
      orEmpty(
        this.#client.list(
          { path: at`/merge_requests/${number}/reviewers` },
          reviewerOf,
          limits.changeRequests,
        ),
        404,
      ),
    ]);
    return [...approvals, ...reviewers.flatMap((review) => review ?? [])];
  }

  checks(repo: RepoPath, sha: string): Promise<readonly HostCheck[]> {
    return readChecks(this.#client, projectPaths(repo), sha);
  }

  endOfLog(repo: RepoPath, check: HostCheck, bytes: number): Promise<string> {
    return readEndOfLog(this.#client, projectPaths(repo), check, bytes);
  }

  /** A reply to a single comment makes it a thread. */
  reply(repo: RepoPath, number: number, thread: HostThread, body: string): Promise<Posted> {
    const path = projectPaths(repo)`/merge_requests/${number}/discussions/${thread.id}/notes`;
    return this.#post(repo, { type: 'change-request', number }, path, body);
  }

  async resolve(repo: RepoPath, number: number, thread: HostThread, resolved = true): Promise<void> {
    const path = projectPaths(repo)`/merge_requests/${number}/discussions/${thread.id}`;
    await this.#client.call({ method: 'PUT', path, body: { resolved } }, () => null);
  }

  comment(repo: RepoPath, subject: Subject, body: string): Promise<Posted> {
    return this.#post(repo, subject, `${subjectPath(repo, subject)}/notes`, body);
  }

  /** Replies in threads are among them. */
  async comments(repo: RepoPath, subject: Subject, since: string): Promise<readonly HostComment[]> {
    const urlOf = this.#noteUrl(repo, subject);
    const request = {
      path: `${subjectPath(repo, subject)}/notes`,
      query: { order_by: 'updated_at', sort: 'desc', activity_filter: 'only_comments' },
    };
    const read = (note: JsonReader) => (note.flag('system') ? null : commentOf(note, urlOf));
    const found = await this.#client.list(request, read, limits.notes);
    return found
      .flatMap((comment) => comment ?? [])
      .filter(({ updatedAt }) => Date.parse(updatedAt) >= Date.parse(since))
      .reverse();
  }

  triggersSince(repo: RepoPath, wanted: WantedTriggers, since: string): Promise<readonly FoundTrigger[]> {
    return readTriggers(this.#client, repo, wanted, since);
  }

  /** Any name goes with a token; this one goes with those of OAuth too. */
  async gitCredential(): Promise<GitCredential> {
    return { username: 'oauth2', password: this.#token, expiresAt: null };
  }

  #list(
    repo: RepoPath,
    path: string,
    query: Readonly<Record<string, string>>,
  ): Promise<readonly HostChangeRequest[]> {
    return this.#client.list({ path, query }, (item) => changeRequestOf(repo, item), limits.changeRequests);
  }

  #post(repo: RepoPath, subject: Subject, path: string, body: string): Promise<Posted> {
    const urlOf = this.#noteUrl(repo, subject);
    return this.#client.call({ method: 'POST', path, body: { body: withoutCommands(body) } }, (note) => {
      const id = note.number('id');
      return { id: String(id), url: urlOf(id) };
    });
  }

  /** The API does not send the addresses of comments. */
  #noteUrl(repo: RepoPath, { type, number }: Subject): (note: number) => string {
    const kind = type === 'issue' ? 'issues' : 'merge_requests';
    return (note) => `${this.#url}/${repo}/-/${kind}/${number}#note_${note}`;
  }
}

function permissionIn(member: JsonReader): Permission {
  const level = member.number('access_level');
  if ((member.textOrEmpty('state') || 'active') !== 'active' || level <= 0) return 'none';
  if (level >= roles.maintainer) return 'admin';
  return level >= roles.developer ? 'write' : 'read';
}

const subjectPath = (repo: RepoPath, { type, number }: Subject): string =>
  type === 'issue' ? projectPaths(repo)`/issues/${number}` : projectPaths(repo)`/merge_requests/${number}`;

const approvalsIn = (reply: JsonReader): readonly HostReview[] =>
  reply.list('approved_by').map((item) => reviewOf(item, 'APPROVED', item.textOrEmpty('approved_at')));

function reviewOf(item: JsonReader, verdict: HostReview['verdict'], submittedAt: string): HostReview {
  const author = personOf(item.object('user'));
  return { id: `${verdict.toLowerCase()}-${author.id}`, author, verdict, submittedAt };
}

function reviewerOf(reviewer: JsonReader): HostReview | null {
  const state = reviewer.textOrEmpty('state');
  const createdAt = reviewer.textOrEmpty('created_at');
  if (state === 'requested_changes') return reviewOf(reviewer, 'CHANGES_REQUESTED', createdAt);
  return state === 'reviewed' ? reviewOf(reviewer, 'COMMENTED', createdAt) : null;
}
