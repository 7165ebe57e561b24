import { useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from 'react';
import { type Fleet, useFleet } from '../live/fleet.ts';
import { seenAgents } from '../live/seen.ts';
import { Button } from '../parts/button.tsx';
import { useTitle } from '../parts/page.tsx';
import { Problem } from '../parts/problem.tsx';
import { useShortcuts } from '../parts/shortcuts.ts';
import { useSignedIn } from '../session/session.ts';
import { maySpawn } from '../spawn/open-spawn.ts';
import { AgentList } from './agent-list.tsx';
import type { Summary } from './arrange.ts';
import { NoAgents, NoneFits } from './empty-list.tsx';
import { EndedNote } from './ended-note.tsx';
import { FilterBar } from './filter-bar.tsx';
import { Roster } from './roster.ts';
import { StateFilter } from './state-filter.tsx';
import { useFilter } from './use-filter.ts';
import './home-page.css';

/** One live list of all agents at every depth, those that need a person first. */
export function HomePage({ onSpawn }: { readonly onSpawn: () => void }) {
  const fleet = useFleet();
  const { caller } = useSignedIn();
  const control = useFilter();
  const { filter, address } = control;
  const roster = useMemo(() => new Roster(fleet, seenAgents), [fleet]);
  const { sections, summary, isBehind, isLoaded, error } = useSyncExternalStore(roster.subscribe, () =>
    roster.view(filter),
  );
  const { onBusy, onSettle, onToggleSeen, onSeeAll } = useListCommands(fleet, roster);
  const field = useRef<HTMLInputElement>(null);
  const body = useRef<HTMLDivElement>(null);
  useShortcuts({ '/': () => field.current?.focus() });
  // A tab in the background tells by its title how many need a person.
  useTitle(summary.needed > 0 ? `(${summary.needed}) Muster` : 'Muster');
  // The parts of a page are told before the page that holds them: on arrival the stream is not yet open, and opens once.
  useEffect(() => fleet.showEnded(filter.ended), [fleet, filter.ended]);

  const isEmpty = summary.total === 0;
  return (
    <div className="home-page">
      <div className="home-top">
        <h1>Agents</h1>
        <StateFilter
          chosen={filter.phases}
          counts={summary.counts}
          onChange={(phases) => control.change({ phases })}
        />
        <RehearsalNote summary={summary} />
        <SandboxNote summary={summary} />
      </div>
      <p className="visually-hidden" role="status">
        {isLoaded && neededWords(summary.needed)}
      </p>
      {!isEmpty && (
        <FilterBar
          control={control}
          summary={summary}
          isLoaded={isLoaded}
          isBehind={isBehind}
          field={field}
          onSettle={onSettle}
          onLeave={() => body.current?.querySelector<HTMLElement>('li a[tabindex="0"]')?.focus()}
        />
      )}
      <div ref={body}>
        <Problem error={error}>
          <Button onClick={() => fleet.restart()}>Try again</Button>
        </Problem>
        {isEmpty && !isLoaded && error === null && <p className="home-filling">Looking for agents …</p>}
        {isEmpty && isLoaded && <NoAgents mayCommand={maySpawn(caller)} onSpawn={onSpawn} />}
        {!isEmpty && isLoaded && summary.shown === 0 && (
          <NoneFits filter={filter} total={summary.total} onClear={control.clear} />
        )}
        {summary.shown > 0 && (
          <AgentList
            key={address}
            sections={sections}
            isLoaded={isLoaded}
            showsOwner={summary.owners.length > 1}
            showsWorkspace={summary.workspaces.length > 1}
            onBusy={onBusy}
            onToggleSeen={onToggleSeen}
            onSeeAll={onSeeAll}
          />
        )}
        {isLoaded && <EndedNote filter={filter} />}
      </div>
    </div>
  );
}

/** What the reader does to the list. What it does on purpose is seen at once, even while the order is held. */
function useListCommands(fleet: Fleet, roster: Roster) {
  const onBusy = useCallback(() => roster.hold(), [roster]);
  const onSettle = useCallback(() => roster.settle(), [roster]);
  const onToggleSeen = useCallback(
    (page: string) => {
      const entry = fleet.agent(page);
      if (!entry) return;
      if (seenAgents.isSeen(page, entry)) seenAgents.unmark(page);
      else seenAgents.mark([[page, entry]]);
      roster.settle();
    },
    [fleet, roster],
  );
  const onSeeAll = useCallback(
    (pages: readonly string[]) => {
      seenAgents.mark(
        pages.flatMap((page) => {
          const entry = fleet.agent(page);
          return entry ? [[page, entry] as const] : [];
        }),
      );
      roster.settle();
    },
    [fleet, roster],
  );
  return { onBusy, onSettle, onToggleSeen, onSeeAll };
}

const neededWords = (needed: number): string =>
  needed === 0 ? 'No agent needs you.' : `${needed} ${needed === 1 ? 'agent needs' : 'agents need'} you.`;

/** When most of the fleet is played, somebody may have forgotten the key. */
function RehearsalNote({ summary: { rehearsed, total } }: { readonly summary: Summary }) {
  if (rehearsed * 2 <= total) return null;
  const who = rehearsed === total ? 'these agents' : `${rehearsed} of these ${total} agents`;
  return (
    <p className="home-rehearsal">
      No model is behind {who}: they rehearse. Give the service a provider’s key to run real ones.
    </p>
  );
}

function SandboxNote({ summary: { unsandboxed, total } }: { readonly summary: Summary }) {
  if (unsandboxed === 0) return null;
  const who = total === 1 ? 'this agent has' : `${unsandboxed} of these ${total} agents have`;
  return (
    <p className="home-unsandboxed">
      No sandbox: {who} all rights of the runner’s user. Install bubblewrap on the runner’s machine.
    </p>
  );
}
