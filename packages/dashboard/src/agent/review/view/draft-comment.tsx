import { useRef } from 'react';
import { Button, CopyButton } from '../../../parts/button.tsx';
import { Mark } from '../../../parts/page.tsx';
import { codeIn, type DiffLine, possibleStarts, rangeText, withStart } from '../model/diff-lines.ts';
import {
  changeComment,
  closeForm,
  type DraftComment,
  editComment,
  removeComment,
} from '../model/review-draft.ts';
import { commentParts, suggestionOf } from '../model/suggestion.ts';
import { CommentText } from './comment-text.tsx';
import { TextForm } from './text-form.tsx';
import { useReviewHref } from './use-diffs.ts';
import { useReviewContext } from './use-review.ts';

interface DraftCommentProps {
  readonly comment: DraftComment;
  readonly lines: readonly DiffLine[];
  readonly isApart: boolean;
}

/** A comment that is not sent yet, or its form. */
export function DraftCommentView(props: DraftCommentProps) {
  const { draft, change, opened } = useReviewContext();
  const { comment, isApart } = props;
  const { id, path, body } = comment;
  if (draft.editing === id) return <CommentForm {...props} />;
  const place = `${path}, ${rangeText(comment)}`;
  const edit = () => {
    opened.current = id;
    change((now) => editComment(now, id));
  };
  return (
    <section className="thread draft-comment" aria-label={`Draft comment on ${place}`}>
      <div className="thread-body stack">
        <p>
          <Mark tone="quiet" title="The agent gets it when you send the review.">
            Draft
          </Mark>{' '}
          <small className="secondary">{isApart ? `${place}: not in this diff` : rangeText(comment)}</small>
        </p>
        <CommentText text={body} quote={comment.quote} />
        <div className="wrap">
          <Button onClick={edit}>Edit</Button>
          <Button look="quiet" onClick={() => change((now) => removeComment(now, id))}>
            Remove
          </Button>
        </div>
      </div>
    </section>
  );
}

function CommentForm({ comment, lines, isApart }: DraftCommentProps) {
  const { change } = useReviewContext();
  const form = useRef<HTMLElement>(null);
  const { id, path, body } = comment;
  const hasSuggestion = commentParts(body).some(({ kind }) => kind === 'suggestion');
  const code = isApart || hasSuggestion ? null : codeIn(lines, comment);
  /** The form is removed; the focus returns to its line. */
  const leave = (next: Parameters<typeof change>[0]) => {
    const row = form.current?.closest('.review-row');
    change(next);
    // Two lines are beside each other in a split diff.
    const numbers = [...(row?.querySelectorAll<HTMLElement>('button.line-number') ?? [])];
    numbers.at(comment.side === 'OLD' ? 0 : -1)?.focus();
  };
  return (
    <section
      className="thread draft-comment"
      aria-label={`Comment on ${path}, ${rangeText(comment)}`}
      ref={form}
    >
      <div className="thread-body stack">
        <CommentRange {...{ comment, lines, isApart }} />
        <TextForm
          label={`Comment on ${path}, ${rangeText(comment)}`}
          placeholder="Comment …"
          text={body}
          onChange={(text) => change((now) => changeComment(now, id, { body: text }))}
          action="Comment"
          onSubmit={() => leave(closeForm)}
          onEscape={() => leave(closeForm)}
          formId={id}
        >
          {code !== null && (
            <Button
              onClick={() => change((now) => changeComment(now, id, { body: body + suggestionOf(code) }))}
            >
              Suggest a change
            </Button>
          )}
          {!isApart && <CopyLink comment={comment} />}
          <Button look="quiet" onClick={() => leave((now) => removeComment(now, id))}>
            Discard
          </Button>
        </TextForm>
      </div>
    </section>
  );
}

function CopyLink({ comment: { repo, path, side, line } }: Pick<DraftCommentProps, 'comment'>) {
  const { agentId } = useReviewContext();
  const href = useReviewHref({ agentId })({ repo, path, side, line });
  return <CopyButton text={location.origin + href} label="Copy link" what="to these lines" />;
}

/** The lines that a comment is about. Of several possible first lines the person chooses one. */
function CommentRange({ comment, lines, isApart }: DraftCommentProps) {
  const { change } = useReviewContext();
  const { id, path, side, line, startLine } = comment;
  const starts = isApart ? [] : possibleStarts(lines, comment);
  if (starts.length <= 1)
    return <p className="secondary">{isApart ? `${path}, ${rangeText(comment)}` : rangeText(comment)}</p>;
  return (
    <p className="comment-range secondary">
      <label>
        Lines{' '}
        <select
          aria-label="First line"
          value={startLine}
          onChange={(event) => {
            const { repo: _, path: __, body: ___, id: ____, ...range } = comment;
            const moved = withStart(lines, range, Number(event.target.value));
            change((now) => changeComment(now, id, moved));
          }}
        >
          {starts.map((start) => (
            <option key={start} value={start}>
              {start}
            </option>
          ))}
        </select>
      </label>{' '}
      to {line}
      {side === 'OLD' && ' before the change'}
    </p>
  );
}
