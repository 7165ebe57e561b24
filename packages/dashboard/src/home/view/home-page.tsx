import type { Caller } from '@muster/sdk';
import {
  lazy,
  Suspense,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react';
import { Link } from 'wouter';
import { type Fleet, useFleet } from '../../live/fleet.ts';
import { attentionTitles, type EndedWindow, endedWindows, isSeen } from '../../live/model/attention.ts';
import { Button, CopyButton } from '../../parts/button.tsx';
import { plural } from '../../parts/model/text.ts';
import { Empty, useShortcuts } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useInstallation } from '../../session/installation.ts';
import { useSignedIn } from '../../session/session.ts';
import { SetupSlot } from '../../setup/view/setup-slot.tsx';
import { maySpawn } from '../../spawn/open-spawn.ts';
import type { Summary } from '../model/arrange.ts';
import { type Filter, listUrl, ownerOf } from '../model/filter.ts';
import { ListOrder } from '../model/list-order.ts';
import { AgentList } from './agent-list.tsx';
import { FilterBar, type FilterControl, StatusFilter, useFilter } from './filter-bar.tsx';
import { SavedViews } from './saved-views.tsx';
import { useSelection } from './use-selection.ts';
import '../home.css';

/** Loaded with the first selection. */
const SelectionBar = lazy(async () => ({
  default: (await import('../bulk/selection-bar.tsx')).SelectionBar,
}));

/** The live list of all agents at every depth. Agents that need a person are at the top. */
export function HomePage({ onSpawn }: { readonly onSpawn: () => void }) {
  const fleet = useFleet();
  const { caller } = useSignedIn();
  const control = useFilter();
  const { filter, url } = control;
  const order = useMemo(() => new ListOrder(fleet, caller), [fleet, caller]);
  const { sections, summary, isBehind, isLoaded, error } = useSyncExternalStore(order.subscribe, () =>
    order.view(filter),
  );
  const { onUpdateOrder, ...actions } = useListActions(fleet, order);
  const selection = useSelection(sections, url);
  const field = useRef<HTMLInputElement>(null);
  const body = useRef<HTMLDivElement>(null);
  useShortcuts({ '/': () => field.current?.focus() });
  // Effects of children run first: on the first render the stream is not open yet, so it opens only once.
  useEffect(() => fleet.showEnded(filter.ended), [fleet, filter.ended]);

  const { owners, scope } = summary;
  const isEmpty = summary.totals.everyone === 0;
  const hasOthers = owners.some((owner) => owner !== ownerOf(caller));
  return (
    <div className="home-page">
      <HomeTop {...{ control, summary }} />
      <SetupSlot />
      <AttentionStatus count={isLoaded ? summary.needingAttention : null} />
      {!isEmpty && (
        <FilterBar
          {...{ control, summary, isLoaded, isBehind, field, onUpdateOrder }}
          hasScopes={hasOthers && maySpawn(caller)}
          onLeave={() => body.current?.querySelector<HTMLElement>('li a[tabindex="0"]')?.focus()}
        />
      )}
      <div ref={body}>
        <Problem error={error}>
          <Button onClick={() => fleet.restart()}>Try again</Button>
        </Problem>
        {isLoaded && <NothingListed {...{ control, summary, caller, onSpawn }} />}
        {isEmpty && !isLoaded && error === null && <p className="page-loading">Loading agents …</p>}
        {summary.shown > 0 && (
          <AgentList
            key={url}
            sections={sections}
            group={filter.group}
            {...{ owners, selection, isLoaded, ...actions }}
            showsOwner={scope === 'everyone' && owners.length > 1 && filter.group !== 'person'}
            showsRehearsals={!areMostRehearsed(summary)}
            showsWorkspace={summary.workspaces.length > 1 && filter.group !== 'workspace'}
          />
        )}
        {isLoaded && <EndedNote filter={filter} />}
      </div>
      {selection.pages.size > 0 && (
        <Suspense>
          <SelectionBar {...{ selection, body }} onMarkAllSeen={actions.onMarkAllSeen} />
        </Suspense>
      )}
    </div>
  );
}

/** The user's own actions update the order immediately, even while it is held. */
function useListActions(fleet: Fleet, order: ListOrder) {
  const onBusy = useCallback(() => order.hold(), [order]);
  const onUpdateOrder = useCallback(() => order.updateNow(), [order]);
  const onToggleSeen = useCallback(
    (page: string) => {
      const entry = fleet.agent(page);
      if (!entry) return;
      fleet.mark([[page, { agentId: entry.agentId, seen: isSeen(entry) ? '0' : entry.sequence }]]);
      order.updateNow();
    },
    [fleet, order],
  );
  const onTogglePin = useCallback(
    (page: string) => {
      const entry = fleet.agent(page);
      if (!entry) return;
      fleet.mark([[page, { agentId: entry.agentId, pinned: !entry.pinned }]]);
      order.updateNow();
    },
    [fleet, order],
  );
  const onMarkAllSeen = useCallback(
    (pages: readonly string[]) => {
      fleet.mark(
        pages.flatMap((page) => {
          const entry = fleet.agent(page);
          return entry ? [[page, { agentId: entry.agentId, seen: entry.sequence }] as const] : [];
        }),
      );
      order.updateNow();
    },
    [fleet, order],
  );
  return { onBusy, onUpdateOrder, onToggleSeen, onTogglePin, onMarkAllSeen };
}

type HomeTopProps = Pick<Parameters<typeof FilterBar>[0], 'control' | 'summary'>;

const HomeTop = ({ control: { filter, url, change }, summary }: HomeTopProps) => (
  <div className="home-top">
    <h1>Agents</h1>
    <SavedViews url={url} />
    <StatusFilter chosen={filter.phases} counts={summary.counts} onChange={(phases) => change({ phases })} />
    <RehearsalNote summary={summary} />
    <SandboxNote summary={summary} />
  </div>
);

const AttentionStatus = ({ count }: { readonly count: number | null }) => (
  <p className="visually-hidden" role="status">
    {count === 0 && 'No agent needs attention.'}
    {count !== null && count > 0 && `${plural(count, 'agent')} ${count === 1 ? 'needs' : 'need'} attention.`}
  </p>
);

interface NothingListedProps extends NoMatchesProps {
  readonly caller: Caller;
  readonly onSpawn: () => void;
}

function NothingListed({ control, summary, caller, onSpawn }: NothingListedProps) {
  if (summary.totals.everyone === 0) return <NoAgents maySpawn={maySpawn(caller)} onSpawn={onSpawn} />;
  return summary.shown === 0 && <NoMatches control={control} summary={summary} />;
}

const areMostRehearsed = ({ rehearsed, total }: Summary): boolean => rehearsed * 2 > total;

const dismissedKey = 'muster.rehearsals-known';

/** If most agents are rehearsed, the provider key may be missing. */
function RehearsalNote({ summary }: { readonly summary: Summary }) {
  const [isKnown, setKnown] = useState(() => localStorage.getItem(dismissedKey) !== null);
  if (isKnown || !areMostRehearsed(summary)) return null;
  const { rehearsed, total } = summary;
  const dismiss = () => {
    localStorage.setItem(dismissedKey, '1');
    setKnown(true);
  };
  const all = total === 1 ? 'This agent is a rehearsal' : `All ${total} agents are rehearsals`;
  return (
    <p className="home-rehearsal">
      {rehearsed === total ? all : `${rehearsed} of ${total} agents are rehearsals`}: scripted, without a
      model. Set a provider key on the service to use real models.{' '}
      <Button look="quiet" onClick={dismiss}>
        Dismiss
      </Button>
    </p>
  );
}

function SandboxNote({ summary: { unsandboxed, total } }: { readonly summary: Summary }) {
  if (unsandboxed === 0) return null;
  const who = total === 1 ? 'this agent runs' : `${unsandboxed} of these ${total} agents run`;
  return (
    <p className="home-unsandboxed">
      No sandbox: {who} with all permissions of the runner’s user. Install bubblewrap on the runner’s machine.
    </p>
  );
}

const NoAgents = ({
  maySpawn: isAllowed,
  onSpawn,
}: {
  readonly maySpawn: boolean;
  readonly onSpawn: () => void;
}) => (
  <Empty title="No agents yet">
    <p>
      This page lists all agents and their children. Agents that need input, failed or have unfinished tasks
      come first.
    </p>
    {isAllowed && (
      <>
        <Button look="primary" onClick={onSpawn}>
          <span aria-hidden="true">+</span> New agent
        </Button>
        <ExampleCommand />
      </>
    )}
  </Empty>
);

function ExampleCommand() {
  const installation = useInstallation();
  if (!installation) return null;
  const command = `${installation.command} spawn "Fix the flaky login test." --follow`;
  return (
    <>
      <p>Or in a terminal on the service’s machine, in the folder of the service:</p>
      <pre>
        <code>{command}</code>
      </pre>
      <CopyButton text={command} label="Copy command" />
    </>
  );
}

interface NoMatchesProps {
  readonly control: Pick<FilterControl, 'filter' | 'change' | 'clear'>;
  readonly summary: Pick<Summary, 'scope' | 'totals' | 'shown'>;
}

function NoMatches({ control: { filter, change, clear }, summary: { scope, totals } }: NoMatchesProps) {
  const filters = filterTexts(filter);
  const others = totals.everyone - totals.mine;
  return (
    <Empty title={filters.length > 0 ? 'No matching agents' : 'You have no agents'}>
      {filters.length > 0 && (
        <>
          <p dir="auto">No agent matches: {filters.join(', ')}.</p>
          <Button onClick={clear}>Clear filters</Button>
        </>
      )}
      {scope === 'mine' && others > 0 && (
        <>
          <p>Agents of other people are not listed.</p>
          <Button onClick={() => change({ scope: 'everyone' })}>Show everyone’s agents</Button>
        </>
      )}
    </Empty>
  );
}

function filterTexts({ text, owner, workspace, phases, labels }: Filter): string[] {
  const texts: string[] = [];
  if (text !== '') texts.push(`text “${text}”`);
  if (owner !== '') texts.push(`person ${owner.slice(owner.indexOf('/') + 1)}`);
  if (workspace !== '') texts.push(`workspace ${workspace}`);
  texts.push(...labels.map((label) => `label ${label}`));
  if (phases.length > 0) texts.push(`status ${phases.map((phase) => attentionTitles[phase]).join(' or ')}`);
  return texts;
}

/** Below the list: which ended agents it includes, and how to list more. */
const EndedNote = ({ filter }: { readonly filter: Filter }) => (
  <p className="ended-note wrap">
    {filter.ended === 'all'
      ? 'Showing all ended agents.'
      : `Showing agents that ended in the last ${filter.ended === '7d' ? 7 : 30} days.`}{' '}
    {endedWindows
      .filter((window) => window !== filter.ended)
      .map((window) => (
        <Link key={window} href={listUrl({ ...filter, ended: window })}>
          {windowTitles[window]}
        </Link>
      ))}
  </p>
);

const windowTitles: Readonly<Record<EndedWindow, string>> = {
  '7d': 'Show 7 days',
  '30d': 'Show 30 days',
  all: 'Show all',
};
