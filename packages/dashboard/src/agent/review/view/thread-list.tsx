import type { AgentStatus } from '@muster/sdk';
import { compareThreads, type Thread } from '@muster/sdk/contract';
import { useState } from 'react';
import { Link } from 'wouter';
import { Button } from '../../../parts/button.tsx';
import { plural } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';
import { countsText } from '../model/threads.ts';
import { ThreadView } from './thread-view.tsx';
import { useReviewHref } from './use-diffs.ts';
import { useReviewContext } from './use-review.ts';

interface ThreadListProps {
  readonly status: AgentStatus;
  /** Whether the diff has the file of a thread. */
  readonly isInDiff: (thread: Thread) => boolean;
}

/** All threads of the agent, also those whose lines are no longer in the diff. */
export function ThreadList({ status, isInDiff }: ThreadListProps) {
  const hrefOf = useReviewHref(status);
  const { threads: unordered, error } = useReviewContext();
  const threads = [...unordered].sort(compareThreads);
  const [isAll, setAll] = useState(false);
  const open = threads.filter(({ state }) => state === 'OPEN');
  const resolved = threads.filter(({ state }) => state === 'RESOLVED');
  if (threads.length === 0) return <Problem error={error} />;
  const shown = isAll ? [...open, ...resolved] : open;
  return (
    <div className="thread-list stack">
      <h3>Review threads: {countsText(threads)}</h3>
      <Problem error={error} />
      {shown.length > 0 && (
        <ul className="stack" aria-label="Review threads">
          {shown.map((thread) => (
            <li key={thread.threadId}>
              <ThreadView thread={thread} isApart isOpenAtFirst={false}>
                {isInDiff(thread) && (
                  <Link className="button button-quiet" href={hrefOf({ thread: thread.threadId })}>
                    Show in diff
                  </Link>
                )}
              </ThreadView>
            </li>
          ))}
        </ul>
      )}
      {resolved.length > 0 && (
        <Button look="quiet" aria-expanded={isAll} onClick={() => setAll(!isAll)}>
          {isAll ? 'Hide resolved' : `Show ${plural(resolved.length, 'resolved thread')}`}
        </Button>
      )}
    </div>
  );
}
