import type { AgentId, MusterClient, TimelineEntry } from '@muster/sdk';
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { connection } from '../../../session/connection.ts';
import { reportError } from '../../../session/session.ts';
import { withLiveTexts } from '../model/live-rows.ts';
import { Rows } from '../model/rows.ts';
import { type TimelineSource, TimelineWindow } from '../model/timeline-window.ts';

export function useTimeline(
  client: MusterClient,
  agentId: AgentId,
  around: number | undefined,
  onNewEntries: (entries: readonly TimelineEntry[]) => void,
) {
  const callback = useRef(onNewEntries);
  callback.current = onNewEntries;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the agent does not change, and `around` is only the start.
  const { window, builder } = useMemo(() => {
    const source = timelineSource(client, agentId);
    const created = new TimelineWindow({
      source,
      around,
      onNewEntries: (entries) => callback.current(entries),
    });
    return { window: created, builder: new Rows() };
  }, [client]);
  useEffect(() => window.start(), [window]);
  const view = useSyncExternalStore(window.subscribe, window.view);
  useEffect(() => reportError(view.error), [view.error]);

  const [foundTexts, setFoundTexts] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a found text changes the rows of the same entries.
  const stored = useMemo(() => builder.update(view.entries), [builder, view.entries, foundTexts]);
  // Live texts come after the newest entry.
  const rows = useMemo(
    () => (view.isAtEnd ? withLiveTexts(stored, view.liveTexts) : stored),
    [stored, view.isAtEnd, view.liveTexts],
  );
  const indexOf = useCallback((sequence: number) => builder.indexOf(sequence), [builder]);

  const requested = useRef(new Set<string>());
  // biome-ignore lint/correctness/useExhaustiveDependencies: the agent does not change.
  const findMessageText = useCallback(
    (followUpId: string) => {
      const first = Number(window.view().entries[0]?.sequence ?? 0);
      if (requested.current.has(followUpId) || first <= 1) return;
      requested.current.add(followUpId);
      loadMessageText(client, agentId, followUpId, first).then(
        (text) => {
          if (text === undefined) return;
          builder.setMessageText(followUpId, text);
          setFoundTexts((count) => count + 1);
        },
        () => requested.current.delete(followUpId),
      );
    },
    [builder, client, window],
  );
  return { window, view, rows, indexOf, findMessageText };
}

const timelineSource = (client: MusterClient, agentId: AgentId): TimelineSource => ({
  before: async (before, limit, signal) =>
    (await client.timeline(agentId, { before, limit, signal })).entries,
  after: async (after, limit, signal) => (await client.timeline(agentId, { after, limit, signal })).entries,
  stream: async function* (after, signal, onPartial) {
    const onOpen = () => connection.restored('timelineStream');
    try {
      yield* client.timelineStream(agentId, { after, signal, onOpen, onPartial });
    } finally {
      connection.restored('timelineStream');
    }
  },
});

const maxPages = 5;

/** Only the entry of the queued message has its text, and the delivery may be thousands of entries later. */
async function loadMessageText(
  client: MusterClient,
  agentId: AgentId,
  followUpId: string,
  before: number,
): Promise<string | undefined> {
  let first = before;
  for (let page = 0; page < maxPages && first > 1; page++) {
    const { entries } = await client.timeline(agentId, {
      before: first,
      types: ['FOLLOW_UP_QUEUED', 'FOLLOW_UP_DEFERRED'],
      limit: 1000,
    });
    const queued = entries.findLast((entry) => entry.followUpId === followUpId && entry.text !== '');
    if (queued) return queued.text;
    first = Number(entries[0]?.sequence ?? 0);
  }
  return undefined;
}

export interface EntryTarget {
  readonly sequence: number;
  /** Found by a search, so all of its text is shown. */
  readonly isMatch?: boolean;
}

/** The entry in the address, as `#e123`, or of a search. Each navigation gives a new object. */
export function useEntryTarget(isLinked: boolean) {
  const [target, setTarget] = useState<EntryTarget | null>(() => (isLinked ? targetOfAddress() : null));
  useEffect(() => {
    if (!isLinked) return;
    const onHashChange = () => setTarget(targetOfAddress());
    addEventListener('hashchange', onHashChange);
    return () => removeEventListener('hashchange', onHashChange);
  }, [isLinked]);
  /** Also clears the address, so that a reload does not return to the entry. */
  const clear = useCallback(() => {
    setTarget(null);
    if (isLinked && targetOfAddress())
      history.replaceState(history.state, '', location.pathname + location.search);
  }, [isLinked]);
  const showMatch = useCallback((sequence: number) => setTarget({ sequence, isMatch: true }), []);
  return { target, clear, showMatch };
}

function targetOfAddress(): EntryTarget | null {
  const [, digits] = /^#e(\d{1,15})$/.exec(location.hash) ?? [];
  return digits === undefined ? null : { sequence: Number(digits) };
}
