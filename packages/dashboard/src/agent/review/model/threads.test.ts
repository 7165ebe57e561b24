import type { Thread } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { countsText, excerptOf, isInFile, markOf } from './threads.ts';

const thread = (fields: Partial<Thread>): Thread => ({
  threadId: 't',
  repo: 'https://git/a',
  path: 'a.ts',
  line: 3,
  startLine: 3,
  side: 'NEW',
  quote: '',
  state: 'OPEN',
  answer: 'PENDING',
  source: 'DASHBOARD',
  changeRequest: '',
  url: '',
  createdAt: '2026-01-01T00:00:00Z',
  comments: [],
  ...fields,
});

describe('a thread', () => {
  it('that is resolved needs nothing, however it was answered', () => {
    expect(markOf(thread({ state: 'RESOLVED', answer: 'DECLINED' }))).toBe('resolved');
    expect(markOf(thread({ answer: 'DECLINED' }))).toBe('declined');
    expect(markOf(thread({ answer: 'NONE' }))).toBe('unanswered');
  });

  it('is shown by its first comment', () => {
    const comment = { author: 'ada', kind: 'PERSON', at: '', runId: '0', url: '' } as const;
    expect(excerptOf(thread({ comments: [{ ...comment, body: '**Why** `one`?\nMore.' }] }))).toBe(
      'ada: Why one? More.',
    );
    expect(excerptOf(thread({}))).toBe('');
  });

  it('belongs to the file with its path, also before a rename, in its repository', () => {
    const file = { repo: '', path: 'a.ts', oldPath: '' };
    expect(isInFile(thread({}), file)).toBe(true);
    expect(isInFile(thread({ path: 'old.ts' }), { ...file, oldPath: 'old.ts' })).toBe(true);
    expect(isInFile(thread({ path: '' }), file)).toBe(false);
    expect(isInFile(thread({}), { ...file, repo: 'https://git/b' })).toBe(false);
    expect(isInFile(thread({}), { ...file, repo: 'https://git/a' })).toBe(true);
  });

  it('is counted by its state', () => {
    const resolved = thread({ state: 'RESOLVED' });
    expect(countsText([thread({}), resolved, resolved])).toBe('1 open, 2 resolved');
    expect(countsText([resolved])).toBe('1 resolved');
    expect(countsText([thread({})])).toBe('1 open');
  });
});
