import type { TimelineEntry } from '@muster/sdk';
import { agentPage, clock } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useRef, useState } from 'react';
import { Button } from '../../../parts/button.tsx';
import { useDismiss } from '../../../parts/dialog.tsx';
import { useTranscript } from './transcript-context.ts';

const maxRuns = 1000;

export interface RunsProps {
  /** With another newest run, there is another run. */
  readonly newestRun: number;
  /** The run that is on the screen. */
  readonly shownRun: number;
}

function useRunStarts(newestRun: number): readonly TimelineEntry[] {
  const { agentId, client } = useTranscript();
  const { data = [] } = useQuery({
    queryKey: ['run-starts', agentPage(agentId), newestRun],
    queryFn: ({ signal }) =>
      client.timelineNewest(agentId, { types: ['RUN_STARTED'], limit: maxRuns, signal }),
    placeholderData: (previous) => previous,
  });
  return data;
}

/** Links to the beginning of each run, beside a wide transcript. */
export function RunRail({ newestRun, shownRun }: RunsProps) {
  const starts = useRunStarts(newestRun);
  if (starts.length === 0) return null;
  return (
    <nav className="run-rail" aria-label="Runs">
      <RunLinks starts={starts} shownRun={shownRun} />
    </nav>
  );
}

/** The same as a menu, in a narrow transcript. */
export function RunMenu({ newestRun, shownRun }: RunsProps) {
  const starts = useRunStarts(newestRun);
  const [isOpen, setOpen] = useState(false);
  const menu = useRef<HTMLDivElement>(null);
  const close = useCallback(() => setOpen(false), []);
  useDismiss(menu, isOpen, close);
  if (starts.length === 0) return null;
  return (
    <div ref={menu} className="run-menu">
      <Button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        Runs
      </Button>
      {isOpen && (
        <nav className="run-menu-list" aria-label="Runs">
          <RunLinks {...{ starts, shownRun }} onChoose={close} />
        </nav>
      )}
    </div>
  );
}

interface RunLinksProps {
  readonly starts: readonly TimelineEntry[];
  readonly shownRun: number;
  readonly onChoose?: () => void;
}

function RunLinks({ starts, shownRun, onChoose }: RunLinksProps) {
  const list = useRef<HTMLOListElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when another run is on the screen.
  useEffect(() => {
    const shown = list.current?.querySelector<HTMLElement>('[aria-current]');
    const box = list.current;
    // Not `scrollIntoView`, which scrolls the page, too.
    if (shown && box) box.scrollTop = shown.offsetTop - box.clientHeight / 2;
  }, [shownRun]);
  return (
    <ol ref={list}>
      {starts.map(({ runId, sequence, at }) => (
        <li key={sequence}>
          <a
            href={`#e${sequence}`}
            aria-current={Number(runId) === shownRun ? 'true' : undefined}
            onClick={onChoose}
          >
            <strong>Run {runId}</strong> <time dateTime={at}>{clock(at)}</time>
          </a>
        </li>
      ))}
    </ol>
  );
}
