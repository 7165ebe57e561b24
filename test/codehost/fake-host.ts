import type { Host, HostType, Person, RepoPath, Subject } from '../../packages/service/src/codehost/host.ts';
import type { GitRemote } from '../support/git-remote.ts';
import type { DeliverySender } from './delivery-sender.ts';
import type { Faults } from './faults.ts';

/** Who acts at a code host. Only the first two may write to the repository. */
export const roles = ['maintainer', 'reviewer', 'stranger', 'bot'] as const;
export type Role = (typeof roles)[number];

export interface NewThread {
  readonly path: string;
  readonly line: number;
  readonly startLine?: number;
  readonly body: string;
}

export interface NewReview {
  readonly by: Role;
  readonly verdict: 'APPROVED' | 'CHANGES_REQUESTED' | 'COMMENTED';
  readonly body?: string;
  readonly threads: readonly NewThread[];
}

export interface NewCheck {
  readonly name: string;
  readonly state: 'PENDING' | 'PASSED' | 'FAILED' | 'SKIPPED';
  readonly summary?: string;
  readonly log?: string;
  /** The workflow that it belongs to, where the host has several with jobs of the same name. */
  readonly suite?: number;
  readonly annotations?: readonly {
    readonly path: string;
    readonly line: number;
    readonly message: string;
  }[];
}

export interface FakeThread {
  readonly id: string;
  /** Empty for a comment in the conversation. */
  readonly path: string;
  readonly isResolved: boolean;
  readonly comments: readonly { readonly author: string; readonly body: string }[];
}

/** A code host on this machine, with one repository `team/project`, driven by a test like people drive a real one. */
export interface FakeHost {
  readonly type: HostType;
  /** For the `url` of an integration. It is an inner address: list its host and port as allowed. */
  readonly url: string;
  readonly repo: RepoPath;
  readonly gitUrl: string;
  readonly remote: GitRemote;
  /** The token of the integration's account. */
  readonly token: string;
  readonly people: Readonly<Record<Role, Person>>;
  readonly faults: Faults;
  readonly deliveries: DeliverySender;
  /** The code that Muster uses to call it. */
  connect(options?: { readonly timeoutMs?: number }): Host;
  /** Signed with the secret from now on. */
  deliverTo(url: string, secret: string): Promise<void>;
  addIssue(by: Role, title: string, body: string): Promise<number>;
  label(subject: Subject, label: string, by: Role): Promise<void>;
  assign(subject: Subject, login: string, by: Role): Promise<void>;
  comment(subject: Subject, body: string, by: Role): Promise<void>;
  /** Opens a change request from a fork of the stranger's. */
  openFromFork(title: string): Promise<number>;
  /** Returns the ids of the threads. */
  review(number: number, review: NewReview): Promise<readonly string[]>;
  replyInThread(number: number, thread: string, body: string, by: Role): Promise<void>;
  setCheck(sha: string, check: NewCheck): Promise<void>;
  merge(number: number, by: Role): Promise<void>;
  close(number: number, by: Role): Promise<void>;
  /** The threads of a change request and the comments on it as a whole, oldest first. */
  threads(number: number): Promise<readonly FakeThread[]>;
  /** The comments on an issue or change request as a whole. */
  comments(subject: Subject): Promise<readonly { readonly author: string; readonly body: string }[]>;
  stop(): Promise<void>;
}
