import { useState } from 'react';
import { Button } from '../../../parts/button.tsx';
import { TextField } from '../../../parts/field.tsx';
import { plural } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';
import { withoutReview, writtenComments } from '../model/review-draft.ts';
import { useReviewContext, useSendReview } from './use-review.ts';

/** Below the diff: the comments that are not sent yet, and the buttons to send or discard them. */
export function ReviewBar() {
  const review = useReviewContext();
  const { draft, change, mayComment } = review;
  const send = useSendReview(review);
  const [isConfirming, setConfirming] = useState(false);
  if (!mayComment) return null;
  const count = writtenComments(draft).length;
  if (count === 0)
    return (
      <footer className="review-bar">
        <p className="secondary" role="status">
          {send.isSuccess
            ? `Review sent: ${plural(send.data.threads.length, 'thread')}.`
            : 'Select a line number to comment. Hold Shift, or drag, for several lines.'}
        </p>
      </footer>
    );
  return (
    <footer className="review-bar stack">
      <Problem error={send.error} />
      <div className="review-bar-row wrap">
        <TextField
          label="Summary"
          placeholder="Optional"
          value={draft.summary}
          onChange={(summary) => change((now) => ({ ...now, summary }))}
        />
        <p className="secondary" role="status">
          {plural(count, 'comment')}
        </p>
        {isConfirming ? (
          <>
            <Button
              look="danger"
              onClick={() => {
                setConfirming(false);
                send.reset();
                change(withoutReview);
              }}
            >
              Discard {plural(count, 'comment')}
            </Button>
            <Button look="quiet" onClick={() => setConfirming(false)}>
              Keep
            </Button>
          </>
        ) : (
          <Button look="quiet" onClick={() => setConfirming(true)}>
            Discard
          </Button>
        )}
        <Button look="primary" disabled={send.isPending} onClick={() => send.mutate()}>
          {send.isPending ? 'Sending …' : 'Send review'}
        </Button>
      </div>
    </footer>
  );
}
