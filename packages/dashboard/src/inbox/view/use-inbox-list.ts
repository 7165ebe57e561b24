import type { AgentEntry } from '@muster/sdk';
import { agentOfPage } from '@muster/sdk/contract';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useSearchParams } from 'wouter';
import { useFleet } from '../../live/fleet.ts';
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

export function useInboxList(): InboxControl {
  const fleet = useFleet();
  const { scope, current, set } = useAddress();
  const isLoaded = useIsFleetLoaded();
  const all = useInbox();
  const answered = useAnswered(fleet.agent);
  const [held, setHeld] = useState<ReadonlySet<string>>(new Set());
  const [done, setDone] = useState<Done | null>(null);
  const shown = useRef<{ readonly scope: InboxScope; readonly items: readonly InboxItem[] } | null>(null);

  const items = useMemo(() => {
    const before = shown.current?.scope === scope ? shown.current.items : [];
    const isHeld = held.size > 0 && before.length > 0;
    const open = all[scope].filter(answered.isOpen);
    return isHeld ? before.filter(answered.isOpen) : keepingCurrent(open, before, current);
  }, [all, scope, answered.isOpen, held, current]);
  shown.current = { scope, items };

  const hold = useCallback<InboxControl['hold']>((cause, isOn) => {
    setHeld((before) => {
      if (before.has(cause) === isOn) return before;
      const after = new Set(before);
      if (!after.delete(cause)) after.add(cause);
      return after;
    });
  }, []);
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

  const step = (by: 1 | -1) => {
    const next = stepFrom(items, current, by);
    if (next !== null) go(next);
  };
  const finish = (text: string, undo?: () => void) => {
    const next = stepFrom(items, current, 1);
    go(next);
    setDone({ text, ...(undo && { undo }) });
  };
  const onAnswered = () => {
    if (current === null) return;
    answered.add(current);
    finish(`Sent to ${nameIn(current)}.`);
  };
  const markSeen = () => {
    const entry = current === null ? undefined : fleet.agent(current);
    if (current === null || !entry) return;
    const { agentId, sequence, seen } = entry;
    fleet.mark([[current, { agentId, seen: sequence }]]);
    finish(`${nameIn(current)} is marked seen.`, () => {
      fleet.mark([[current, { agentId, seen: seen === sequence ? '0' : seen }]]);
      go(current);
    });
  };
  return {
    scope,
    counts: { mine: all.mine.length, everyone: all.everyone.length },
    ...{ items, isLoaded, current, go, step, onAnswered, markSeen, done, hold },
    chooseScope: (chosen) => set('scope', chosen === 'mine' ? null : chosen),
  };
}

const needsPersonNow = (entry: AgentEntry | undefined): boolean =>
  entry !== undefined && inboxSectionOf(entry) !== null;

const nameIn = (page: string): string => agentOfPage(page)?.agent.at(-1) ?? '';
