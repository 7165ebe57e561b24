import { type Thread, threadPlace } from '@muster/sdk/contract';
import { type ReactNode, useId, useState } from 'react';
import { Button, ExpandIcon, LineButton } from '../../../parts/button.tsx';
import { visibleControls } from '../../../parts/model/text.ts';
import { Mark } from '../../../parts/page.tsx';
import { Problem } from '../../../parts/problem.tsx';
import { Moment } from '../../../parts/times.tsx';
import { rangeText } from '../model/diff-lines.ts';
import { setReply } from '../model/review-draft.ts';
import { excerptOf, markHints, markOf, markTexts, type ThreadMark } from '../model/threads.ts';
import { CommentText } from './comment-text.tsx';
import { TextForm } from './text-form.tsx';
import { useReply, useResolve, useReviewContext } from './use-review.ts';

const tones = {
  resolved: 'good',
  pending: 'busy',
  answered: 'new',
  declined: 'warning',
  unanswered: 'quiet',
} as const satisfies Record<ThreadMark, string>;

interface ThreadViewProps {
  readonly thread: Thread;
  /** Names the place and quotes the lines, because they are not above it. */
  readonly isApart?: boolean;
  readonly isOpenAtFirst?: boolean;
  /** More actions. */
  readonly children?: ReactNode;
}

/** A thread with its comments and actions, collapsible. */
export function ThreadView({ thread, isApart = false, isOpenAtFirst = true, children }: ThreadViewProps) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const bodyId = useId();
  const mark = markOf(thread);
  const place = threadPlace(thread);
  return (
    <section className="thread" aria-label={`Thread on ${place}`} data-thread={thread.threadId}>
      <LineButton aria-expanded={isOpen} aria-controls={bodyId} onClick={() => setOpen(!isOpen)}>
        <ExpandIcon />
        <span className="thread-title">
          {isApart && <span className="thread-place">{place}</span>}
          {!isOpen && (
            <span className="thread-excerpt" dir="auto">
              {excerptOf(thread)}
            </span>
          )}
          {isOpen && !isApart && <span className="secondary">{rangeText(thread)}</span>}
        </span>
        <Mark tone={tones[mark]} title={markHints[mark]}>
          {markTexts[mark]}
        </Mark>
      </LineButton>
      <div id={bodyId} className="thread-body stack" hidden={!isOpen}>
        {isOpen && (
          <>
            {isApart && thread.quote !== '' && <Quote text={thread.quote} />}
            <ol className="stack">
              {thread.comments.map((comment, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: comments are only appended.
                <li key={at} className="thread-comment" data-kind={comment.kind}>
                  <p>
                    <b>{comment.author}</b>{' '}
                    <small className="secondary">
                      {comment.kind === 'AGENT' && `agent, run ${comment.runId} · `}
                      <Moment at={comment.at} />
                      {comment.url !== '' && (
                        <>
                          {' · '}
                          <HostLink url={comment.url} />
                        </>
                      )}
                    </small>
                  </p>
                  <CommentText text={comment.body} quote={thread.quote} />
                </li>
              ))}
            </ol>
            <ThreadActions thread={thread}>{children}</ThreadActions>
          </>
        )}
      </div>
    </section>
  );
}

const HostLink = ({ url }: { readonly url: string }) =>
  /^https?:\/\//i.test(url) ? (
    <a href={url} target="_blank" rel="noreferrer noopener">
      open at host
    </a>
  ) : null;

const Quote = ({ text }: { readonly text: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard.
  <pre className="thread-quote" tabIndex={0}>
    {visibleControls(text)}
  </pre>
);

function ThreadActions({ thread, children }: { readonly thread: Thread; readonly children: ReactNode }) {
  const { agentId, draft, change, mayComment, opened } = useReviewContext();
  const { threadId, state } = thread;
  const reply = useReply(agentId, threadId);
  const resolve = useResolve(agentId, threadId);
  const text = draft.replies[threadId];
  const setText = (next: string | undefined) => change((now) => setReply(now, threadId, next));
  const isOpen = state === 'OPEN';
  const startReply = () => {
    opened.current = threadId;
    setText('');
  };
  if (!mayComment) return children && <div className="wrap">{children}</div>;
  return (
    <>
      <Problem error={reply.error ?? resolve.error} />
      {text !== undefined && (
        <TextForm
          label={`Reply to the thread on ${threadPlace(thread)}`}
          placeholder="Reply …"
          text={text}
          onChange={setText}
          action={reply.isPending ? 'Sending …' : 'Send reply'}
          isBusy={reply.isPending}
          onSubmit={() => reply.mutate(text.trim())}
          onEscape={() => setText(text.trim() === '' ? undefined : text)}
          formId={threadId}
        >
          <Button look="quiet" onClick={() => setText(undefined)}>
            Discard
          </Button>
        </TextForm>
      )}
      <div className="wrap">
        {text === undefined && <Button onClick={startReply}>Reply</Button>}
        <Button disabled={resolve.isPending} onClick={() => resolve.mutate(isOpen)}>
          {isOpen ? 'Resolve' : 'Reopen'}
        </Button>
        {children}
      </div>
    </>
  );
}
