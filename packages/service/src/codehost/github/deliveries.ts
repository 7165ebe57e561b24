import { changeRequest, checks, ignored, mentionIn, subjectIn, triggerOn } from '../github-events.ts';
import type { DeliveryReader, HostEvent, Person, Trigger } from '../host.ts';
import { JsonReader } from '../json-reader.ts';
import { hmacCheck } from '../signatures.ts';
import { commentIds, personOf } from './rest.ts';

const signaturePattern = /^sha256=([0-9a-f]{64})$/i;

export const githubDeliveries: DeliveryReader = {
  /** The older SHA-1 signature is not accepted. */
  signature(headers, secrets) {
    const [, digits] = signaturePattern.exec(headers['x-hub-signature-256'] ?? '') ?? [];
    const usable = secrets.filter((secret) => secret !== '');
    if (digits === undefined) return null;
    return hmacCheck(usable, [Buffer.from(digits, 'hex')]);
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
    const mention =
      action === 'created'
        ? mentionIn(body, pull, 'change-request', {
            mention: mentionPattern,
            idOf: commentIds.line,
            personOf,
          })
        : null;
    return [ofPull(body), ...(mention ? [mention] : [])];
  },
  pull_request_review_thread: (body) => [ofPull(body)],
  issue_comment: (body, action) => {
    const issue = body.object('issue');
    const isPull = issue.find('pull_request') !== null;
    const type = isPull ? 'change-request' : 'issue';
    const mention =
      action === 'created'
        ? mentionIn(body, issue, type, { mention: mentionPattern, idOf: commentIds.conversation, personOf })
        : null;
    const events = [
      ...(isPull ? [changeRequest(body, issue.number('number'))] : []),
      ...(mention ? [mention] : []),
    ];
    return events.length > 0 ? events : [ignored('the comment on the issue mentions nobody')];
  },
  issues: (body, action) => {
    const found = triggers(body, action, body.object('issue'), 'issue');
    return found.length > 0
      ? found
      : [ignored(`the issue was ${action}; only a label, a mention or an assignment starts an agent`)];
  },
  check_run: (body, action) =>
    action === 'requested_action'
      ? [ignored('a button of a check was clicked')]
      : [checks(body, body.object('check_run').text('head_sha'))],
  check_suite: (body) => [checks(body, body.object('check_suite').text('head_sha'))],
  workflow_run: (body) => [checks(body, body.object('workflow_run').text('head_sha'))],
  status: (body) => [checks(body, body.text('sha'))],
};

/** Why other events are not used, by the beginning of their name; the first that matches. */
const unused: readonly (readonly [prefix: string, reason: string])[] = [
  ['ping', 'GitHub tested the webhook'],
  ['push', 'a push to a change request is also reported as pull_request.synchronize'],
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
  const trigger = triggerOn(body, subject, type, personOf(subject.find('user')));
  if (action === 'labeled') return [{ ...trigger, by: 'label', value: labelIn(body) }];
  if (action === 'assigned') return [{ ...trigger, by: 'assigned', value: assigneeIn(body, subject).login }];
  return action === 'opened' && mentionPattern.test(trigger.body) ? [trigger] : [];
}

/** Empty if the label was deleted meanwhile. */
const labelIn = (body: JsonReader): string => body.find('label')?.text('name') ?? '';

/** GitHub does not always send who was assigned; then it is the newest assignee. */
function assigneeIn(body: JsonReader, subject: JsonReader): Person {
  const assignee = body.find('assignee') ?? subject.list('assignees').at(-1) ?? null;
  return assignee === null ? { id: '', login: '' } : personOf(assignee);
}
