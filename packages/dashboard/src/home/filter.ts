import type { AgentEntry, AgentId } from '@muster/sdk';
import { limits, pathOf, providerName } from '@muster/sdk/contract';
import { type Attention, attentions } from '../live/model/attention.ts';
import { type EndedWindow, endedWindows } from '../live/model/ended-window.ts';
import { labelTexts } from '../parts/model/text.ts';

/** What the list shows, as the address of the page says it. */
export interface Filter {
  readonly text: string;
  /** `provider_name/account`, or the account alone. */
  readonly owner: string;
  readonly workspace: string;
  /** None is all. */
  readonly phases: readonly Attention[];
  /** `key=value` of each; an agent must have all of them. */
  readonly labels: readonly string[];
  readonly ended: EndedWindow;
}

export const noFilter: Filter = { text: '', owner: '', workspace: '', phases: [], labels: [], ended: '7d' };

/** From the query of an address. What it says that is not known says nothing. */
export function filterOf(search: string): Filter {
  const query = new URLSearchParams(search);
  const said = (query.get('phase') ?? '').split(',');
  return {
    text: query.get('q') ?? '',
    owner: query.get('owner') ?? '',
    workspace: query.get('workspace') ?? '',
    phases: attentions.filter((attention) => said.includes(attention)),
    labels: [...new Set(query.getAll('label'))]
      .filter((text) => text.includes('='))
      .slice(0, limits.labelsPerAgent),
    ended: endedWindows.find((window) => window === query.get('ended')) ?? noFilter.ended,
  };
}

/** The address of the list under a filter; it stays short where nothing is filtered. */
export function addressOf({ text, owner, workspace, phases, labels, ended }: Filter): string {
  const query = new URLSearchParams();
  if (text !== '') query.set('q', text);
  if (owner !== '') query.set('owner', owner);
  if (workspace !== '') query.set('workspace', workspace);
  if (phases.length > 0) query.set('phase', phases.join(','));
  for (const label of labels) query.append('label', label);
  if (ended !== noFilter.ended) query.set('ended', ended);
  // A comma needs no escape in a query, and phases read better without.
  const written = query.toString().replaceAll('%2C', ',');
  return written === '' ? '/' : `/?${written}`;
}

/** Whether it leaves anybody out. How far back one looks is no filter: it brings more, and hides nothing. */
export const isFiltering = ({ text, owner, workspace, phases, labels }: Filter): boolean =>
  text !== '' || owner !== '' || workspace !== '' || phases.length > 0 || labels.length > 0;

export const ownerOf = ({ ownerProvider, account }: AgentId): string =>
  `${providerName(ownerProvider)}/${account}`;

/** A test for everything but the phases. Every word of the text must occur somewhere. */
export function fitterOf({ text, owner, workspace, labels }: Filter): (entry: AgentEntry) => boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (entry) => {
    const { agentId } = entry;
    if (workspace !== '' && agentId.workspace !== workspace) return false;
    if (owner !== '' && agentId.account !== owner && ownerOf(agentId) !== owner) return false;
    if (labels.length > 0) {
      const texts = labelTexts(entry.labels);
      if (!labels.every((label) => texts.includes(label))) return false;
    }
    if (words.length === 0) return true;
    const said = saidBy(entry);
    return words.every((word) => said.includes(word));
  };
}

/** An entry is never changed, only replaced; so what was made of it holds as long as it is there. */
const saidByEntry = new WeakMap<AgentEntry, string>();

function saidBy(entry: AgentEntry): string {
  const known = saidByEntry.get(entry);
  if (known !== undefined) return known;
  const { agentId, description, needsInput, error, model, labels } = entry;
  const said = [pathOf(agentId), description, needsInput, error, model, ...labelTexts(labels)]
    .join('\n')
    .toLowerCase();
  saidByEntry.set(entry, said);
  return said;
}
