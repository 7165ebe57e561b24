import { describe, expect, it } from 'vitest';
import { withMarker } from '../work/markers.ts';
import type { HostChangeRequest, HostCheck, HostComment, HostReview, HostThread } from './host.ts';
import {
  areSubmitted,
  beginningOf,
  checksOf,
  heard,
  isComputing,
  reviewOf,
  toldCommentBytes,
  unknownComments,
} from './news.ts';
import { isAtLeast } from './people.ts';

const ada = { id: '1', login: 'ada' };
const bob = { id: '2', login: 'bob' };
const self = { id: '3', login: 'muster' };

const comment = (id: string, fields: Partial<HostComment> = {}): HostComment => ({
  id,
  author: ada,
  body: 'words',
  url: '',
  createdAt: '2026-01-01T00:00:00Z',
  updatedAt: '2026-01-01T00:00:00Z',
  reviewId: '',
  ...fields,
});

const thread = (comments: readonly HostComment[], fields: Partial<HostThread> = {}): HostThread => ({
  id: 't',
  path: 'a.ts',
  line: 1,
  startLine: 1,
  side: 'NEW',
  isResolved: false,
  canResolve: true,
  comments,
  ...fields,
});

const check = (name: string, state: HostCheck['state']): HostCheck => ({
  id: name,
  name,
  state,
  url: '',
  summary: '',
  annotations: [],
});

const review = (author: typeof ada, verdict: HostReview['verdict'], submittedAt: string): HostReview => ({
  id: submittedAt,
  author,
  verdict,
  submittedAt,
});

describe('the state of checks', () => {
  it.each([
    ['none', [], 'NONE'],
    ['only skipped ones', [check('a', 'SKIPPED')], 'NONE'],
    ['only ignored ones', [check('coverage', 'FAILED')], 'NONE'],
    ['one that runs beside a failed one', [check('a', 'FAILED'), check('b', 'PENDING')], 'PENDING'],
    ['a failed one', [check('a', 'FAILED'), check('b', 'PASSED')], 'FAILING'],
    ['passed ones', [check('a', 'PASSED'), check('b', 'SKIPPED')], 'PASSING'],
  ])('with %s', (_what, checks, state) => {
    expect(checksOf(checks, ['coverage']).state).toBe(state);
  });
});

describe('the state of a review', () => {
  it('is the newest verdict of each person, and changes outweigh approvals', () => {
    const reviews = [
      review(ada, 'CHANGES_REQUESTED', '2026-01-01'),
      review(bob, 'APPROVED', '2026-01-02'),
      review(ada, 'COMMENTED', '2026-01-03'),
    ];
    expect(reviewOf([], reviews).state).toBe('CHANGES_REQUESTED');
    expect(reviewOf([], [...reviews, review(ada, 'APPROVED', '2026-01-04')]).state).toBe('APPROVED');
    expect(reviewOf([], [review(ada, 'COMMENTED', '2026-01-01')]).state).toBe('COMMENTED');
    expect(reviewOf([], []).state).toBe('NONE');
  });

  it('counts threads on lines', () => {
    const threads = [thread([]), thread([], { isResolved: true }), thread([], { path: '' })];
    expect(reviewOf(threads, [])).toMatchObject({ openThreads: 1, resolvedThreads: 1 });
  });
});

describe('what is new', () => {
  it('leaves out known comments, those of Muster, and empty ones', () => {
    const body = withMarker('Done.', '00000000-0000-4000-8000-000000000000');
    const comments = [
      comment('known'),
      comment('own', { author: self, body }),
      comment('empty', { body: ' ' }),
      comment('new'),
      comment('copied', { body }),
      comment('by a person with this account', { author: self }),
    ];
    const [news] = unknownComments([thread(comments)], new Set(['known']), self);
    expect(news?.comments.map(({ id }) => id)).toEqual(['new', 'copied', 'by a person with this account']);
    expect(unknownComments([thread([comment('known')])], new Set(['known']), self)).toEqual([]);
  });

  it('is of people who may be heard', () => {
    const news = unknownComments([thread([comment('a'), comment('b', { author: bob })])], new Set(), self);
    expect(heard(news, ({ id }) => id === bob.id)[0]?.comments.map(({ id }) => id)).toEqual(['b']);
    expect(heard(news, () => false)).toEqual([]);
  });

  it('holds a limited number of threads and bytes; a long comment counts as it is cut', () => {
    const long = 'x'.repeat(10 * toldCommentBytes);
    const news = ['a', 'b', 'c'].map((id) => ({
      thread: thread([]),
      comments: [comment(`${id}1`, { body: long }), comment(`${id}2`, { body: long })],
    }));
    const told = (threads: number, bytes: number) =>
      beginningOf(news, { threads, bytes }).map(({ comments }) => comments.map(({ id }) => id));
    expect(told(2, 100 * toldCommentBytes)).toEqual([
      ['a1', 'a2'],
      ['b1', 'b2'],
    ]);
    expect(told(3, 3 * toldCommentBytes)).toEqual([['a1', 'a2'], ['b1']]);
  });

  it('is complete if all of it was submitted with reviews', () => {
    const submitted = comment('a', { reviewId: '1' });
    expect(areSubmitted([{ thread: thread([]), comments: [submitted] }])).toBe(true);
    expect(areSubmitted([{ thread: thread([]), comments: [submitted, comment('b')] }])).toBe(false);
  });
});

describe('permissions', () => {
  it('are ordered', () => {
    expect(isAtLeast('admin', 'write')).toBe(true);
    expect(isAtLeast('write', 'write')).toBe(true);
    expect(isAtLeast('read', 'write')).toBe(false);
    expect(isAtLeast('none', 'read')).toBe(false);
  });
});

it('a conflict that the host is computing is asked for again until it is known, and that of a draft is not', () => {
  const isAskedAgain = (fields: Partial<HostChangeRequest>) =>
    isComputing({ state: 'OPEN', hasConflict: null, ...fields } as HostChangeRequest);
  expect(isAskedAgain({})).toBe(true);
  expect(isAskedAgain({ hasConflict: false })).toBe(false);
  expect(isAskedAgain({ state: 'DRAFT' })).toBe(false);
});
