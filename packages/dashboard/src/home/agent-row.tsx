import type { AgentEntry } from '@muster/sdk';
import { dollars, firstLine, pathOf, thousands } from '@muster/sdk/contract';
import { memo, type RefObject, useId } from 'react';
import { useDescendantTotals, useFleetEntry } from '../live/fleet.ts';
import { attentionOf, reasonText } from '../live/model/attention.ts';
import { useSeen } from '../live/seen.ts';
import { StatusIcon } from '../live/status-icon.tsx';
import { labelTexts, plural, unpushedNote } from '../parts/model/text.ts';
import { Label } from '../parts/page.tsx';
import { Age, useNow } from '../parts/times.tsx';
import './agent-row.css';

interface AgentRowProps {
  readonly page: string;
  /** In pixels, below the top of the first row of the section. */
  readonly top: number;
  readonly position: number;
  readonly setSize: number;
  readonly showsOwner: boolean;
  readonly showsWorkspace: boolean;
  readonly isTabStop: boolean;
  readonly linkRef: RefObject<HTMLAnchorElement | null> | null;
  readonly onFocus: (page: string) => void;
  readonly onToggleSeen: (page: string) => void;
}

/** One agent. It is drawn again when it changes itself or moves, and not when others do. */
export const AgentRow = memo(function AgentRow(props: AgentRowProps) {
  const { page, top, position, setSize, isTabStop, linkRef, onFocus, onToggleSeen } = props;
  const entry = useFleetEntry(page);
  const below = useDescendantTotals(page);
  const isSeen = useSeen(page, entry);
  const reasonId = useId();
  if (!entry) return null;
  const attention = attentionOf(entry, isSeen);
  const tabIndex = isTabStop ? 0 : -1;
  // The page may not know all who are below it, and the service did not tell of each change there.
  const children = Math.max(entry.childCount, below.children);
  const treeCost = Math.max(entry.treeCost, entry.cost + below.cost);
  return (
    <li
      className="agent-row"
      style={{ top }}
      aria-posinset={position}
      aria-setsize={setSize}
      data-attention={attention}
      data-unread={!isSeen}
      onFocus={() => onFocus(page)}
    >
      <button
        type="button"
        className="agent-row-seen"
        tabIndex={tabIndex}
        aria-label={`Mark ${pathOf(entry.agentId)} ${isSeen ? 'unseen' : 'seen'}`}
        title={isSeen ? 'Mark unseen (s)' : 'Mark seen (s)'}
        onClick={() => onToggleSeen(page)}
      />
      <StatusIcon attention={attention} />
      <div className="agent-row-name">
        <a href={page} ref={linkRef} tabIndex={tabIndex} aria-describedby={reasonId}>
          <Path agent={entry.agentId.agent} />
          {!isSeen && <span className="visually-hidden">, not yet seen</span>}
        </a>
        <p className="agent-row-quiet">{surroundings(entry, children, props).join(' · ')}</p>
      </div>
      <div className="agent-row-words">
        <Reason id={reasonId} entry={entry} />
        <p className="agent-row-quiet">
          <Labels entry={entry} />
          {firstLine(entry.description)}
        </p>
      </div>
      <Model entry={entry} />
      <Figures entry={entry} treeCost={treeCost} />
      <span className="agent-row-age">
        <Age since={entry.createdAt} />
      </span>
    </li>
  );
});

/** `build / web`: who is above it, quietly, then its own name. */
function Path({ agent }: { readonly agent: readonly string[] }) {
  const above = agent.slice(0, -1);
  return (
    <>
      {above.length > 0 && <span className="agent-row-above">{above.join(' / ')}</span>}
      {above.length > 0 && <span className="agent-row-above-end"> / </span>}
      <span className="agent-row-own">{agent.at(-1)}</span>
    </>
  );
}

function surroundings(
  { agentId, queued, unpushed }: AgentEntry,
  children: number,
  { showsOwner, showsWorkspace }: Pick<AgentRowProps, 'showsOwner' | 'showsWorkspace'>,
): string[] {
  const said: string[] = [];
  if (showsOwner) said.push(agentId.account);
  if (showsWorkspace) said.push(agentId.workspace);
  if (children > 0) said.push(plural(children, 'child', 'children'));
  if (queued > 0) said.push(`${queued} queued`);
  const note = unpushedNote(unpushed);
  if (note !== '') said.push(note);
  return said;
}

/** As many as leave room for the description; all of them when somebody points at them. */
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

/** The only part that the clock changes. */
function Reason({ id, entry }: { readonly id: string; readonly entry: AgentEntry }) {
  const words = reasonText(entry, useNow());
  return (
    <p id={id} className="agent-row-reason" title={entry.needsInput || entry.error || undefined}>
      {words}
    </p>
  );
}

function Model({ entry: { model, persona, rehearsed } }: { readonly entry: AgentEntry }) {
  const own = persona === 'default' ? '' : persona;
  return (
    <div className="agent-row-model">
      <p>{model}</p>
      <p className="agent-row-quiet">
        {own}
        {own !== '' && rehearsed && ' · '}
        {rehearsed && <span title="No model is behind it">rehearsed</span>}
      </p>
    </div>
  );
}

function Figures({
  entry: { cost, totalTokens },
  treeCost,
}: {
  readonly entry: AgentEntry;
  readonly treeCost: number;
}) {
  return (
    <div className="agent-row-figures" data-free={cost === 0}>
      <p>
        {dollars(cost)}
        {treeCost > cost && (
          <span className="agent-row-tree" title="With everybody below it">
            {` / ${dollars(treeCost)}`}
          </span>
        )}
      </p>
      <p className="agent-row-quiet">{totalTokens !== '0' && `${thousands(totalTokens)} tokens`}</p>
    </div>
  );
}
