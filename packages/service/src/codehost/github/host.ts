import { permissionIn } from '../github-events.ts';
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
import { orExisting } from '../or-refusal.ts';
import { orNone } from '../people.ts';
import { GithubApi, type GithubOptions } from './api.ts';
import { changeRequestOf, reviewOf } from './change-requests.ts';
import { readChecks, readEndOfLog } from './checks.ts';
import { readTriggers } from './found-triggers.ts';
import { readRequirements } from './requirements.ts';
import {
  commentsPage,
  postComment,
  readConversation,
  readThreads,
  replyToThread,
  resolveThread,
} from './threads.ts';

const limits = { repositories: 100, changeRequests: 100, reviews: 1_000, titleLength: 256 };

/** GitHub, and GitHub Enterprise. */
export class GithubHost implements Host {
  readonly capabilities = {
    resolvesThreads: true,
    repliesToThreads: true,
    namesAdditions: true,
    readsLogs: true,
  };
  readonly #api: GithubApi;

  constructor(options: GithubOptions) {
    this.#api = new GithubApi(options);
  }

  self(): Promise<Person> {
    return this.#api.credential.self();
  }

  requirements(repo: RepoPath): Promise<readonly HostRequirement[]> {
    return readRequirements(this.#api, repo);
  }

  repositories(): Promise<readonly RepoPath[]> {
    return this.#api.credential.repositories(limits.repositories);
  }

  path(repo: RepoPath): Promise<RepoPath> {
    return this.#api.path(repo);
  }

  permissionOf(repo: RepoPath, person: Person): Promise<Permission> {
    const path = this.#api.in(repo)`/collaborators/${person.login}/permission`;
    return orNone(this.#api.call(repo, { path }, (reply) => permissionIn(reply, person)));
  }

  defaultBranch(repo: RepoPath): Promise<string> {
    return this.#api.call(repo, { path: this.#api.in(repo)`` }, (found) => found.text('default_branch'));
  }

  changeRequest(repo: RepoPath, number: number): Promise<HostChangeRequest> {
    return this.#api.call(repo, { path: this.#api.in(repo)`/pulls/${number}` }, changeRequestOf);
  }

  async changeRequestsFrom(repo: RepoPath, branch: string): Promise<readonly HostChangeRequest[]> {
    const head = `${repo.split('/')[0]}:${branch}`;
    const request = { path: this.#api.in(repo)`/pulls`, query: { state: 'open', head } };
    const found = await this.#api.list(repo, request, changeRequestOf, limits.changeRequests);
    return found.filter((item) => item.branch === branch);
  }

  async openChangeRequest(repo: RepoPath, request: NewChangeRequest): Promise<HostChangeRequest> {
    const { branch, base, body, isDraft } = request;
    const title = request.title.slice(0, limits.titleLength);
    const sent = { head: branch, base, title, body, draft: isDraft };
    const path = this.#api.in(repo)`/pulls`;
    const opened = this.#api.call(repo, { method: 'POST', path, body: sent }, changeRequestOf);
    return orExisting(opened, 422, this, repo, request);
  }

  threads(repo: RepoPath, number: number): Promise<readonly HostThread[]> {
    return readThreads(this.#api, repo, number);
  }

  async reviews(repo: RepoPath, number: number): Promise<readonly HostReview[]> {
    const path = this.#api.in(repo)`/pulls/${number}/reviews`;
    const found = await this.#api.list(repo, { path, query: commentsPage }, reviewOf, limits.reviews);
    return found.flatMap((review) => review ?? []);
  }

  checks(repo: RepoPath, sha: string): Promise<readonly HostCheck[]> {
    return readChecks(this.#api, repo, sha);
  }

  endOfLog(repo: RepoPath, check: HostCheck, bytes: number): Promise<string> {
    return readEndOfLog(this.#api, repo, check, bytes);
  }

  reply(repo: RepoPath, number: number, thread: HostThread, body: string): Promise<Posted> {
    return replyToThread(this.#api, repo, number, thread, body);
  }

  resolve(repo: RepoPath, _number: number, thread: HostThread, isResolved = true): Promise<void> {
    return resolveThread(this.#api, repo, thread, isResolved);
  }

  comment(repo: RepoPath, subject: Subject, body: string): Promise<Posted> {
    return postComment(this.#api, repo, subject.number, body);
  }

  async comments(repo: RepoPath, subject: Subject, since: string): Promise<readonly HostComment[]> {
    const found = await readConversation(this.#api, repo, subject.number, { since });
    return found.filter(({ updatedAt }) => Date.parse(updatedAt) >= Date.parse(since));
  }

  triggersSince(repo: RepoPath, wanted: WantedTriggers, since: string): Promise<readonly FoundTrigger[]> {
    return readTriggers(this.#api, repo, wanted, since);
  }

  gitCredential(repo: RepoPath, isRefused = false): Promise<GitCredential> {
    return this.#api.credential.gitCredential(repo, isRefused);
  }
}
