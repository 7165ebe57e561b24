import { commitName, type HostEvent, type Person, type RepoPath, subjectName, type Trigger } from './host.ts';
import type { JsonReader } from './json-reader.ts';

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

/** What a body with these events is about. */
export function subjectIn(body: JsonReader, events: readonly HostEvent[]): string {
  const commit = events.find((event) => event.type === 'checks');
  if (commit) return commitName(commit.repo, commit.sha);
  const subject = body.find('pull_request') ?? body.find('issue');
  return subject ? subjectName(repoOf(body), subject.number('number')) : '';
}

/** A mention in the text of an issue or pull request; with other fields, another trigger. */
export const triggerOn = (
  body: JsonReader,
  subject: JsonReader,
  type: Trigger['subject']['type'],
  author: Person,
): HostEvent & { readonly type: 'trigger' } => ({
  type: 'trigger',
  repo: repoOf(body),
  ...triggerFrom(subject, type, author),
});

const triggerFrom = (subject: JsonReader, type: Trigger['subject']['type'], author: Person): Trigger => ({
  subject: { type, number: subject.number('number') },
  by: 'mention',
  value: '',
  title: subject.text('title'),
  body: subject.textOrEmpty('body'),
  author,
  url: subject.text('html_url'),
  updatedAt: subject.textOrEmpty('updated_at'),
  comment: null,
});

/** A comment that mentions somebody; whether it is the integration depends on the account that it uses. */
export function mentionIn(
  body: JsonReader,
  subject: JsonReader,
  type: Trigger['subject']['type'],
  host: {
    readonly mention: RegExp;
    readonly idOf: (id: number) => string;
    readonly personOf: (user: JsonReader | null) => Person;
  },
): HostEvent | null {
  const comment = body.object('comment');
  const text = comment.textOrEmpty('body');
  if (!host.mention.test(text)) return null;
  return {
    ...triggerOn(body, subject, type, host.personOf(subject.find('user'))),
    comment: { id: host.idOf(comment.number('id')), body: text, url: comment.text('html_url') },
  };
}

/** An entry of a list of issues, which has pull requests too. */
export const listedSubject =
  (personOf: (user: JsonReader | null) => Person) =>
  (item: JsonReader): Trigger => ({
    ...triggerFrom(
      item,
      item.find('pull_request') === null ? 'issue' : 'change-request',
      personOf(item.find('user')),
    ),
    // Needed: text that was changed since may not count.
    updatedAt: item.text('updated_at'),
  });
