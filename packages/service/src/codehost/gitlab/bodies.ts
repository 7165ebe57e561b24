import type { JsonReader } from '../../work/json-reader.ts';
import type { HostChangeRequest, HostComment, HostThread, Person, RepoPath } from '../host.ts';

export const personOf = (user: JsonReader): Person => ({
  id: String(user.number('id')),
  login: user.text('username'),
});

export function changeRequestOf(repo: RepoPath, request: JsonReader): HostChangeRequest {
  // The project of the source is null once a fork was deleted.
  const isFork = request.numberOrNull('source_project_id') !== request.number('target_project_id');
  const state = stateOf(request);
  return {
    repo,
    number: request.number('iid'),
    url: request.url('web_url'),
    title: request.text('title'),
    state,
    author: personOf(request.object('author')),
    branch: isFork ? '' : request.text('source_branch'),
    base: request.text('target_branch'),
    headSha: request.textOrEmpty('sha'),
    isFork,
    hasConflict: state === 'OPEN' || state === 'DRAFT' ? conflictOf(request) : null,
    updatedAt: request.text('updated_at'),
  };
}

/** One that is being merged is `locked`. */
function stateOf(request: JsonReader): HostChangeRequest['state'] {
  const state = request.text('state');
  if (state === 'merged') return 'MERGED';
  if (state === 'closed') return 'CLOSED';
  return request.flag('draft') ? 'DRAFT' : 'OPEN';
}

const unchecked = [
  'unchecked',
  'checking',
  'preparing',
  'cannot_be_merged_recheck',
  'cannot_be_merged_rechecking',
];

function conflictOf(request: JsonReader): boolean | null {
  const statuses = [request.textOrEmpty('merge_status'), request.textOrEmpty('detailed_merge_status')];
  return statuses.some((status) => unchecked.includes(status)) ? null : request.flag('has_conflicts');
}

/** Null for a discussion that has nothing but what GitLab wrote itself. */
export function threadOf(discussion: JsonReader, urlOf: (note: number) => string): HostThread | null {
  const notes = discussion.list('notes').filter((note) => !note.flag('system'));
  const [first] = notes;
  if (!first) return null;
  const resolvable = notes.filter((note) => note.flag('resolvable'));
  return {
    id: discussion.text('id'),
    ...placeOf(first.find('position')),
    isResolved: resolvable.length > 0 && resolvable.every((note) => note.flag('resolved')),
    canResolve: resolvable.length > 0,
    comments: notes.map((note) => commentOf(note, urlOf)),
  };
}

export function commentOf(note: JsonReader, urlOf: (note: number) => string): HostComment {
  const id = note.number('id');
  return {
    id: String(id),
    author: personOf(note.object('author')),
    body: note.textOrEmpty('body'),
    url: urlOf(id),
    createdAt: note.text('created_at'),
    updatedAt: note.text('updated_at'),
    reviewId: '',
  };
}

type Place = Pick<HostThread, 'path' | 'line' | 'startLine' | 'side'>;

/** A line that only the old version has, has no number in the new one. */
function placeOf(position: JsonReader | null): Place {
  if (position === null) return { path: '', line: null, startLine: null, side: 'NEW' };
  const newLine = position.numberOrNull('new_line');
  const oldLine = position.numberOrNull('old_line');
  const isOld = newLine === null && oldLine !== null;
  const line = isOld ? oldLine : newLine;
  const start = position
    .find('line_range')
    ?.find('start')
    ?.numberOrNull(isOld ? 'old_line' : 'new_line');
  return {
    path: (isOld && position.textOrEmpty('old_path')) || position.textOrEmpty('new_path'),
    line,
    startLine: start === line ? null : (start ?? null),
    side: isOld ? 'OLD' : 'NEW',
  };
}

/**
 * A text without commands such as `/merge`: GitLab would run those at the beginning of a line as the integration, in
 * comments and in the description of a new merge request. It removes carriage returns before it looks for them.
 */
export const withoutCommands = (text: string): string =>
  text.replaceAll('\r', '').replace(/^([^\S\n]*)\/(?=[a-z_]+(?:\s|$))/gim, '$1\\/');
