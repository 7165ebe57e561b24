import type { TimelineEntry } from '@muster/sdk';
import { lazy, Suspense, useCallback, useRef, useState } from 'react';
import { Button, LineIcon } from '../../../parts/button.tsx';
import { useShortcuts } from '../../../parts/page.tsx';
import type { FindBarProps } from './find-bar.tsx';
import { useTranscript } from './transcript-context.ts';
import '../tools.css';

const FindBar = lazy(async () => ({ default: (await import('./find-bar.tsx')).FindBar }));
const ExportDialog = lazy(async () => ({ default: (await import('./export-dialog.tsx')).ExportDialog }));
const RunMenu = lazy(async () => ({ default: (await import('./run-rail.tsx')).RunMenu }));

type Watch = (entries: readonly TimelineEntry[]) => void;

/** Whether the search is open, and who gets new entries. */
export function useFind(onClose: () => void) {
  const [isOpen, setOpen] = useState(false);
  const [opened, setOpened] = useState(0);
  const [text, setText] = useState('');
  const watches = useRef(new Set<Watch>());
  const open = useCallback(() => {
    setOpen(true);
    setOpened((count) => count + 1);
  }, []);
  const close = () => {
    setOpen(false);
    setText('');
    onClose();
  };
  const watchEntries = useCallback((watch: Watch) => {
    watches.current.add(watch);
    return () => watches.current.delete(watch);
  }, []);
  const onEntries = (entries: readonly TimelineEntry[]) => {
    for (const watch of watches.current) watch(entries);
  };
  useShortcuts({ '/': open });
  return { isOpen, opened, text, setText, open, close, watchEntries, onEntries };
}

interface ToolbarProps extends Pick<FindBarProps, 'scroller' | 'onShow'> {
  readonly find: ReturnType<typeof useFind>;
  readonly newestRun: number;
  readonly shownRun: number;
}

/** Over the upper right corner of the transcript; the search, while it is open, is above the transcript. */
export function Toolbar({ find, scroller, onShow, newestRun, shownRun }: ToolbarProps) {
  const [isExporting, setExporting] = useState(false);
  const { agentId, client, isLinked } = useTranscript();
  return (
    <>
      {find.isOpen && (
        <Suspense>
          <FindBar
            {...{ scroller, onShow }}
            opened={find.opened}
            onText={find.setText}
            onClose={find.close}
            watchEntries={find.watchEntries}
          />
        </Suspense>
      )}
      <div className="transcript-tools">
        {newestRun > 1 && (
          <Suspense>
            <RunMenu {...{ newestRun, shownRun }} />
          </Suspense>
        )}
        {!find.isOpen && (
          <Button aria-label="Search in the transcript" title="Search (/)" onClick={find.open}>
            <LineIcon d="M7 2a5 5 0 1 0 0 10A5 5 0 0 0 7 2Zm3.7 8.7L14 14" size={14} />
          </Button>
        )}
        <Button aria-label="Export transcript" title="Export" onClick={() => setExporting(true)}>
          <LineIcon d="M8 2v8m-3.5-3.5L8 10l3.5-3.5M2.5 13.5h11" size={14} />
        </Button>
      </div>
      {isExporting && (
        <Suspense>
          <ExportDialog {...{ agentId, client, isLinked }} onClose={() => setExporting(false)} />
        </Suspense>
      )}
    </>
  );
}
