import { hash } from 'node:crypto';
import { keyPrefix, standardCheck, tokenCheck } from '../../deliveries/signatures.ts';
import { JsonReader } from '../../work/json-reader.ts';
import { branchEvent } from '../github-events.ts';
import {
  type Cause,
  commitName,
  type DeliveryReader,
  type HostEvent,
  mostCauses,
  type Person,
  subjectName,
  type Trigger,
  type TriggerEvent,
} from '../host.ts';

export const gitlabDeliveries: DeliveryReader = {
  /** GitLab signs as Standard Webhooks describes it, or sends the secret itself. A signature is never ignored. */
  signature(headers, secrets) {
    const keys = secrets.filter((secret) => secret.startsWith(keyPrefix) && secret.length > keyPrefix.length);
    const tokens = secrets.filter((secret) => !secret.startsWith(keyPrefix));
    return headers['webhook-signature'] === undefined
      ? tokenCheck(headers['x-gitlab-token'] ?? '', tokens)
      : standardCheck(headers, keys);
  },

  identify(headers, digest) {
    const event = headers['x-gitlab-event'] ?? '';
    const ids = [headers['webhook-id'], headers['idempotency-key']];
    const id = ids.find((value) => value !== undefined && /^[\w-]{1,100}$/.test(value));
    return { id: id ?? hash('sha256', `${event}\n${digest}`), event };
  },

  read(headers, body) {
    const reader = new JsonReader(body);
    const kind = reader.textOrEmpty('object_kind') || (headers['x-gitlab-event'] ?? '');
    const read = Object.hasOwn(readers, kind) ? readers[kind] : undefined;
    const attributes = reader.find('object_attributes');
    const action = (attributes ?? reader).textOrEmpty('action');
    const events = read
      ? read(reader, reader.object('object_attributes'))
      : [
          kind === 'push'
            ? branchEvent(repoOf(reader), reader.text('ref'))
            : ignored(unused[kind] ?? notUsed),
        ];
    return {
      event: action ? `${kind}.${action}` : kind,
      subject: read ? subjectIn(reader, kind, events) : '',
      sender: senderOf(reader, kind, attributes),
      isWritten: kind === 'note',
      commentIds: kind === 'note' ? [String(reader.object('object_attributes').number('id'))] : [],
      events,
    };
  },
};

type Read = (body: JsonReader, attributes: JsonReader) => readonly HostEvent[];

const readers: Readonly<Record<string, Read>> = {
  merge_request: (body, attributes) => [
    changeRequest(body, attributes.number('iid')),
    ...triggers(body, attributes, 'change-request'),
  ],
  issue: (body, attributes) => {
    const found = triggers(body, attributes, 'issue');
    return found.length > 0 ? found : [ignored('the change to the issue starts nothing')];
  },
  note: (body, attributes) => {
    if (attributes.flag('system')) return [ignored('GitLab wrote the comment')];
    const on = attributes.text('noteable_type');
    if (on !== 'MergeRequest' && on !== 'Issue')
      return [ignored('the comment is neither on a merge request nor on an issue')];
    const type = on === 'Issue' ? 'issue' : 'change-request';
    const subject = body.object(on === 'Issue' ? 'issue' : 'merge_request');
    const isNew = (attributes.textOrEmpty('action') || 'create') === 'create';
    const mention = isNew ? mentionIn(body, attributes, subject, type) : null;
    const events = [
      ...(type === 'issue' ? [] : [changeRequest(body, subject.number('iid'))]),
      ...(mention ? [mention] : []),
    ];
    return events.length > 0 ? events : [ignored('the comment on the issue mentions nobody')];
  },
  pipeline: (body, attributes) => {
    // The commit of a pipeline for the merged result is not the head of the merge request.
    const request = body.find('merge_request');
    return [
      { type: 'checks', repo: repoOf(body), sha: attributes.text('sha') },
      ...(request ? [changeRequest(body, request.number('iid'))] : []),
    ];
  },
};

const notUsed = 'it is not about a merge request, its checks, or an issue';
const unused: Readonly<Record<string, string>> = {
  build: 'a job is also reported with its pipeline',
};

const ignored = (reason: string): HostEvent => ({ type: 'ignored', reason });

const repoOf = (body: JsonReader): string => body.object('project').text('path_with_namespace');

const changeRequest = (body: JsonReader, number: number): HostEvent => ({
  type: 'change-request',
  repo: repoOf(body),
  number,
});

function subjectIn(body: JsonReader, kind: string, events: readonly HostEvent[]): string {
  const itself = body.object('object_attributes');
  const request = kind === 'merge_request' ? itself : body.find('merge_request');
  if (request) return subjectName(repoOf(body), request.number('iid'), '!');
  const issue = kind === 'issue' ? itself : body.find('issue');
  if (issue) return subjectName(repoOf(body), issue.number('iid'));
  const commit = events.find((event) => event.type === 'checks');
  return commit ? commitName(commit.repo, commit.sha) : '';
}

/** Who caused a delivery. Older versions send only the name; then the author of a comment is known by its number. */
function senderOf(body: JsonReader, kind: string, attributes: JsonReader | null): Person | null {
  const user = body.find('user');
  const author = kind === 'note' ? attributes?.numberOrNull('author_id') : null;
  const id = user?.numberOrNull('id') ?? author ?? null;
  return user === null || id === null ? null : { id: String(id), login: user.text('username') };
}

/** Labels and assignments, which a new issue may have from the start, and a mention in its text. */
function triggers(body: JsonReader, subject: JsonReader, type: Trigger['subject']['type']): HostEvent[] {
  const isNew = subject.textOrEmpty('action') === 'open';
  const added = (field: string, name: string): string[] => {
    const namesOf = (list: readonly JsonReader[]) => list.map((item) => item.text(name));
    if (isNew) return namesOf(body.list(field));
    const change = body.find('changes')?.find(field);
    if (!change) return [];
    const before = new Set(namesOf(change.list('previous')));
    return namesOf(change.list('current')).filter((value) => !before.has(value));
  };
  const causes = [
    ...added('labels', 'title').map((value): Cause => ({ by: 'label', value })),
    ...added('assignees', 'username').map((value): Cause => ({ by: 'assigned', value })),
  ].slice(0, mostCauses);
  const isMentioned = isNew && mentionsSomebody(subject.textOrEmpty('description'));
  const all = [...causes, ...(isMentioned ? [mention] : [])];
  return all.length === 0 ? [] : [triggerOn(body, subject, type, all)];
}

const mention: Cause = { by: 'mention', value: '' };

function mentionIn(
  body: JsonReader,
  note: JsonReader,
  subject: JsonReader,
  type: Trigger['subject']['type'],
): HostEvent | null {
  const text = note.textOrEmpty('note');
  if (!mentionsSomebody(text)) return null;
  const url = note.url('url');
  return {
    ...triggerOn(body, subject, type, [mention]),
    url: url.split('#')[0] ?? '',
    comment: { id: String(note.number('id')), body: text, url },
  };
}

/** Whether it is the integration that is mentioned depends on the account that it uses. */
const mentionsSomebody = (text: string): boolean => /@[a-z\d_]/i.test(text);

function triggerOn(
  body: JsonReader,
  subject: JsonReader,
  type: Trigger['subject']['type'],
  causes: readonly Cause[],
): TriggerEvent {
  // Only the number of the author is sent; the name is known if it is also who caused the delivery.
  const author = subject.number('author_id');
  const user = body.find('user');
  return {
    type: 'trigger',
    repo: repoOf(body),
    causes,
    subject: { type, number: subject.number('iid') },
    title: subject.text('title'),
    body: subject.textOrEmpty('description'),
    author: { id: String(author), login: user?.numberOrNull('id') === author ? user.text('username') : '' },
    url: subject.url('url'),
    updatedAt: subject.textOrEmpty('updated_at'),
    ...(['closed', 'merged'].includes(subject.textOrEmpty('state')) && { isClosed: true }),
    comment: null,
  };
}
