import { hash } from 'node:crypto';
import { setImmediate as immediate } from 'node:timers/promises';
import type { ThreadComments } from '../domain/thread.ts';
import { cutMarkdown, lastLines, oneLine } from '../lib/quoting/quote.ts';
import type { ChangeRequestRow } from '../store/statements/change-requests.ts';
import type { HostChangeRequest, HostComment, HostThread, Permission } from './host.ts';
import { type HeardThread, toldCommentBytes } from './news.ts';

/** New comments of a change request, as the message to the agent has them. */
export async function threadsToTell(
  row: ChangeRequestRow,
  request: HostChangeRequest,
  news: readonly HeardThread[],
): Promise<ThreadComments[]> {
  const threads: ThreadComments[] = [];
  for (const { thread, comments, permissionOf } of news) {
    const shown: ThreadComments['comments'][number][] = [];
    for (const comment of comments) {
      shown.push(commentOf(comment, permissionOf));
      // The search for hidden markup takes long in the worst texts: others have their turn in between.
      await immediate();
    }
    threads.push({
      id: threadIdOf(row, thread.id),
      place: {
        repo: row.repo_url,
        path: oneLine(thread.path, 4096),
        line: thread.line ?? 0,
        startLine: thread.startLine ?? thread.line ?? 0,
        side: thread.side,
        quote: commentedLines(thread),
        changeRequest: row.name,
        hostId: thread.id,
        url: thread.comments[0]?.url ?? request.url,
      },
      comments: shown,
    });
  }
  return threads;
}

const mostCommented = { lines: 10, characters: 200 };

/** The lines that a thread is on, without the marks of the diff. */
function commentedLines({ line, startLine, isOutdated, comments }: HostThread): string {
  const count = Math.min(1 + (line ?? 0) - (startLine ?? line ?? 0), mostCommented.lines);
  const hunk = lastLines(comments[0]?.hunk ?? '', Math.max(count, 1), mostCommented.characters);
  const lines = hunk.filter((text) => text !== '' && !text.startsWith('@@')).map((text) => text.slice(1));
  return [...(isOutdated ? ['(A later push changed this place. It was:)'] : []), ...lines].join('\n');
}

/** The id of a thread in the ledger: the same whenever it is read. */
function threadIdOf({ tenant, name }: ChangeRequestRow, hostId: string): string {
  const digits = hash('sha256', JSON.stringify([tenant, name, hostId]), 'hex');
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-8${digits.slice(13, 16)}-a${digits.slice(17, 20)}-${digits.slice(20, 32)}`;
}

const commentOf = (comment: HostComment, permissionOf: ReadonlyMap<string, Permission>) => ({
  author: oneLine(comment.author.login, 100),
  kind: 'PERSON' as const,
  permission: permissionOf.get(comment.author.id) ?? 'none',
  body: cutMarkdown(comment.body, toldCommentBytes),
  at: timeOf(comment.createdAt),
  url: comment.url,
  hostId: comment.id,
});

/** A time that the database accepts, whatever the host sent. */
const timeOf = (text: string): string => {
  const at = Date.parse(text);
  return new Date(Number.isNaN(at) ? Date.now() : at).toISOString();
};
