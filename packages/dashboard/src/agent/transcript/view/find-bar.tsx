import type { TimelineEntry } from '@muster/sdk';
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from 'react';
import { Button } from '../../../parts/button.tsx';
import { Problem } from '../../../parts/problem.tsx';
import {
  countText,
  type SearchScope,
  type SearchView,
  searchScopes,
  TranscriptSearch,
} from '../model/transcript-search.ts';
import { markMatches } from './match-marks.ts';
import { useTranscript } from './transcript-context.ts';

const pageEntries = 200;
const typingMs = 200;

export interface FindBarProps {
  readonly scroller: HTMLElement | null;
  readonly onShow: (sequence: number) => void;
  /** What is searched for, for the list: a long row is scrolled to the text itself. */
  readonly onText: (text: string) => void;
  readonly onClose: () => void;
  /** Changes each time the reader asks for the search. */
  readonly opened: number;
  /** Calls back with new entries, until the returned function is called. */
  readonly watchEntries: (watch: (entries: readonly TimelineEntry[]) => void) => () => void;
}

/** Searches the whole transcript, of which the page may have loaded a part. */
export function FindBar({ scroller, onShow, onText, onClose, opened, watchEntries }: FindBarProps) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState('');
  const [scope, setScope] = useState<SearchScope>('all');
  const { search, view } = useSearch(watchEntries);
  const isEmpty = text.trim() === '' && scope === 'all';

  // biome-ignore lint/correctness/useExhaustiveDependencies: focuses each time.
  useEffect(() => input.current?.select(), [opened]);
  useEffect(() => {
    const timer = setTimeout(() => search.search({ text, scope }), typingMs);
    return () => clearTimeout(timer);
  }, [search, text, scope]);
  useEffect(() => onText(text), [onText, text]);
  useEffect(
    () => (scroller && text.trim() !== '' ? markMatches(scroller, text) : undefined),
    [scroller, text],
  );
  const { current } = view;
  useEffect(() => {
    if (current !== null) onShow(current);
  }, [onShow, current]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') onClose();
    if (event.key === 'Enter' && event.target === input.current) search.move(event.shiftKey ? -1 : 1);
  };
  return (
    <search className="find-bar" aria-label="Search in the transcript" onKeyDown={onKeyDown}>
      <input
        ref={input}
        type="search"
        aria-label="Search in the transcript"
        placeholder="Search in the transcript"
        maxLength={256}
        dir="auto"
        value={text}
        onChange={({ currentTarget }) => setText(currentTarget.value)}
      />
      <select
        aria-label="Search in"
        value={scope}
        onChange={({ currentTarget }) => setScope(currentTarget.value as SearchScope)}
      >
        {Object.entries(searchScopes).map(([name, [title]]) => (
          <option key={name} value={name}>
            {title}
          </option>
        ))}
      </select>
      <MatchButtons search={search} view={view} isEmpty={isEmpty} />
      <Button look="quiet" aria-label="Close search" title="Close (Escape)" onClick={onClose}>
        ✕
      </Button>
      <Problem error={view.error}>
        <Button onClick={() => search.tryAgain()}>Try again</Button>
      </Problem>
    </search>
  );
}

function MatchButtons({
  search,
  view,
  isEmpty,
}: {
  readonly search: TranscriptSearch;
  readonly view: SearchView;
  /** Nothing is searched for. */
  readonly isEmpty: boolean;
}) {
  const disabled = view.matches.length === 0;
  const move = (step: 1 | -1) => () => search.move(step);
  return (
    <>
      <span className="find-count secondary" role="status" title="Counted from the newest match">
        {!isEmpty && countText(view)}
      </span>
      <Button
        look="quiet"
        aria-label="Previous match"
        title="Previous match (Enter)"
        {...{ disabled }}
        onClick={move(1)}
      >
        ↑
      </Button>
      <Button
        look="quiet"
        aria-label="Next match"
        title="Next match (Shift+Enter)"
        {...{ disabled }}
        onClick={move(-1)}
      >
        ↓
      </Button>
    </>
  );
}

function useSearch(watchEntries: FindBarProps['watchEntries']) {
  const { agentId, client } = useTranscript();
  const [view, setView] = useState<SearchView>();
  const search = useMemo(
    () =>
      new TranscriptSearch(
        ({ text, types }, before, signal) =>
          client.timeline(agentId, { text, types, before, limit: pageEntries, signal }),
        setView,
      ),
    [agentId, client],
  );
  useEffect(() => () => search.stop(), [search]);
  useEffect(() => watchEntries((entries) => search.add(entries)), [search, watchEntries]);
  return { search, view: view ?? search.view };
}
