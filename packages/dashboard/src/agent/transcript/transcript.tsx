import type { MusterClient } from '@muster/sdk';
import { type AgentId, agentPage, type TimelineEntry } from '@muster/sdk/contract';
import { memo, startTransition, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { useShortcuts } from '../../parts/shortcuts.ts';
import { announcementOf } from './announcement.ts';
import { Folds } from './folds.ts';
import type { Follower } from './follower.ts';
import { RowList } from './row-list.tsx';
import { RunFacts } from './run-facts.ts';
import type { TimelineWindow } from './timeline-window.ts';
import { TranscriptContext, type TranscriptTools } from './transcript-context.ts';
import { TranscriptJumps, TranscriptProblems, TranscriptTop } from './transcript-notices.tsx';
import { type EntryTarget, useEntryTarget } from './use-entry-target.ts';
import { useFollower } from './use-follower.ts';
import { useTimeline } from './use-timeline.ts';
import './transcript.css';

export interface TranscriptProps {
  readonly agentId: AgentId;
  readonly client: MusterClient;
  /** Told of what came since the transcript was opened, at most once per frame. */
  readonly onEntries?: ((entries: readonly TimelineEntry[]) => void) | undefined;
  /** False where the reader has no key: then nothing leads to an entry's own address or to a child's page. */
  readonly isLinked?: boolean;
}

/**
 * What an agent was told, said and did, live. It fills its parent, which gives it a height, and scrolls by itself. What
 * else changes on the page, with every entry, is none of its business.
 */
export const Transcript = memo((props: TranscriptProps) => (
  <OneTranscript key={agentPage(props.agentId)} {...props} />
));

function OneTranscript({ agentId, client, onEntries, isLinked = true }: TranscriptProps) {
  const [announcement, setAnnouncement] = useState('');
  const [target, forgetTarget] = useEntryTarget(isLinked);
  const { window, view, rows, placeOf, findWords } = useTimeline(
    client,
    agentId,
    target?.sequence,
    // What follows from an entry is drawn after the entry itself.
    (news) =>
      startTransition(() => {
        setAnnouncement((before) => announcementOf(news) ?? before);
        onEntries?.(news);
      }),
  );
  const scroller = useRef<HTMLElement>(null);
  const { follower, awaySince } = useFollower(scroller, window);

  useEffect(() => {
    if (target && !window.has(target.sequence)) void window.toEntry(target.sequence);
  }, [target, window]);

  const { toBeginning, toNewest } = useJumps(window, follower, forgetTarget);
  const tools = useTools({ agentId, client, isLinked }, follower, findWords);
  const targetRow = target && rows[placeOf(target.sequence) ?? -1];
  useUnfolded(tools.folds, target, targetRow?.key);
  const newCount = awaySince === null ? 0 : view.newest - awaySince;
  const isAway = awaySince !== null && (!follower?.isFollowing || newCount > 0);

  return (
    <TranscriptContext value={tools}>
      <div className="transcript">
        <TranscriptProblems view={view} onTryAgain={() => void window.tryAgain()} />
        <section
          ref={scroller}
          className="transcript-scroller"
          aria-label="Transcript"
          aria-busy={view.loading !== null || !view.isOpen}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached from the keyboard.
          tabIndex={0}
        >
          <TranscriptTop view={view} />
          {view.isOpen && follower && (
            <RowList
              key={view.epoch}
              rows={rows}
              scroller={scroller}
              follower={follower}
              place={view.place}
              placeOf={placeOf}
              target={target}
              isWhole={view.isAtStart && view.isAtEnd}
              onNearStart={() => view.pageError ?? void window.loadOlder()}
              onNearEnd={() => view.pageError ?? void window.loadNewer()}
            />
          )}
          {isAway && <TranscriptJumps newCount={newCount} onBeginning={toBeginning} onNewest={toNewest} />}
        </section>
        <p className="visually-hidden" role="status">
          {announcement}
        </p>
      </div>
    </TranscriptContext>
  );
}

/** Whoever is led to an entry is shown what is in it. Once: after that it is theirs to fold. */
function useUnfolded(folds: Folds, target: EntryTarget | null, name: string | undefined): void {
  const done = useRef<EntryTarget>(null);
  useLayoutEffect(() => {
    if (target === null || name === undefined || done.current === target) return;
    done.current = target;
    folds.set(name, true);
  }, [folds, target, name]);
}

/** To either end of the timeline, wherever the window is; also by the keys. */
function useJumps(window: TimelineWindow, follower: Follower | null, forgetTarget: () => void) {
  const toNewest = () => {
    forgetTarget();
    if (window.view().isAtEnd) follower?.follow();
    else void window.toEnd();
  };
  const toBeginning = () => {
    forgetTarget();
    if (window.view().isAtStart) follower?.toTop();
    else void window.toStart();
  };
  useShortcuts({ Home: toBeginning, End: toNewest });
  return { toBeginning, toNewest };
}

function useTools(
  { agentId, client, isLinked }: Required<Pick<TranscriptProps, 'agentId' | 'client' | 'isLinked'>>,
  follower: Follower | null,
  findWords: (followUpId: string) => void,
): TranscriptTools {
  // biome-ignore lint/correctness/useExhaustiveDependencies: one transcript is for one agent.
  return useMemo(
    () => ({
      agentId,
      isLinked,
      folds: new Folds(),
      runFacts: new RunFacts(client, agentId),
      keepPlace: () => follower?.keepPlace(),
      findWords,
    }),
    [client, isLinked, follower, findWords],
  );
}
