import { describe, expect, it } from 'vitest';
import {
  changeComment,
  closeForm,
  editComment,
  emptyReview,
  moveComment,
  parseDraft,
  ReviewDrafts,
  removeComment,
  reviewOf,
  setReply,
  startComment,
  withoutReview,
  writtenComments,
} from './review-draft.ts';

const place = { repo: '', path: 'a.ts', side: 'NEW', startLine: 3, line: 3, quote: 'x' } as const;
const written = changeComment(startComment(emptyReview, place, 'one'), 'one', { body: ' Why? ' });

describe('a draft of a review', () => {
  it('has one open form, and drops a comment without a text', () => {
    const empty = startComment(emptyReview, place, 'one');
    expect(empty.editing).toBe('one');
    expect(startComment(empty, { ...place, line: 5 }, 'two').comments.map(({ id }) => id)).toEqual(['two']);
    expect(closeForm(empty)).toEqual(emptyReview);
    expect(startComment(written, place, 'two').comments.map(({ id }) => id)).toEqual(['one', 'two']);
  });

  it('gives the open form other lines, only in the same file', () => {
    const longer = { ...place, line: 7, quote: 'x\ny' };
    expect(moveComment(written, longer).comments).toEqual([{ ...longer, id: 'one', body: ' Why? ' }]);
    expect(moveComment(written, { ...place, path: 'b.ts' }).comments).toHaveLength(2);
    expect(moveComment(closeForm(written), longer).comments).toHaveLength(2);
  });

  it('can edit and remove its comments', () => {
    const closed = closeForm(written);
    expect(closed.editing).toBe('');
    expect(editComment(closed, 'one').editing).toBe('one');
    expect(removeComment(editComment(closed, 'one'), 'one')).toEqual(emptyReview);
  });

  it('becomes one request, with trimmed texts and without comments that have none', () => {
    const draft = {
      ...startComment(written, { ...place, repo: 'https://git/b' }, 'two'),
      summary: ' Nice. ',
    };
    expect(reviewOf(draft)).toEqual({
      description: 'Nice.',
      comments: [{ path: 'a.ts', side: 'NEW', startLine: 3, line: 3, quote: 'x', body: 'Why?' }],
    });
    const both = changeComment(draft, 'two', { body: 'Here too.' });
    expect(reviewOf({ ...both, summary: '' })).toMatchObject({
      comments: [{ body: 'Why?' }, { repo: 'https://git/b', body: 'Here too.' }],
    });
    expect(reviewOf({ ...both, summary: '' })).not.toHaveProperty('description');
  });

  it('keeps replies when the review was sent', () => {
    const draft = setReply(written, 't', 'Because.');
    expect(withoutReview(draft)).toEqual({ ...emptyReview, replies: { t: 'Because.' } });
    expect(setReply(draft, 't', undefined).replies).toEqual({});
  });
});

class MemoryStorage {
  readonly values = new Map<string, string>();
  readonly getItem = (name: string) => this.values.get(name) ?? null;
  readonly setItem = (name: string, value: string) => void this.values.set(name, value);
  readonly removeItem = (name: string) => void this.values.delete(name);
}

describe('stored drafts', () => {
  it('survive a reload, by person and agent, until they are empty', () => {
    const storage = new MemoryStorage();
    const drafts = new ReviewDrafts(storage);
    let notified = 0;
    drafts.subscribe(() => {
      notified += 1;
    });
    drafts.change('ada a', () => written);
    expect(notified).toBe(1);
    const reloaded = new ReviewDrafts(storage);
    expect(reloaded.get('ada a')).toEqual(written);
    expect(reloaded.get('bob a')).toEqual(emptyReview);
    reloaded.change('ada a', withoutReview);
    expect(storage.values.size).toBe(0);
  });

  it('stay in memory if the storage is full', () => {
    const storage = new MemoryStorage();
    const full = {
      getItem: storage.getItem,
      removeItem: storage.removeItem,
      setItem: () => {
        throw new Error('QuotaExceededError');
      },
    };
    const drafts = new ReviewDrafts(full);
    drafts.change('ada a', () => written);
    expect(writtenComments(drafts.get('ada a'))).toHaveLength(1);
  });

  it.each([
    '',
    '{',
    'null',
    '[]',
    '{"summary":""}',
    '{"summary":"","editing":"","replies":{},"comments":[{}]}',
  ])('that this page did not write are ignored: %s', (text) => {
    expect(parseDraft(text)).toEqual(emptyReview);
  });
});
