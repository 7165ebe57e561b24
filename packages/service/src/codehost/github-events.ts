import type { JsonReader } from '../work/json-reader.ts';
import {
  type Cause,
  commitName,
  type HostChangeRequest,
  type HostEvent,
  mostCauses,
  type Permission,
  type Person,
  permissions,
  type RepoPath,
  subjectName,
  type Trigger,
  type TriggerEvent,
  type TriggerSubject,
} from './host.ts';

/** Events in bodies of GitHub's form, which Forgejo and Gitea send too. */
const repoOf = (body: JsonReader): RepoPath => body.object('repository').text('full_name');

export const ignored = (reason: string): HostEvent => ({ type: 'ignored', reason });

export const changeRequest = (body: JsonReader, number: number): HostEvent => ({
  type: 'change-request',
  repo: repoOf(body),
  number,
});

export const checks = (body: JsonReader, sha: string): HostEvent => ({
  type: 'checks',
  repo: repoOf(body),
  sha,
});

/** Of a comment on a line. */
export function hunkOf(comment: JsonReader): { readonly hunk?: string } {
  const hunk = comment.textOrEmpty('diff_hunk');
  return hunk === '' ? {} : { hunk };
}

/** A push to a branch. */
export const branchEvent = (repo: RepoPath, ref: string): HostEvent =>
  ref.startsWith(branchPrefix)
    ? { type: 'branch', repo, branch: ref.slice(branchPrefix.length) }
    : ignored('the push is not to a branch');

const branchPrefix = 'refs/heads/';

export const pushIn = (body: JsonReader): HostEvent => branchEvent(repoOf(body), body.text('ref'));

/** What a body with these events is about. */
export function subjectIn(body: JsonReader, events: readonly HostEvent[]): string {
  const commit = events.find((event) => event.type === 'checks');
  if (commit) return commitName(commit.repo, commit.sha);
  const pushed = events.find((event) => event.type === 'branch');
  if (pushed) return commitName(pushed.repo, body.textOrEmpty('after'));
  const subject = body.find('pull_request') ?? body.find('issue');
  return subject ? subjectName(repoOf(body), subject.number('number')) : '';
}

const mention: Cause = { by: 'mention', value: '' };

/** What may ask for an agent in the body of an issue or pull request; a mention if its text matches. */
export function triggersOn(
  body: JsonReader,
  subject: JsonReader,
  type: Trigger['subject']['type'],
  author: Person,
  causes: readonly Cause[],
  mentioned?: RegExp,
): TriggerEvent[] {
  const found = subjectOf(subject, type, author);
  const all = [...causes.slice(0, mostCauses), ...(mentioned?.test(found.body) ? [mention] : [])];
  return all.length === 0 ? [] : [{ type: 'trigger', repo: repoOf(body), causes: all, ...found }];
}

const subjectOf = (
  subject: JsonReader,
  type: Trigger['subject']['type'],
  author: Person,
): TriggerSubject => ({
  subject: { type, number: subject.number('number') },
  title: subject.text('title'),
  body: subject.textOrEmpty('body'),
  author,
  url: subject.url('html_url'),
  updatedAt: subject.textOrEmpty('updated_at'),
  ...(subject.textOrEmpty('state') === 'closed' && { isClosed: true }),
  comment: null,
});

/** How a host writes what its comments have. */
interface CommentForm {
  readonly mention: RegExp;
  readonly idOf: (id: number) => string;
  readonly personOf: (user: JsonReader | null) => Person;
}

/** A new comment that mentions somebody; whether it is the integration depends on the account that it uses. */
export function mentionIn(
  body: JsonReader,
  subject: JsonReader,
  type: Trigger['subject']['type'],
  action: string,
  form: CommentForm,
): HostEvent[] {
  const comment = body.object('comment');
  const text = comment.textOrEmpty('body');
  if (action !== 'created' || !form.mention.test(text)) return [];
  return [
    {
      ...{ type: 'trigger', repo: repoOf(body), causes: [mention] },
      ...subjectOf(subject, type, form.personOf(subject.find('user'))),
      comment: { id: form.idOf(comment.number('id')), body: text, url: comment.url('html_url') },
    },
  ];
}

/** A comment on an issue, or on a pull request as a whole, which has the form of an issue there. */
export function commentOn(
  body: JsonReader,
  isPull: boolean,
  action: string,
  form: CommentForm,
): readonly HostEvent[] {
  const issue = body.object('issue');
  const events = [
    ...(isPull ? [changeRequest(body, issue.number('number'))] : []),
    ...mentionIn(body, issue, isPull ? 'change-request' : 'issue', action, form),
  ];
  return events.length > 0 ? events : [ignored('the comment on the issue mentions nobody')];
}

/** What an event of an issue triggers. */
export const orUnwanted = (triggers: readonly HostEvent[], action: string): readonly HostEvent[] =>
  triggers.length > 0
    ? triggers
    : [ignored(`the issue was ${action}; only a label, a mention or an assignment starts an agent`)];

/** A pull request; hosts differ in how they say the rest. */
export function pullRequestOf(
  pull: JsonReader,
  rest: Pick<HostChangeRequest, 'state' | 'author' | 'isFork' | 'hasConflict'>,
): HostChangeRequest {
  const [head, base] = [pull.object('head'), pull.object('base')];
  return {
    repo: base.object('repo').text('full_name'),
    number: pull.number('number'),
    url: pull.url('html_url'),
    title: pull.text('title'),
    branch: rest.isFork ? '' : head.text('ref'),
    base: base.text('ref'),
    headSha: head.text('sha'),
    updatedAt: pull.text('updated_at'),
    ...rest,
  };
}

/** By the login, which another account may have taken since: then it is that account's permission, and not theirs. */
export function permissionIn(reply: JsonReader, person: Person): Permission {
  const named = reply.text('permission');
  const given = (named === 'owner' ? 'admin' : named) as Permission;
  const isSame = String(reply.object('user').number('id')) === person.id;
  return isSame && permissions.includes(given) ? given : 'none';
}

/** An entry of a list of issues, which has pull requests too. */
export const listedSubject =
  (personOf: (user: JsonReader | null) => Person) =>
  (item: JsonReader): TriggerSubject => ({
    ...subjectOf(
      item,
      item.find('pull_request') === null ? 'issue' : 'change-request',
      personOf(item.find('user')),
    ),
    // Needed: text that was changed since may not count.
    updatedAt: item.text('updated_at'),
  });
