import type { AgentId, MusterClient, TimelineEntry } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import {
  lazy,
  memo,
  type ReactNode,
  type RefObject,
  Suspense,
  startTransition,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { Button } from '../../../parts/button.tsx';
import { useShortcuts } from '../../../parts/page.tsx';
import { Problem } from '../../../parts/problem.tsx';
import { announcementOf } from '../model/entry-text.ts';
import type { TimelineView, TimelineWindow } from '../model/timeline-window.ts';
import { type AutoScroll, useAutoScroll } from './auto-scroll.ts';
import { namesOfLongTexts } from './expandable.tsx';
import { RowList } from './row-list.tsx';
import { Toolbar, useFind } from './toolbar.tsx';
import { ExpandedNames, TranscriptContext, type TranscriptTools } from './transcript-context.ts';
import { type EntryTarget, useEntryTarget, useTimeline } from './use-timeline.ts';
import '../transcript.css';

const RunRail = lazy(async () => ({ default: (await import('./run-rail.tsx')).RunRail }));

export interface TranscriptProps {
  readonly agentId: AgentId;
  readonly client: MusterClient;
  readonly onEntries?: ((entries: readonly TimelineEntry[]) => void) | undefined;
  /** False for a reader without a key: then rows link neither to entries nor to other agents. */
  readonly isLinked?: boolean;
}

/** The live timeline of an agent. It fills its parent and scrolls by itself. */
export const Transcript = memo((props: TranscriptProps) => (
  <OneTranscript key={agentPage(props.agentId)} {...props} />
));

function OneTranscript({ agentId, client, onEntries, isLinked = true }: TranscriptProps) {
  const { target, clear: clearTarget, showMatch } = useEntryTarget(isLinked);
  const find = useFind(clearTarget);
  const { announcement, announce } = useAnnouncement(find, onEntries);
  const timeline = useTimeline(client, agentId, target?.sequence, announce);
  const { window, view, rows, indexOf, findMessageText } = timeline;
  const scroller = useRef<HTMLElement>(null);
  const { autoScroll, stoppedAt } = useAutoScroll(scroller, window);

  useEffect(() => {
    if (target && !window.has(target.sequence)) void window.moveTo(target.sequence);
  }, [target, window]);

  const { toStart, toEnd } = useJumps(window, autoScroll, clearTarget);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the agent does not change.
  const tools = useMemo(
    (): TranscriptTools => ({
      agentId,
      client,
      isLinked,
      expanded: new ExpandedNames(),
      holdPosition: () => autoScroll?.holdPosition(),
      findMessageText,
    }),
    [client, isLinked, autoScroll, findMessageText],
  );
  useExpandTarget(tools.expanded, target, target ? rows[indexOf(target.sequence) ?? -1]?.key : undefined);
  const newCount = stoppedAt === null ? 0 : view.newest - stoppedAt;
  const hasLeftEnd = stoppedAt !== null && (!autoScroll?.isFollowing || newCount > 0);
  const [shownRun, setShownRun] = useState(0);
  const newestRun = useNewestRun(view, isLinked);

  return (
    <TranscriptContext value={tools}>
      <div className="transcript">
        <TranscriptProblems {...{ window, view, target }} onDismiss={clearTarget} />
        <Toolbar {...{ find, newestRun, shownRun }} scroller={scroller.current} onShow={showMatch} />
        <div className="transcript-columns">
          {newestRun > 1 && (
            <Suspense>
              <RunRail {...{ newestRun, shownRun }} />
            </Suspense>
          )}
          <TranscriptScroller view={view} scroller={scroller}>
            {view.isOpen && autoScroll && (
              <RowList
                key={view.epoch}
                {...{ timeline, scroller, autoScroll, target }}
                findText={find.text}
                onRun={setShownRun}
              />
            )}
            {hasLeftEnd && <JumpButtons newCount={newCount} onStart={toStart} onEnd={toEnd} />}
          </TranscriptScroller>
        </div>
        <Announcement text={announcement} />
      </div>
    </TranscriptContext>
  );
}

function TranscriptScroller({
  view,
  scroller,
  children,
}: {
  readonly view: TimelineView;
  readonly scroller: RefObject<HTMLElement | null>;
  readonly children: ReactNode;
}) {
  const top = topText(view);
  return (
    <section
      ref={scroller}
      className="transcript-scroller"
      aria-label="Transcript"
      aria-busy={view.loading !== null || !view.isOpen}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
      tabIndex={0}
    >
      {top !== '' && <p className="transcript-top secondary">{top}</p>}
      {children}
    </section>
  );
}

const TranscriptProblems = ({
  window,
  view,
  target,
  onDismiss,
}: {
  readonly window: TimelineWindow;
  readonly view: TimelineView;
  readonly target: EntryTarget | null;
  readonly onDismiss: () => void;
}) => (
  <>
    <Problem error={view.error} />
    <Problem error={view.pageError}>
      <Button onClick={() => void window.tryAgain()}>Try again</Button>
    </Problem>
    {target && view.missing === target.sequence && (
      <div className="problem wrap" role="alert">
        <p>{missingText(target.sequence, view.newest)}</p>
        <Button onClick={onDismiss}>Dismiss</Button>
      </div>
    )}
  </>
);

const missingText = (sequence: number, newest: number): string =>
  sequence > newest || sequence < 1
    ? `There is no entry ${sequence.toLocaleString('en')}: the newest is ${newest.toLocaleString('en')}.`
    : `Entry ${sequence.toLocaleString('en')} was removed. Entries are kept for 30 days after an agent ends.`;

const Announcement = ({ text }: { readonly text: string }) => (
  <p className="visually-hidden" role="status">
    {text}
  </p>
);

/** What a screen reader says about new entries. */
function useAnnouncement(find: ReturnType<typeof useFind>, onEntries: TranscriptProps['onEntries']) {
  const [announcement, setAnnouncement] = useState('');
  // A transition, so that the new rows are drawn first.
  const announce = (entries: readonly TimelineEntry[]) => {
    find.onEntries(entries);
    startTransition(() => {
      setAnnouncement((before) => announcementOf(entries) ?? before);
      onEntries?.(entries);
    });
  };
  return { announcement, announce };
}

/** Expands the entry in the address once; then the reader may collapse it. A match is collapsed after the next one. */
function useExpandTarget(expanded: ExpandedNames, target: EntryTarget | null, key: string | undefined): void {
  const done = useRef<EntryTarget>(null);
  const toCollapse = useRef<readonly string[]>([]);
  useLayoutEffect(() => {
    if (done.current !== target) {
      for (const name of toCollapse.current) expanded.set(name, false);
      toCollapse.current = [];
    }
    if (target === null || key === undefined || done.current === target) return;
    done.current = target;
    const names = target.isMatch ? [key, ...namesOfLongTexts(key)] : [key];
    if (target.isMatch) toCollapse.current = names.filter((name) => !expanded.has(name));
    for (const name of names) expanded.set(name, true);
  }, [expanded, target, key]);
}

/** The number of the newest run that was seen; 0 where nothing links to runs. */
function useNewestRun({ entries }: TimelineView, isLinked: boolean): number {
  const newest = useRef(0);
  const run = Number(entries.findLast(({ runId }) => runId !== '0')?.runId ?? 0);
  newest.current = Math.max(newest.current, run);
  return isLinked ? newest.current : 0;
}

function useJumps(window: TimelineWindow, autoScroll: AutoScroll | null, clearTarget: () => void) {
  const toEnd = () => {
    clearTarget();
    if (window.view().isAtEnd) autoScroll?.follow();
    else void window.moveTo('end');
  };
  const toStart = () => {
    clearTarget();
    if (window.view().isAtStart) autoScroll?.toTop();
    else void window.moveTo('start');
  };
  useShortcuts({ Home: toStart, End: toEnd });
  return { toStart, toEnd };
}

function topText({ isOpen, error, loading, areOlderRemoved }: TimelineView): string {
  if (!isOpen) return error ? '' : 'Loading …';
  if (loading === 'older') return 'Loading older entries …';
  return areOlderRemoved
    ? 'Older entries were removed. Entries are kept for 30 days after an agent ends.'
    : '';
}

const JumpButtons = ({
  newCount,
  onStart,
  onEnd,
}: {
  readonly newCount: number;
  readonly onStart: () => void;
  readonly onEnd: () => void;
}) => (
  <div className="transcript-jumps">
    <Button onClick={onStart} title="First entry (Home)">
      <span aria-hidden="true">↑</span> Jump to start
    </Button>
    <Button look="primary" onClick={onEnd} title="Newest entry (End)">
      <span aria-hidden="true">↓</span> Jump to latest
      {newCount > 0 && ` · ${newCount.toLocaleString('en')} new`}
    </Button>
  </div>
);
