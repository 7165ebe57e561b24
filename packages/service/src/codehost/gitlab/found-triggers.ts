import type { HttpClient } from '../../work/http-client.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import { happenedSince, type SubjectEvent } from '../found-triggers.ts';
import {
  type Cause,
  type FoundTrigger,
  mostFound,
  type RepoPath,
  type Trigger,
  type TriggerSubject,
  type WantedTriggers,
} from '../host.ts';
import { personOf } from './bodies.ts';
import { projectPaths } from './paths.ts';

const mostEvents = 500;

type Type = Trigger['subject']['type'];

/** Labels and assignments, by the events of issues and merge requests that have them now. */
export async function readTriggers(
  client: HttpClient,
  repo: RepoPath,
  { label, assignee }: WantedTriggers,
  since: string,
): Promise<FoundTrigger[]> {
  const at = projectPaths(repo);
  const search = async (type: Type, filter: Readonly<Record<string, string>>, what: Cause) => {
    const query = { state: 'opened', scope: 'all', order_by: 'updated_at', updated_after: since, ...filter };
    const path = type === 'issue' ? at`/issues` : at`/merge_requests`;
    const read = (item: JsonReader) => subjectOf(item, type);
    const subjects = await client.list({ path, query }, read, mostFound);
    return happenedSince(subjects, since, what, ({ number }) => {
      const subject = type === 'issue' ? at`/issues/${number}` : at`/merge_requests/${number}`;
      return what.by === 'label'
        ? readLabels(client, subject, what.value)
        : readAssignments(client, subject, what.value);
    });
  };
  const found: FoundTrigger[] = [];
  for (const type of ['issue', 'change-request'] as const) {
    if (label) found.push(...(await search(type, { labels: label }, { by: 'label', value: label })));
    if (!assignee) continue;
    const what = { by: 'assigned', value: assignee.login } as const;
    found.push(...(await search(type, { assignee_id: assignee.id }, what)));
  }
  return found;
}

const subjectOf = (item: JsonReader, type: Type): TriggerSubject => ({
  subject: { type, number: item.number('iid') },
  title: item.text('title'),
  body: item.textOrEmpty('description'),
  author: personOf(item.object('author')),
  url: item.url('web_url'),
  updatedAt: item.text('updated_at'),
  comment: null,
});

async function readLabels(client: HttpClient, subject: string, label: string): Promise<SubjectEvent[]> {
  const read = (event: JsonReader): SubjectEvent[] =>
    event.text('action') === 'add' && event.find('label')?.text('name') === label
      ? [{ sender: personOf(event.object('user')), at: event.text('created_at') }]
      : [];
  return (await client.list({ path: `${subject}/resource_label_events` }, read, mostEvents)).flat();
}

/** GitLab has no events for them: it writes a comment such as `assigned to @a and @b and unassigned @c`. */
async function readAssignments(client: HttpClient, subject: string, login: string): Promise<SubjectEvent[]> {
  const read = (note: JsonReader): SubjectEvent[] => {
    const [, assigned = ''] =
      /^assigned to (.*?)(?: and unassigned .*)?$/s.exec(note.textOrEmpty('body')) ?? [];
    const isWanted = note.flag('system') && assigned.split(/[\s,]+/).includes(`@${login}`);
    return isWanted ? [{ sender: personOf(note.object('author')), at: note.text('created_at') }] : [];
  };
  const query = { order_by: 'created_at', sort: 'desc', activity_filter: 'only_activity' };
  return (await client.list({ path: `${subject}/notes`, query }, read, mostEvents)).flat();
}
