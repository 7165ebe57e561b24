import { Button } from '../../parts/button.tsx';
import { Problem } from '../../parts/problem.tsx';
import type { TimelineView } from './timeline-window.ts';

/** What went wrong; what came before stays on the screen. */
export function TranscriptProblems({
  view: { error, pageError },
  onTryAgain,
}: {
  readonly view: TimelineView;
  readonly onTryAgain: () => void;
}) {
  if (!error && !pageError) return null;
  return (
    <div className="transcript-problems">
      <Problem error={error} />
      <Problem error={pageError}>
        <Button onClick={onTryAgain}>Try again</Button>
      </Problem>
    </div>
  );
}

/** What stands above the first entry at hand. */
export function TranscriptTop({ view }: { readonly view: TimelineView }) {
  const words = topWords(view);
  return words === '' ? null : <p className="transcript-top">{words}</p>;
}

function topWords({ isOpen, error, loading, areOlderRemoved }: TimelineView): string {
  if (!isOpen) return error ? '' : 'Loading …';
  if (loading === 'older') return 'Loading older entries …';
  return areOlderRemoved
    ? 'Older entries were removed. They are kept for 30 days after the end of an agent.'
    : '';
}

/** The ways out of the middle: shown to whoever has left the end. */
export function TranscriptJumps({
  newCount,
  onBeginning,
  onNewest,
}: {
  readonly newCount: number;
  readonly onBeginning: () => void;
  readonly onNewest: () => void;
}) {
  return (
    <div className="transcript-jumps">
      <Button onClick={onBeginning} title="To the first entry (Home)">
        <span aria-hidden="true">↑</span> Beginning
      </Button>
      <Button look="primary" onClick={onNewest} title="To the newest entry (End)">
        <span aria-hidden="true">↓</span> Jump to the newest
        {newCount > 0 && ` · ${newCount.toLocaleString('en')} new`}
      </Button>
    </div>
  );
}
