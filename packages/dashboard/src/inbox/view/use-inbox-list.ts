import type { AgentEntry } from '@muster/sdk';
import { agentOfPage } from '@muster/sdk/contract';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useSearchParams } from 'wouter';
import { type Fleet, useFleet } from '../../live/fleet.ts';
import { useInbox, useIsFleetLoaded } from '../../live/inbox.ts';
import {
  type InboxItem,
  type InboxScope,
  inboxSectionOf,
  keepingCurrent,
  stepFrom,
} from '../../live/model/inbox.ts';

export interface InboxControl {
  readonly scope: InboxScope;
  readonly counts: Readonly<Record<InboxScope, number>>;
  readonly items: readonly InboxItem[];
  readonly isLoaded: boolean;
  /** The page of the agent that is shown. */
  readonly current: string | null;
  readonly chooseScope: (scope: InboxScope) => void;
  readonly go: (page: string | null) => void;
  readonly step: (by: 1 | -1) => void;
  readonly onAnswered: () => void;
  readonly markSeen: () => void;
  /** What was done last, and how to take it back. */
  readonly done: Done | null;
  /** While the person types or points, the list stays as it is. */
  readonly hold: (cause: 'typing' | 'pointing', isOn: boolean) => void;
}

interface Done {
  readonly text: string;
  readonly undo?: () => void;
}

/** The address has the scope and the agent, so that a reload and "back" show the same. */
function useAddress() {
  const [parameters, setParameters] = useSearchParams();
  const scope: InboxScope = parameters.get('scope') === 'everyone' ? 'everyone' : 'mine';
  const set = useCallback(
    (name: 'scope' | 'agent', value: string | null) =>
      setParameters(
        (before) => {
          const after = new URLSearchParams(before);
          if (name === 'scope') after.delete('agent');
          if (value === null) after.delete(name);
          else after.set(name, value);
          return after;
        },
        { replace: true },
      ),
    [setParameters],
  );
  return { scope, current: parameters.get('agent'), set };
}

/** Answered agents need the person until the service has noticed; the list leaves them out immediately. */
function useAnswered(agent: (page: string) => AgentEntry | undefined) {
  const [answered, setAnswered] = useState<ReadonlyMap<string, string>>(new Map());
  const isOpen = useCallback(
    ({ page }: InboxItem) => {
      const since = answered.get(page);
      return since === undefined || since !== agent(page)?.phaseSince;
    },
    [answered, agent],
  );
  const add = useCallback(
    (page: string) => setAnswered((before) => new Map(before).set(page, agent(page)?.phaseSince ?? '')),
    [agent],
  );
  return { isOpen, add };
}

function useHold() {
  const [causes, setCauses] = useState<ReadonlySet<string>>(new Set());
  const hold = useCallback<InboxControl['hold']>((cause, isOn) => {
    setCauses((before) => {
      if (before.has(cause) === isOn) return before;
      const after = new Set(before);
      if (!after.delete(cause)) after.add(cause);
      return after;
    });
  }, []);
  return { isHeld: causes.size > 0, hold };
}

export function useInboxList(): InboxControl {
  const fleet = useFleet();
  const { scope, current, set } = useAddress();
  const isLoaded = useIsFleetLoaded();
  const all = useInbox();
  const answered = useAnswered(fleet.agent);
  const { isHeld, hold } = useHold();
  const [done, setDone] = useState<Done | null>(null);
  const shown = useRef<{ readonly scope: InboxScope; readonly items: readonly InboxItem[] } | null>(null);

  const items = useMemo(() => {
    const before = shown.current?.scope === scope ? shown.current.items : [];
    if (isHeld && before.length > 0) return before.filter(answered.isOpen);
    return keepingCurrent(all[scope].filter(answered.isOpen), before, current);
  }, [all, scope, answered.isOpen, isHeld, current]);
  shown.current = { scope, items };

  const go = useCallback(
    (page: string | null) => {
      hold('typing', false);
      setDone(null);
      set('agent', page);
    },
    [hold, set],
  );
  // The list is a moment behind what was just marked.
  const first = items.find(({ page }) => needsPersonNow(fleet.agent(page)))?.page;
  // The newest list may begin with another one, so the first choice is fixed.
  useEffect(() => {
    if (isLoaded && current === null && first !== undefined) set('agent', first);
  }, [isLoaded, current, first, set]);

  const actions = useInboxActions(fleet, items, current, (next, what) => {
    go(next);
    setDone(what);
  });
  const onAnswered = () => {
    if (current !== null) answered.add(current);
    actions.onAnswered();
  };
  return {
    scope,
    counts: { mine: all.mine.length, everyone: all.everyone.length },
    ...{ items, isLoaded, current, go, done, hold, ...actions, onAnswered },
    chooseScope: (chosen) => set('scope', chosen === 'mine' ? null : chosen),
  };
}

/** Each shows the next agent. */
function useInboxActions(
  fleet: Fleet,
  items: readonly InboxItem[],
  current: string | null,
  show: (page: string | null, done: Done | null) => void,
) {
  const finish = (done: Done) => show(stepFrom(items, current, 1), done);
  return {
    step: (by: 1 | -1) => {
      const next = stepFrom(items, current, by);
      if (next !== null) show(next, null);
    },
    onAnswered: () => current !== null && finish({ text: `Sent to ${nameIn(current)}.` }),
    markSeen: () => {
      const entry = current === null ? undefined : fleet.agent(current);
      if (current === null || !entry) return;
      const { agentId, sequence, seen } = entry;
      fleet.mark([[current, { agentId, seen: sequence }]]);
      finish({
        text: `${nameIn(current)} is marked seen.`,
        undo: () => {
          fleet.mark([[current, { agentId, seen: seen === sequence ? '0' : seen }]]);
          show(current, null);
        },
      });
    },
  };
}

const needsPersonNow = (entry: AgentEntry | undefined): boolean =>
  entry !== undefined && inboxSectionOf(entry) !== null;

const nameIn = (page: string): string => agentOfPage(page)?.agent.at(-1) ?? '';
