import type { AgentEntry } from '@muster/sdk';
import { dollars, firstLine, pathOf, taskText, thousands } from '@muster/sdk/contract';
import { type MouseEvent, memo, type RefObject, useId } from 'react';
import { useDescendantTotals, useFleetEntry } from '../../live/fleet.ts';
import { type Attention, attentionOf, isSeen as isEntrySeen, rowText } from '../../live/model/attention.ts';
import { hasFailingChecks, isOpen } from '../../live/model/change-requests.ts';
import { PinIcon, StatusIcon } from '../../live/status-icon.tsx';
import { labelTexts, plural, unpushedNote } from '../../parts/model/text.ts';
import { Label } from '../../parts/page.tsx';
import { Age, useNow } from '../../parts/times.tsx';
import '../agent-row.css';

interface AgentRowProps {
  readonly page: string;
  /** In pixels, from the first row of the section. */
  readonly top: number;
  readonly position: number;
  readonly setSize: number;
  /** The status that the heading of the section says. */
  readonly heading: Attention | null;
  readonly isSelected: boolean;
  readonly showsOwner: boolean;
  readonly showsWorkspace: boolean;
  readonly showsRehearsals: boolean;
  readonly isTabStop: boolean;
  readonly linkRef: RefObject<HTMLAnchorElement | null> | null;
  readonly onFocus: (page: string) => void;
  readonly onToggleSeen: (page: string) => void;
  readonly onTogglePin: (page: string) => void;
  readonly onSelect: (page: string, isRange: boolean) => void;
}

/** One agent. Renders again when this agent changes or moves, not when others do. */
export const AgentRow = memo(function AgentRow(props: AgentRowProps) {
  const { page, top, position, setSize, heading, isSelected, isTabStop, linkRef } = props;
  const { onFocus, onToggleSeen, onTogglePin, onSelect } = props;
  const entry = useFleetEntry(page);
  const descendants = useDescendantTotals(page);
  const reasonId = useId();
  if (!entry) return null;
  const isSeen = isEntrySeen(entry);
  const attention = attentionOf(entry, isSeen);
  // Nothing is new about an agent that was killed or scheduled.
  const isUnread = !isSeen && attention !== 'idle';
  const tabIndex = isTabStop ? 0 : -1;
  const { children, treeCost } = withDescendants(entry, descendants);
  return (
    <li
      className="agent-row"
      style={{ top }}
      aria-posinset={position}
      aria-setsize={setSize}
      data-attention={attention}
      data-unread={isUnread}
      data-selected={isSelected}
      onFocus={() => onFocus(page)}
    >
      <SeenToggle entry={entry} tabIndex={tabIndex} onToggle={() => onToggleSeen(page)} />
      <StatusIcon attention={attention} />
      <input
        type="checkbox"
        className="agent-row-select"
        tabIndex={tabIndex}
        aria-label={`Select ${pathOf(entry.agentId)}`}
        title="Select (x)"
        checked={isSelected}
        // A change event does not say whether Shift is down.
        onClick={(event: MouseEvent) => onSelect(page, event.shiftKey)}
        onChange={() => {}}
      />
      <div className="agent-row-name">
        <a href={page} ref={linkRef} tabIndex={tabIndex} aria-describedby={reasonId}>
          <Path agent={entry.agentId.agent} />
          {isUnread && <span className="visually-hidden">, unseen</span>}
        </a>
        <p className="agent-row-secondary">
          {secondaryTexts(entry, children, props).join(' · ')}
          {hasFailingChecks(entry.changeRequests) && (
            <span className="agent-row-failing"> · checks failing</span>
          )}
        </p>
      </div>
      <Status entry={entry} reasonId={reasonId} heading={heading} />
      <Model entry={entry} showsRehearsal={props.showsRehearsals && entry.rehearsed} />
      <Usage entry={entry} treeCost={treeCost} />
      <span className="agent-row-age secondary" title="Since the last change of status">
        <Age since={entry.phaseSince} />
      </span>
      <PinToggle entry={entry} onToggle={() => onTogglePin(page)} />
    </li>
  );
});

/** The entry may be older than its descendants' entries, and the page may not have all descendants. */
const withDescendants = (entry: AgentEntry, descendants: ReturnType<typeof useDescendantTotals>) => ({
  children: Math.max(entry.childCount, descendants.children),
  treeCost: Math.max(entry.treeCost, entry.cost + descendants.cost),
});

interface SeenToggleProps {
  readonly entry: AgentEntry;
  readonly tabIndex: number;
  readonly onToggle: () => void;
}

function SeenToggle({ entry, tabIndex, onToggle }: SeenToggleProps) {
  const isSeen = isEntrySeen(entry);
  return (
    <button
      type="button"
      className="agent-row-seen"
      tabIndex={tabIndex}
      aria-label={`Mark ${pathOf(entry.agentId)} ${isSeen ? 'unseen' : 'seen'}`}
      title={isSeen ? 'Mark unseen (s)' : 'Mark seen (s)'}
      onClick={onToggle}
    />
  );
}

interface PinToggleProps {
  readonly entry: AgentEntry;
  readonly onToggle: () => void;
}

/** No tab stop: the key `p` does the same for the selected agent. */
const PinToggle = ({ entry: { agentId, pinned }, onToggle }: PinToggleProps) => (
  <button
    type="button"
    className="agent-row-pin"
    tabIndex={-1}
    aria-pressed={pinned}
    aria-label={`Pin ${pathOf(agentId)}`}
    title={pinned ? 'Unpin (p)' : 'Pin (p)'}
    onClick={onToggle}
  >
    <PinIcon />
  </button>
);

/** `build / web`: the parents, then the agent's own name. */
function Path({ agent }: { readonly agent: readonly string[] }) {
  const parents = agent.slice(0, -1);
  return (
    <>
      {parents.length > 0 && <span className="agent-row-parents">{parents.join(' / ')}</span>}
      {parents.length > 0 && <span className="agent-row-separator"> / </span>}
      <span className="agent-row-own">{agent.at(-1)}</span>
    </>
  );
}

function secondaryTexts(
  entry: AgentEntry,
  children: number,
  { showsOwner, showsWorkspace }: Pick<AgentRowProps, 'showsOwner' | 'showsWorkspace'>,
): string[] {
  const { agentId, queued, unpushed, changeRequests, phaseReason } = entry;
  const texts: string[] = [];
  if (showsOwner) texts.push(agentId.account);
  if (showsWorkspace) texts.push(agentId.workspace);
  if (children > 0) texts.push(plural(children, 'child', 'children'));
  const tasks = phaseReason === 'TASKS_UNFINISHED' ? '' : taskText(entry);
  if (tasks !== '') texts.push(tasks);
  if (queued > 0) texts.push(`${queued} queued`);
  const requests = changeRequests.filter(isOpen).length;
  if (requests > 0) texts.push(plural(requests, 'change request'));
  const note = unpushedNote(unpushed);
  if (note !== '') texts.push(note);
  return texts;
}

/** The first labels; all of them in the tooltip. */
function Labels({ entry: { labels } }: { readonly entry: AgentEntry }) {
  const texts = labelTexts(labels);
  if (texts.length === 0) return null;
  const more = texts.length - shownLabels;
  return (
    <span className="agent-row-labels" title={texts.join('\n')}>
      {texts.slice(0, shownLabels).map((text) => (
        <Label key={text} text={text} />
      ))}
      {more > 0 && `+${more} `}
    </span>
  );
}

const shownLabels = 3;

interface StatusProps {
  readonly entry: AgentEntry;
  readonly reasonId: string;
  readonly heading: Attention | null;
}

const Status = ({ entry, reasonId, heading }: StatusProps) => (
  <div className="agent-row-status">
    <Reason id={reasonId} entry={entry} heading={heading} />
    <p className="agent-row-secondary" dir="auto">
      <Labels entry={entry} />
      {firstLine(entry.description)}
    </p>
  </div>
);

/** A separate component, because only this part changes with the clock. */
const Reason = ({ id, entry, heading }: Omit<StatusProps, 'reasonId'> & { readonly id: string }) => (
  <p id={id} className="agent-row-reason" dir="auto" title={entry.needsInput || entry.error || entry.news}>
    {rowText(entry, heading, useNow())}
  </p>
);

interface ModelProps {
  readonly entry: AgentEntry;
  readonly showsRehearsal: boolean;
}

function Model({ entry: { model, persona }, showsRehearsal }: ModelProps) {
  const texts = [persona === 'default' ? '' : persona, showsRehearsal && 'rehearsal'];
  return (
    <div className="agent-row-model secondary">
      <p>{model}</p>
      <p className="agent-row-secondary">{texts.filter(Boolean).join(' · ')}</p>
    </div>
  );
}

function Usage({
  entry: { cost, totalTokens },
  treeCost,
}: {
  readonly entry: AgentEntry;
  readonly treeCost: number;
}) {
  return (
    <div className="agent-row-usage secondary" data-free={cost === 0}>
      <p>
        {dollars(cost)}
        {treeCost > cost && (
          <span className="agent-row-tree" title="Including children">
            {` / ${dollars(treeCost)}`}
          </span>
        )}
      </p>
      <p className="agent-row-secondary">{totalTokens !== '0' && `${thousands(totalTokens)} tokens`}</p>
    </div>
  );
}
