import type { MusterClient } from '@muster/sdk';
import type { AgentId, TimelineEntry } from '@muster/sdk/contract';
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { reportError } from '../../session/session.ts';
import { findMessageWords } from './message-words.ts';
import { type Row, Rows } from './rows.ts';
import { timelineSource } from './timeline-source.ts';
import { type TimelineView, TimelineWindow } from './timeline-window.ts';

export interface Timeline {
  readonly window: TimelineWindow;
  readonly view: TimelineView;
  readonly rows: readonly Row[];
  readonly placeOf: (sequence: number) => number | undefined;
  readonly findWords: (followUpId: string) => void;
}

/** The window on an agent's timeline for as long as it is looked at, and its rows. */
export function useTimeline(
  client: MusterClient,
  agentId: AgentId,
  around: number | undefined,
  onNews: (entries: readonly TimelineEntry[]) => void,
): Timeline {
  const tell = useRef(onNews);
  tell.current = onNews;
  // biome-ignore lint/correctness/useExhaustiveDependencies: one window is for one agent; `around` is where it opens.
  const { window, builder } = useMemo(() => {
    const source = timelineSource(client, agentId);
    const made = new TimelineWindow({ source, around, onNews: (entries) => tell.current(entries) });
    return { window: made, builder: new Rows() };
  }, [client]);
  useEffect(() => window.start(), [window]);
  const view = useSyncExternalStore(window.subscribe, window.view);
  useEffect(() => reportError(view.error), [view.error]);

  const [learned, setLearned] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was learned changes the rows of the same entries.
  const rows = useMemo(() => builder.update(view.entries), [builder, view.entries, learned]);
  const placeOf = useCallback((sequence: number) => builder.placeOf(sequence), [builder]);

  const wanted = useRef(new Set<string>());
  // biome-ignore lint/correctness/useExhaustiveDependencies: one window is for one agent.
  const findWords = useCallback(
    (followUpId: string) => {
      const { entries } = window.view();
      const first = Number(entries[0]?.sequence ?? 0);
      if (wanted.current.has(followUpId) || first <= 1) return;
      wanted.current.add(followUpId);
      // Without its words the message still says where they stand.
      findMessageWords(client, agentId, followUpId, first).then(
        (words) => {
          if (words === undefined) return;
          builder.learn(followUpId, words);
          setLearned((times) => times + 1);
        },
        () => wanted.current.delete(followUpId),
      );
    },
    [builder, client, window],
  );
  return { window, view, rows, placeOf, findWords };
}
