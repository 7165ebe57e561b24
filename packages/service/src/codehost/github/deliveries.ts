import { hmacCheck } from '../../deliveries/signatures.ts';
import { JsonReader } from '../../work/json-reader.ts';
import {
  changeRequest,
  checks,
  commentOn,
  ignored,
  mentionIn,
  orUnwanted,
  pushIn,
  subjectIn,
  triggersOn,
} from '../github-events.ts';
import type { Cause, DeliveryReader, HostEvent, Person, Trigger } from '../host.ts';
import { commentIds, personOf } from './rest.ts';

const signaturePattern = /^sha256=([0-9a-f]{64})$/i;

export const githubDeliveries: DeliveryReader = {
  /** The older SHA-1 signature is not accepted. */
  signature(headers, secrets) {
    const [, digits] = signaturePattern.exec(headers['x-hub-signature-256'] ?? '') ?? [];
    return digits === undefined ? null : hmacCheck(secrets, [Buffer.from(digits, 'hex')]);
  },

  identify(headers, digest) {
    const id = headers['x-github-delivery'] ?? '';
    return {
      id: /^[\w-]{1,100}$/.test(id) ? id : digest,
      event: headers['x-github-event'] ?? '',
    };
  },

  read(headers, body) {
    const name = headers['x-github-event'] ?? '';
    const reader = new JsonReader(body);
    const action = reader.textOrEmpty('action');
    const sender = reader.find('sender');
    const events = eventsIn(name, action, reader);
    const written = commentsIn(name, reader);
    return {
      event: action ? `${name}.${action}` : name,
      subject: Object.hasOwn(readers, name) ? subjectIn(reader, events) : '',
      sender: sender && personOf(sender),
      isWritten: written.length > 0,
      commentIds: written,
      events,
    };
  },
};

function commentsIn(name: string, body: JsonReader): string[] {
  if (name === 'issue_comment') return [commentIds.conversation(body.object('comment').number('id'))];
  if (name === 'pull_request_review_comment') return [commentIds.line(body.object('comment').number('id'))];
  if (name === 'pull_request_review') return [commentIds.review(body.object('review').number('id'))];
  return [];
}

/** Somebody is mentioned. */
const mentionPattern = /@[a-z\d]/i;

type Read = (body: JsonReader, action: string) => readonly HostEvent[];

const readers: Readonly<Record<string, Read>> = {
  pull_request: (body, action) => {
    const pull = body.object('pull_request');
    return [changeRequest(body, pull.number('number')), ...triggers(body, action, pull, 'change-request')];
  },
  pull_request_review: (body) => [ofPull(body)],
  pull_request_review_comment: (body, action) => {
    const pull = body.object('pull_request');
    const form = { mention: mentionPattern, idOf: commentIds.line, personOf };
    return [ofPull(body), ...mentionIn(body, pull, 'change-request', action, form)];
  },
  pull_request_review_thread: (body) => [ofPull(body)],
  issue_comment: (body, action) => {
    const issue = body.object('issue');
    const form = { mention: mentionPattern, idOf: commentIds.conversation, personOf };
    return commentOn(body, issue.find('pull_request') !== null, action, form);
  },
  issues: (body, action) => orUnwanted(triggers(body, action, body.object('issue'), 'issue'), action),
  check_run: (body, action) =>
    action === 'requested_action'
      ? [ignored('a button of a check was clicked')]
      : [checks(body, body.object('check_run').text('head_sha'))],
  check_suite: (body) => [checks(body, body.object('check_suite').text('head_sha'))],
  workflow_run: (body) => [checks(body, body.object('workflow_run').text('head_sha'))],
  status: (body) => [checks(body, body.text('sha'))],
  push: (body) => [pushIn(body)],
};

/** Why other events are not used, by the beginning of their name; the first that matches. */
const unused: readonly (readonly [prefix: string, reason: string])[] = [
  ['ping', 'GitHub tested the webhook'],
  ['workflow_job', 'a job is also reported as check_run'],
  ['installation', 'installations are asked of GitHub when they are needed'],
  ['', 'it is not about a change request, its checks, or an issue'],
];

function eventsIn(name: string, action: string, body: JsonReader): readonly HostEvent[] {
  const read = Object.hasOwn(readers, name) ? readers[name] : undefined;
  if (read) return read(body, action);
  const [, reason = ''] = unused.find(([prefix]) => name.startsWith(prefix)) ?? [];
  return [ignored(reason)];
}

const ofPull = (body: JsonReader): HostEvent =>
  changeRequest(body, body.object('pull_request').number('number'));

/** A label, an assignment, or a mention in the text of a new issue or pull request. */
function triggers(
  body: JsonReader,
  action: string,
  subject: JsonReader,
  type: Trigger['subject']['type'],
): HostEvent[] {
  const causes: Cause[] =
    action === 'labeled'
      ? [{ by: 'label', value: labelIn(body) }]
      : action === 'assigned'
        ? [{ by: 'assigned', value: assigneeIn(body, subject).login }]
        : [];
  const mentioned = action === 'opened' ? mentionPattern : undefined;
  return triggersOn(body, subject, type, personOf(subject.find('user')), causes, mentioned);
}

/** Empty if the label was deleted meanwhile. */
const labelIn = (body: JsonReader): string => body.find('label')?.text('name') ?? '';

/** GitHub does not always send who was assigned; then it is the newest assignee. */
function assigneeIn(body: JsonReader, subject: JsonReader): Person {
  const assignee = body.find('assignee') ?? subject.list('assignees').at(-1) ?? null;
  return assignee === null ? { id: '', login: '' } : personOf(assignee);
}
