import { mintId } from '@muster/sdk';
import type { BodyOf } from '@muster/sdk/contract';
import { Listeners } from '../../../parts/model/listeners.ts';
import { SentIds } from '../../model/sent-ids.ts';
import type { LineRange } from './diff-lines.ts';

export interface CommentPlace extends LineRange {
  /** Empty if the agent has only one repository. */
  readonly repo: string;
  readonly path: string;
}

export interface DraftComment extends CommentPlace {
  readonly id: string;
  readonly body: string;
}

/** A review that is not sent yet. */
export interface ReviewDraft {
  readonly summary: string;
  readonly comments: readonly DraftComment[];
  /** The comment whose form is open; empty if none is. */
  readonly editing: string;
  /** Replies that are not sent yet, by thread. */
  readonly replies: Readonly<Record<string, string>>;
}

export const emptyReview: ReviewDraft = { summary: '', comments: [], editing: '', replies: {} };

const isBlank = (text: string): boolean => text.trim() === '';
const isSameFile = (a: CommentPlace, b: CommentPlace): boolean => a.repo === b.repo && a.path === b.path;

/** Closes the open form. A comment without a text is dropped. */
export const closeForm = (draft: ReviewDraft): ReviewDraft => ({
  ...draft,
  comments: draft.comments.filter(({ id, body }) => id !== draft.editing || !isBlank(body)),
  editing: '',
});

/** Opens the form of a new comment. */
export function startComment(draft: ReviewDraft, place: CommentPlace, id = mintId()): ReviewDraft {
  const closed = closeForm(draft);
  return { ...closed, comments: [...closed.comments, { ...place, id, body: '' }], editing: id };
}

/** The open form gets other lines; without one in this file, a new one is opened. */
export function moveComment(draft: ReviewDraft, place: CommentPlace): ReviewDraft {
  const open = draft.comments.find(({ id }) => id === draft.editing);
  return open && isSameFile(open, place) ? changeComment(draft, open.id, place) : startComment(draft, place);
}

export const changeComment = (
  draft: ReviewDraft,
  id: string,
  change: Partial<CommentPlace> & { readonly body?: string },
): ReviewDraft => ({
  ...draft,
  comments: draft.comments.map((comment) => (comment.id === id ? { ...comment, ...change } : comment)),
});

export const editComment = (draft: ReviewDraft, id: string): ReviewDraft => ({
  ...closeForm(draft),
  editing: id,
});

export const removeComment = (draft: ReviewDraft, id: string): ReviewDraft => ({
  ...draft,
  comments: draft.comments.filter((comment) => comment.id !== id),
  editing: draft.editing === id ? '' : draft.editing,
});

/** Undefined: no form is open for the thread. */
export function setReply(draft: ReviewDraft, threadId: string, text: string | undefined): ReviewDraft {
  const { [threadId]: _, ...others } = draft.replies;
  return { ...draft, replies: text === undefined ? others : { ...others, [threadId]: text } };
}

/** Comments that have a text, in the order in which they were written. */
export const writtenComments = ({ comments }: ReviewDraft): readonly DraftComment[] =>
  comments.filter(({ body }) => !isBlank(body));

export function reviewOf(draft: ReviewDraft): Omit<BodyOf<'createReview'>, 'agentId' | 'followUpId'> {
  const summary = draft.summary.trim();
  return {
    ...(summary !== '' && { description: summary }),
    comments: writtenComments(draft).map(({ id: _, repo, body, ...comment }) => ({
      ...comment,
      ...(repo !== '' && { repo }),
      body: body.trim(),
    })),
  };
}

/** What was sent is gone; replies stay. */
export const withoutReview = ({ replies }: ReviewDraft): ReviewDraft => ({ ...emptyReview, replies });

const isEmpty = ({ summary, comments, replies }: ReviewDraft): boolean =>
  isBlank(summary) && comments.length === 0 && Object.keys(replies).length === 0;

type DraftStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** Drafts by person and agent. They survive a reload, and end with the tab. */
export class ReviewDrafts {
  readonly #storage: DraftStorage;
  readonly #drafts = new Map<string, ReviewDraft>();
  readonly #listeners = new Listeners();
  readonly subscribe = this.#listeners.subscribe;
  readonly sent = new SentIds();

  constructor(storage: DraftStorage) {
    this.#storage = storage;
  }

  get(key: string): ReviewDraft {
    const known = this.#drafts.get(key);
    if (known) return known;
    const stored = parseDraft(this.#storage.getItem(storageKey(key)));
    this.#drafts.set(key, stored);
    return stored;
  }

  change(key: string, change: (draft: ReviewDraft) => ReviewDraft): void {
    const next = change(this.get(key));
    this.#drafts.set(key, next);
    try {
      if (isEmpty(next)) this.#storage.removeItem(storageKey(key));
      else this.#storage.setItem(storageKey(key), JSON.stringify(next));
    } catch {
      // The storage is full: the draft is only in memory.
    }
    this.#listeners.notify();
  }
}

const storageKey = (key: string): string => `muster.review.${key}`;

/** An empty draft if there is none, or if another version of this page wrote it. */
export function parseDraft(stored: string | null): ReviewDraft {
  try {
    const draft = JSON.parse(stored ?? 'null') as ReviewDraft | null;
    const isKnown =
      typeof draft?.summary === 'string' &&
      typeof draft.editing === 'string' &&
      typeof draft.replies === 'object' &&
      draft.replies !== null &&
      Array.isArray(draft.comments) &&
      draft.comments.every(isDraftComment);
    return isKnown ? (draft as ReviewDraft) : emptyReview;
  } catch {
    return emptyReview;
  }
}

function isDraftComment(value: unknown): boolean {
  const { id, repo, path, body, quote, side, line, startLine } = (value ?? {}) as Partial<DraftComment>;
  return (
    [id, repo, path, body, quote].every((text) => typeof text === 'string') &&
    (side === 'OLD' || side === 'NEW') &&
    typeof line === 'number' &&
    typeof startLine === 'number'
  );
}
