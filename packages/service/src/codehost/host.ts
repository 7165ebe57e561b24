import type { SignatureCheck } from '../deliveries/signatures.ts';
import type { Headers } from '../work/host-error.ts';

/**
 * What Muster needs of a code host, in words that fit all of them. Each host has a folder that implements `Host` and
 * `readDelivery`; where hosts differ, a capability says so.
 */

export const hostTypes = ['github', 'gitlab', 'forgejo'] as const;
export type HostType = (typeof hostTypes)[number];

/** A repository by its full path, such as `team/project`; GitLab's may have more parts. */
export type RepoPath = string;

/** What a person may do in a repository, by the host's own answer. An error is `none`. */
export const permissions = ['none', 'read', 'write', 'admin'] as const;
export type Permission = (typeof permissions)[number];

export interface Person {
  /** The host's number of the account: names can be changed and taken over. */
  readonly id: string;
  readonly login: string;
}

export interface Capabilities {
  /** A thread can be marked as resolved. */
  readonly resolvesThreads: boolean;
  /** A reply can be added to a thread; otherwise it becomes a comment that quotes it. */
  readonly repliesToThreads: boolean;
  /** A delivery says which label was added, or who was assigned; otherwise it has all of them. */
  readonly namesAdditions: boolean;
  /** The end of a check's log can be read. */
  readonly readsLogs: boolean;
}

export interface HostChangeRequest {
  readonly repo: RepoPath;
  readonly number: number;
  readonly url: string;
  readonly title: string;
  readonly state: 'OPEN' | 'DRAFT' | 'MERGED' | 'CLOSED';
  readonly author: Person;
  /** Of the head; empty for a fork. */
  readonly branch: string;
  readonly base: string;
  readonly headSha: string;
  /** The head is in another repository. */
  readonly isFork: boolean;
  /** Null while the host computes it. */
  readonly hasConflict: boolean | null;
  readonly updatedAt: string;
}

export interface HostComment {
  readonly id: string;
  readonly author: Person;
  readonly body: string;
  readonly url: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** The review that it was submitted with; empty for a single comment. */
  readonly reviewId: string;
  /** The lines of the diff up to the one that it is on, if the host sends them. */
  readonly hunk?: string;
}

/**
 * A thread on a line, or with an empty path one that belongs to the change request as a whole: a comment in its
 * conversation, or the text of a review.
 */
export interface HostThread {
  readonly id: string;
  readonly path: string;
  readonly line: number | null;
  readonly startLine: number | null;
  /** The version that the line is in. */
  readonly side: 'OLD' | 'NEW';
  readonly isResolved: boolean;
  readonly canResolve: boolean;
  /** A later push has changed the line; the number is that of the commit that was commented on. */
  readonly isOutdated?: true;
  /** Oldest first. */
  readonly comments: readonly HostComment[];
}

export interface HostReview {
  readonly id: string;
  readonly author: Person;
  readonly verdict: 'APPROVED' | 'CHANGES_REQUESTED' | 'COMMENTED';
  readonly submittedAt: string;
}

export interface HostCheck {
  /** Empty if it has no log that can be read. */
  readonly id: string;
  readonly name: string;
  readonly state: 'PENDING' | 'PASSED' | 'FAILED' | 'SKIPPED';
  readonly url: string;
  /** What the check reports in a few words. */
  readonly summary: string;
  readonly annotations: readonly { readonly path: string; readonly line: number; readonly message: string }[];
}

/** One line of `integration test`: what was asked of the host, and what is missing. */
export interface HostRequirement {
  readonly name: string;
  readonly isMet: boolean;
  /** What to change, if it is not met. */
  readonly advice: string;
}

export interface Posted {
  readonly id: string;
  readonly url: string;
}

export interface NewChangeRequest {
  readonly branch: string;
  readonly base: string;
  readonly title: string;
  readonly body: string;
  readonly isDraft: boolean;
}

export interface GitCredential {
  readonly username: string;
  readonly password: string;
  /** Null if it does not expire. */
  readonly expiresAt: string | null;
}

/**
 * The calls to one host with one credential. Each rejects with a `HostError` and is limited by the time that its signal
 * allows. Lists are complete, up to `limits` of the file that implements them.
 */
export interface Host {
  readonly capabilities: Capabilities;
  /** The account that the credential belongs to: what it posts has this author. */
  self(): Promise<Person>;
  requirements(repo: RepoPath): Promise<readonly HostRequirement[]>;
  /** The repositories that the credential reaches, for `integration test`; at most a hundred. */
  repositories(): Promise<readonly RepoPath[]>;
  /** The path that a repository has now: hosts redirect from an earlier one, and ignore its case. */
  path(repo: RepoPath): Promise<RepoPath>;
  permissionOf(repo: RepoPath, person: Person): Promise<Permission>;
  /** The account with this number, where deliveries have only that. */
  account?(id: string): Promise<Person>;
  defaultBranch(repo: RepoPath): Promise<string>;
  changeRequest(repo: RepoPath, number: number): Promise<HostChangeRequest>;
  /** The open ones from this branch of the repository itself. */
  changeRequestsFrom(repo: RepoPath, branch: string): Promise<readonly HostChangeRequest[]>;
  openChangeRequest(repo: RepoPath, request: NewChangeRequest): Promise<HostChangeRequest>;
  threads(repo: RepoPath, number: number): Promise<readonly HostThread[]>;
  reviews(repo: RepoPath, number: number): Promise<readonly HostReview[]>;
  checks(repo: RepoPath, sha: string): Promise<readonly HostCheck[]>;
  /** The last bytes of a failed check's log; empty if there is none. */
  endOfLog(repo: RepoPath, check: HostCheck, bytes: number): Promise<string>;
  /** Adds a reply to a thread of a change request. */
  reply(repo: RepoPath, number: number, thread: HostThread, body: string): Promise<Posted>;
  /** Resolves a thread, or opens it again. */
  resolve(repo: RepoPath, number: number, thread: HostThread, isResolved?: boolean): Promise<void>;
  /** Comments on an issue or a change request as a whole. */
  comment(repo: RepoPath, subject: Subject, body: string): Promise<Posted>;
  /** The comments on an issue or change request as a whole since then, to find one that may have been posted. */
  comments(repo: RepoPath, subject: Subject, since: string): Promise<readonly HostComment[]>;
  /**
   * Open issues and change requests that got the label, or were assigned to the account, since then; at most
   * `mostFound` of each. Without a label or an account, that search is skipped.
   */
  triggersSince(repo: RepoPath, wanted: WantedTriggers, since: string): Promise<readonly FoundTrigger[]>;
  /**
   * A credential for git over HTTPS, valid for this repository and for longer than a clone or push may take. That of an
   * App is valid for this repository only. `isRefused`: the host did not accept the last one, so another one is made if
   * possible.
   */
  gitCredential(repo: RepoPath, isRefused?: boolean): Promise<GitCredential>;
}

export interface Subject {
  readonly type: 'issue' | 'change-request';
  readonly number: number;
}

/** What a host's webhook says happened. Everything else is asked of the host itself. */
export type HostEvent =
  /** Something about a change request: opened, pushed to, merged, reviewed, commented on, a thread resolved. */
  | { readonly type: 'change-request'; readonly repo: RepoPath; readonly number: number }
  /** Checks of a commit. */
  | { readonly type: 'checks'; readonly repo: RepoPath; readonly sha: string }
  /** A branch was pushed to, which may be the base of change requests. */
  | { readonly type: 'branch'; readonly repo: RepoPath; readonly branch: string }
  /** Somebody may ask for an agent. One event for all reasons of a delivery: it has the text of the subject. */
  | TriggerEvent
  | { readonly type: 'ignored'; readonly reason: string };

export interface Cause {
  readonly by: 'label' | 'assigned' | 'mention';
  /** The label that was added, the login that was assigned; empty for a mention. */
  readonly value: string;
}

/** Of one delivery; hosts allow fewer labels and assignees. */
export const mostCauses = 200;

export interface TriggerEvent extends TriggerSubject {
  readonly type: 'trigger';
  readonly repo: RepoPath;
  readonly causes: readonly Cause[];
}

export interface Trigger extends TriggerSubject, Cause {}

/** The issue or change request for which an agent is asked. */
export interface TriggerSubject {
  readonly subject: Subject;
  /** As it was when this happened. It is not read again, because it may have changed since. */
  readonly title: string;
  readonly body: string;
  readonly author: Person;
  readonly url: string;
  /** When it was changed last; empty if the host does not say. */
  readonly updatedAt: string;
  /** It was closed or merged when this happened. */
  readonly isClosed?: true;
  /** The comment with the mention. */
  readonly comment: { readonly id: string; readonly body: string; readonly url: string } | null;
}

export interface WantedTriggers {
  readonly label: string;
  readonly assignee: Person | null;
}

/** A trigger as the lists of a host show it, without a delivery. */
export interface FoundTrigger extends Trigger {
  readonly sender: Person;
  /** When it happened. The text of the issue is that of now. */
  readonly at: string;
}

export const mostFound = 100;

/** How people write an issue or change request, or a commit. GitLab numbers merge requests apart, as `!1`. */
export const subjectName = (repo: RepoPath, number: number, mark: '#' | '!' = '#'): string =>
  `${repo}${mark}${number}`;
export const commitName = (repo: RepoPath, sha: string): string => `${repo}@${sha.slice(0, 10)}`;

export interface Delivery {
  /** The host's id of it, the same when it is sent again. */
  readonly id: string;
  /** As the host names it, such as `pull_request.opened`. */
  readonly event: string;
  /** The issue, change request or commit that it is about, for people; empty if it is about something else. */
  readonly subject: string;
  /** Who caused it; null if the host does not say. */
  readonly sender: Person | null;
  /** Whether it reports what the sender wrote: a comment, or a review. */
  readonly isWritten: boolean;
  /** Ids of comments that it is about: the integration's own are known by them. */
  readonly commentIds: readonly string[];
  readonly events: readonly HostEvent[];
}

/** What receives the deliveries of one type of host. Header names are in lower case. */
export interface DeliveryReader {
  /** Null if the headers have no signature that could be right. */
  signature(headers: Headers, secrets: readonly string[]): SignatureCheck | null;
  /** The delivery's id and event; before the body is read, except where only a digest of it identifies the delivery. */
  identify(headers: Headers, digest: string): { readonly id: string; readonly event: string };
  /** Reads a body whose signature was right. Throws a `TypeError` on one that is not what the host documents. */
  read(headers: Headers, body: Readonly<Record<string, unknown>>): Omit<Delivery, 'id'>;
}
