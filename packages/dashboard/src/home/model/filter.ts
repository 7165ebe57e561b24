import type { AgentEntry, AgentId } from '@muster/sdk';
import { limits, pathOf, providerName } from '@muster/sdk/contract';
import { type Attention, attentions, type EndedWindow, endedWindows } from '../../live/model/attention.ts';
import { labelTexts } from '../../parts/model/text.ts';

/** What the list shows. The filter is stored in the URL of the page. */
export interface Filter {
  readonly text: string;
  /** `provider_name/account`, or the account alone. */
  readonly owner: string;
  readonly workspace: string;
  /** Empty for all. */
  readonly phases: readonly Attention[];
  /** `key=value` of each; an agent must have all of them. */
  readonly labels: readonly string[];
  readonly ended: EndedWindow;
}

export const noFilter: Filter = { text: '', owner: '', workspace: '', phases: [], labels: [], ended: '7d' };

/** Reads the query string of a URL and ignores unknown values. */
export function filterOf(search: string): Filter {
  const query = new URLSearchParams(search);
  const phases = (query.get('phase') ?? '').split(',');
  return {
    text: query.get('q') ?? '',
    owner: query.get('owner') ?? '',
    workspace: query.get('workspace') ?? '',
    phases: attentions.filter((attention) => phases.includes(attention)),
    labels: [...new Set(query.getAll('label'))]
      .filter((text) => text.includes('='))
      .slice(0, limits.labelsPerAgent),
    ended: endedWindows.find((window) => window === query.get('ended')) ?? noFilter.ended,
  };
}

/** The URL of the list with a filter; defaults are left out. */
export function listUrl({ text, owner, workspace, phases, labels, ended }: Filter): string {
  const query = new URLSearchParams();
  if (text !== '') query.set('q', text);
  if (owner !== '') query.set('owner', owner);
  if (workspace !== '') query.set('workspace', workspace);
  if (phases.length > 0) query.set('phase', phases.join(','));
  for (const label of labels) query.append('label', label);
  if (ended !== noFilter.ended) query.set('ended', ended);
  // A comma is valid in a query string, and phases are easier to read without the escape.
  const queryString = query.toString().replaceAll('%2C', ',');
  return queryString === '' ? '/' : `/?${queryString}`;
}

/** Whether the filter hides agents. `ended` does not count: a larger window only adds agents. */
export const isFiltering = ({ text, owner, workspace, phases, labels }: Filter): boolean =>
  text !== '' || owner !== '' || workspace !== '' || phases.length > 0 || labels.length > 0;

export const ownerOf = ({ ownerProvider, account }: AgentId): string =>
  `${providerName(ownerProvider)}/${account}`;

/** The account, with its provider if another provider has the same account. */
export function ownerText(owner: string, owners: readonly string[]): string {
  const account = owner.slice(owner.indexOf('/') + 1);
  const isShared = owners.filter((other) => other.endsWith(`/${account}`)).length > 1;
  return isShared ? `${account} (${owner.slice(0, owner.indexOf('/'))})` : account;
}

/** Checks everything but the phases. Each word of the text must occur somewhere in the entry. */
export function matcherOf({ text, owner, workspace, labels }: Filter): (entry: AgentEntry) => boolean {
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
    const searchable = searchableText(entry);
    return words.every((word) => searchable.includes(word));
  };
}

/** Entries are replaced and never changed, so their texts are cached. */
const searchableTexts = new WeakMap<AgentEntry, string>();

function searchableText(entry: AgentEntry): string {
  const cached = searchableTexts.get(entry);
  if (cached !== undefined) return cached;
  const { agentId, description, needsInput, error, model, labels } = entry;
  const text = [pathOf(agentId), description, needsInput, error, model, ...labelTexts(labels)]
    .join('\n')
    .toLowerCase();
  searchableTexts.set(entry, text);
  return text;
}
