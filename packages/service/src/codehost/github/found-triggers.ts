import type { JsonReader } from '../../work/json-reader.ts';
import { happenedSince, type SubjectEvent } from '../found-triggers.ts';
import { listedSubject } from '../github-events.ts';
import { type Cause, type FoundTrigger, mostFound, type RepoPath, type WantedTriggers } from '../host.ts';
import type { GithubApi } from './api.ts';
import { personOf } from './rest.ts';

const mostEvents = 500;

/** Labels and assignments, by the events of issues and pull requests that have them now. */
export async function readTriggers(
  api: GithubApi,
  repo: RepoPath,
  { label, assignee }: WantedTriggers,
  since: string,
): Promise<FoundTrigger[]> {
  const search = async (filter: Readonly<Record<string, string>>, what: Cause) => {
    const query = { state: 'open', sort: 'updated', since, ...filter };
    const subjects = await api.list(
      repo,
      { path: api.in(repo)`/issues`, query },
      listedSubject(personOf),
      mostFound,
    );
    return happenedSince(subjects, since, what, async ({ number }) => {
      const path = api.in(repo)`/issues/${number}/events`;
      const events = await api.list(repo, { path }, (event) => eventOf(event, what), mostEvents);
      return events.flatMap((event) => event ?? []);
    });
  };
  return [
    ...(label ? await search({ labels: label }, { by: 'label', value: label }) : []),
    ...(assignee
      ? await search({ assignee: assignee.login }, { by: 'assigned', value: assignee.login })
      : []),
  ];
}

/** Null for another event. The actor of an assignment may be who was assigned; the assigner did it. */
function eventOf(event: JsonReader, { by, value }: Cause): SubjectEvent | null {
  const isWanted =
    by === 'label'
      ? event.text('event') === 'labeled' && event.find('label')?.text('name') === value
      : event.text('event') === 'assigned' && event.find('assignee')?.text('login') === value;
  if (!isWanted) return null;
  return {
    sender: personOf(event.find('assigner') ?? event.find('actor')),
    at: event.text('created_at'),
  };
}
