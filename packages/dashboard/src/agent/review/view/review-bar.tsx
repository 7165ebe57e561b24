import type { AgentStatus } from '@muster/sdk';
import { useState } from 'react';
import { Button } from '../../../parts/button.tsx';
import { TextField } from '../../../parts/field.tsx';
import { plural } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';
import { OpenRequest } from '../../panels/view/change-requests.tsx';
import { withoutReview, writtenComments } from '../model/review-draft.ts';
import { useReviewContext, useSendReview } from './use-review.ts';

/** Below the diff: the comments that are not sent yet, and the verdict. */
export function ReviewBar({ status }: { readonly status: AgentStatus }) {
  const review = useReviewContext();
  const { draft, change, mayComment } = review;
  const send = useSendReview(review);
  if (!mayComment) return null;
  const count = writtenComments(draft).length;
  return (
    <footer className="review-bar stack">
      <Problem error={send.error} />
      <div className="review-bar-row wrap">
        {count > 0 && (
          <TextField
            label="Summary"
            placeholder="Optional"
            value={draft.summary}
            onChange={(summary) => change((now) => ({ ...now, summary }))}
          />
        )}
        <p className="secondary" role="status">
          {count > 0 && plural(count, 'comment')}
          {count === 0 && send.isSuccess && `Review sent: ${plural(send.data.threads.length, 'thread')}.`}
          {count === 0 && !send.isSuccess && <Hint />}
        </p>
        {count > 0 && (
          <>
            <DiscardButton
              count={count}
              onDiscard={() => {
                send.reset();
                change(withoutReview);
              }}
            />
            <Button look="primary" disabled={send.isPending} onClick={() => send.mutate()}>
              {send.isPending ? 'Sending …' : 'Request changes'}
            </Button>
          </>
        )}
        <OpenRequest
          status={status}
          action="Approve and open change request"
          look={count > 0 ? 'plain' : 'primary'}
          note={
            count > 0
              ? `Your ${plural(count, 'comment')} will stay a draft: the agent does not get them.`
              : ''
          }
        />
      </div>
    </footer>
  );
}

const Hint = () => (
  <>
    Select a line number to comment.
    <span className="fine-pointer"> Hold Shift, or drag, for several lines.</span>
  </>
);

/** Asks in place. */
function DiscardButton({ count, onDiscard }: { readonly count: number; readonly onDiscard: () => void }) {
  const [isConfirming, setConfirming] = useState(false);
  if (!isConfirming)
    return (
      <Button look="quiet" onClick={() => setConfirming(true)}>
        Discard
      </Button>
    );
  return (
    <>
      <Button look="danger" onClick={onDiscard}>
        Discard {plural(count, 'comment')}
      </Button>
      <Button look="quiet" onClick={() => setConfirming(false)}>
        Keep
      </Button>
    </>
  );
}
