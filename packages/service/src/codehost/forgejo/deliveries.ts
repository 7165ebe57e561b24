import { changeRequest, checks, ignored, mentionIn, subjectIn, triggerOn } from '../github-events.ts';
import type { DeliveryReader, Headers, HostEvent, Trigger } from '../host.ts';
import { JsonReader } from '../json-reader.ts';
import { hmacCheck } from '../signatures.ts';
import { personOf } from './bodies.ts';

/** Forgejo and Gitea send the same headers; Forgejo also under its own name. */
const header = (headers: Headers, name: string): string =>
  headers[`x-forgejo-${name}`] ?? headers[`x-gitea-${name}`] ?? '';

export const forgejoDeliveries: DeliveryReader = {
  /** Without a secret they send an empty signature, which is refused. */
  signature(headers, secrets) {
    const digits = header(headers, 'signature');
    if (!/^[0-9a-f]{64}$/i.test(digits)) return null;
    const usable = secrets.filter((secret) => secret !== '');
    return hmacCheck(usable, [Buffer.from(digits, 'hex')]);
  },

  identify(headers, digest) {
    const id = header(headers, 'delivery');
    return { id: /^[\w-]{1,100}$/.test(id) ? id : digest, event: header(headers, 'event') };
  },

  read(headers, body) {
    const name = header(headers, 'event');
    const reader = new JsonReader(body);
    const action = reader.textOrEmpty('action');
    const sender = reader.find('sender');
    const read = Object.hasOwn(readers, name) ? readers[name] : undefined;
    const events = read ? read(reader, action) : [ignored(unused[name] ?? notUsed)];
    return {
      event: action ? `${name}.${action}` : name,
      subject: read ? subjectIn(reader, events) : '',
      sender: sender && personOf(sender),
      isWritten: name === 'issue_comment' || reviews.includes(name),
      commentIds: name === 'issue_comment' ? [String(reader.object('comment').number('id'))] : [],
      events,
    };
  },
};

/** Somebody is mentioned. */
const mentionPattern = /@[a-z\d_]/i;

type Read = (body: JsonReader, action: string) => readonly HostEvent[];

const ofPull: Read = (body) => [changeRequest(body, body.object('pull_request').number('number'))];

/** A comment on a pull request as a whole is an issue_comment. */
const reviews = ['pull_request_approved', 'pull_request_rejected', 'pull_request_comment'];

const readers: Readonly<Record<string, Read>> = {
  pull_request: (body, action) => [
    ...ofPull(body, action),
    ...triggers(body, action, body.object('pull_request'), 'change-request'),
  ],
  ...Object.fromEntries(reviews.map((name) => [name, ofPull])),
  issue_comment: (body, action) => {
    const issue = body.object('issue');
    const isPull = body.flag('is_pull') || issue.find('pull_request') !== null;
    const type = isPull ? 'change-request' : 'issue';
    const mention =
      action === 'created'
        ? mentionIn(body, issue, type, { mention: mentionPattern, idOf: String, personOf })
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
  status: (body) => [checks(body, body.text('sha'))],
  workflow_run: (body) => [checks(body, body.object('workflow_run').text('head_sha'))],
  workflow_job: (body) => [checks(body, body.object('workflow_job').text('head_sha'))],
};

const notUsed = 'it is not about a pull request, its checks, or an issue';
const unused: Readonly<Record<string, string>> = {
  push: 'a push to a pull request is also reported as pull_request.synchronized',
};

/** Labels and assignments, which a new issue may have from the start, and a mention in its text. */
function triggers(
  body: JsonReader,
  action: string,
  subject: JsonReader,
  type: Trigger['subject']['type'],
): HostEvent[] {
  const trigger = triggerOn(body, subject, type, personOf(subject.find('user')));
  const isNew = action === 'opened';
  const labels = action === 'label_updated' || isNew ? addedLabels(body, subject) : [];
  const assigned = action === 'assigned' || isNew ? subject.list('assignees').map(personOf) : [];
  return [
    ...labels.map((value): HostEvent => ({ ...trigger, by: 'label', value })),
    ...assigned.map(({ login }): HostEvent => ({ ...trigger, by: 'assigned', value: login })),
    ...(isNew && mentionPattern.test(trigger.body) ? [trigger] : []),
  ];
}

/** Few versions say which label was added; for others it may be any that the issue has. */
function addedLabels(body: JsonReader, subject: JsonReader): string[] {
  const label = body.find('label');
  const added = label ? [label] : (body.find('changes')?.list('added_labels') ?? []);
  return (added.length > 0 ? added : subject.list('labels')).map((item) => item.text('name'));
}
