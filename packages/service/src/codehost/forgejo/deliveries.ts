import { hmacCheck } from '../../deliveries/signatures.ts';
import type { Headers } from '../../work/host-error.ts';
import { JsonReader } from '../../work/json-reader.ts';
import {
  changeRequest,
  checks,
  commentOn,
  ignored,
  orUnwanted,
  pushIn,
  subjectIn,
  triggersOn,
} from '../github-events.ts';
import type { Cause, DeliveryReader, HostEvent, Trigger } from '../host.ts';
import { personOf } from './bodies.ts';

/** Forgejo and Gitea send the same headers; Forgejo also under its own name. */
const header = (headers: Headers, name: string): string =>
  headers[`x-forgejo-${name}`] ?? headers[`x-gitea-${name}`] ?? '';

export const forgejoDeliveries: DeliveryReader = {
  /** Without a secret they send an empty signature, which is refused. */
  signature(headers, secrets) {
    const digits = header(headers, 'signature');
    if (!/^[0-9a-f]{64}$/i.test(digits)) return null;
    return hmacCheck(secrets, [Buffer.from(digits, 'hex')]);
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
    const events = read ? read(reader, action) : [ignored(notUsed)];
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

const ofActionRun: Read = (body) => {
  const run = body.object('run');
  const repository = run.find('repository') ?? body.object('repository');
  return [{ type: 'checks', repo: repository.text('full_name'), sha: run.text('commit_sha') }];
};

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
    return commentOn(body, isPull, action, { mention: mentionPattern, idOf: String, personOf });
  },
  issues: (body, action) => orUnwanted(triggers(body, action, body.object('issue'), 'issue'), action),
  status: (body) => [checks(body, body.text('sha'))],
  push: (body) => [pushIn(body)],
  workflow_run: (body) => [checks(body, body.object('workflow_run').text('head_sha'))],
  // Of Forgejo, for the last job of a run.
  ...Object.fromEntries(
    ['failure', 'recover', 'success'].map((result) => [`action_run_${result}`, ofActionRun]),
  ),
  workflow_job: (body) => [checks(body, body.object('workflow_job').text('head_sha'))],
};

const notUsed = 'it is not about a pull request, its checks, or an issue';
/** Labels and assignments, which a new issue may have from the start, and a mention in its text. */
function triggers(
  body: JsonReader,
  action: string,
  subject: JsonReader,
  type: Trigger['subject']['type'],
): HostEvent[] {
  const isNew = action === 'opened';
  const labels = action === 'label_updated' || isNew ? addedLabels(body, subject) : [];
  const assigned = action === 'assigned' || isNew ? subject.list('assignees').map(personOf) : [];
  const causes = [
    ...labels.map((value): Cause => ({ by: 'label', value })),
    ...assigned.map(({ login }): Cause => ({ by: 'assigned', value: login })),
  ];
  const mentioned = isNew ? mentionPattern : undefined;
  return triggersOn(body, subject, type, personOf(subject.find('user')), causes, mentioned);
}

/** Few versions say which label was added; for others it may be any that the issue has. */
function addedLabels(body: JsonReader, subject: JsonReader): string[] {
  const label = body.find('label');
  const added = label ? [label] : (body.find('changes')?.list('added_labels') ?? []);
  return (added.length > 0 ? added : subject.list('labels')).map((item) => item.text('name'));
}
