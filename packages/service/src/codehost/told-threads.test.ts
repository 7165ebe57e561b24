import { expect, it } from 'vitest';
import type { ChangeRequestRow } from '../store/statements/change-requests.ts';
import type { HostChangeRequest, HostThread } from './host.ts';
import { threadsToTell } from './told-threads.ts';

const row = {
  tenant: 1,
  name: 'project-1-aaaaaaaa',
  repo_url: 'https://host/team/project',
} as ChangeRequestRow;
const author = { id: '1', login: 'ada' };
const hunk = '@@ -1,2 +1,4 @@\n one\n+two\n+three\u202e\n+four';

async function quoteOf(more: Partial<HostThread>, text = hunk): Promise<string | undefined> {
  const comment = { id: '1', author, body: 'Why?', url: '', createdAt: '', updatedAt: '', reviewId: '' };
  const thread: HostThread = {
    ...{ id: '1', path: 'a.txt', line: 4, startLine: null, side: 'NEW', isResolved: false, canResolve: true },
    ...{ comments: [{ ...comment, ...(text && { hunk: text }) }], ...more },
  };
  const news = [{ thread, comments: thread.comments, permissionOf: new Map() }];
  const [told] = await threadsToTell(row, { url: '' } as HostChangeRequest, news);
  return told?.place?.quote;
}

it('quotes the lines that a thread is on', async () => {
  expect(await quoteOf({})).toBe('four');
  expect(await quoteOf({ startLine: 3 })).toBe('three\nfour');
  expect(await quoteOf({ line: 400, startLine: 1 })).toBe('one\ntwo\nthree\nfour');
  expect(await quoteOf({ line: null })).toBe('four');
  expect(await quoteOf({}, '')).toBe('');
});

it('says that a later push has changed them', async () => {
  expect(await quoteOf({ isOutdated: true })).toBe('(A later push changed this place. It was:)\nfour');
});

it('is bounded, whatever the host sends', async () => {
  const quote = await quoteOf({ line: 1e9, startLine: 1 }, `+${'x'.repeat(1e5)}\n`.repeat(50));
  expect(quote?.length).toBeLessThan(2_100);
});
