import type { AgentEntry, AgentId, Caller } from '@muster/sdk';
import { limits, pathOf, providerName } from '@muster/sdk/contract';
import { type Attention, attentions, type EndedWindow, endedWindows } from '../../live/model/attention.ts';
import { labelTexts } from '../../parts/model/text.ts';

/** Whose agents. Empty: as the role has it. */
const scopes = ['mine', 'everyone'] as const;
export type Scope = (typeof scopes)[number];

/** `label:team` has a section for each value of the label `team`. */
export type Grouping = 'status' | 'person' | 'workspace' | 'none' | `label:${string}`;

/** Empty: by urgency. With a minus the other way round. */
export const sortFields = ['name', 'created', 'changed', 'cost'] as const;
export type SortField = (typeof sortFields)[number];
export type Sort = '' | SortField | `-${SortField}`;

/** What the list shows, and how. It is stored in the URL of the page. */
export interface Filter {
  readonly text: string;
  readonly scope: Scope | '';
  /** `provider_name/account`, or the account alone. */
  readonly owner: string;
  readonly workspace: string;
  /** Empty for all. */
  readonly phases: readonly Attention[];
  /** `key=value` of each; an agent must have all of them. */
  readonly labels: readonly string[];
  readonly ended: EndedWindow;
  readonly group: Grouping;
  readonly sort: Sort;
}

export const noFilter: Filter = {
  text: '',
  scope: '',
  owner: '',
  workspace: '',
  phases: [],
  labels: [],
  ended: '7d',
  group: 'status',
  sort: '',
};

/** Reads the query string of a URL and ignores unknown values. */
export function filterOf(search: string): Filter {
  const query = new URLSearchParams(search);
  const phases = (query.get('phase') ?? '').split(',');
  return {
    text: query.get('q') ?? '',
    scope: scopes.find((scope) => scope === query.get('scope')) ?? '',
    owner: query.get('owner') ?? '',
    workspace: query.get('workspace') ?? '',
    phases: attentions.filter((attention) => phases.includes(attention)),
    labels: [...new Set(query.getAll('label'))]
      .filter((text) => text.includes('='))
      .slice(0, limits.labelsPerAgent),
    ended: endedWindows.find((window) => window === query.get('ended')) ?? noFilter.ended,
    group: groupingOf(query.get('group') ?? ''),
    sort: sortOf(query.get('sort') ?? ''),
  };
}

function groupingOf(text: string): Grouping {
  if (text === 'person' || text === 'workspace' || text === 'none') return text;
  return /^label:./.test(text) ? (text as Grouping) : noFilter.group;
}

const sortOf = (text: string): Sort =>
  sortFields.some((field) => text === field || text === `-${field}`) ? (text as Sort) : '';

/** The URL of the list with a filter; defaults are left out. */
export function listUrl(filter: Filter): string {
  const { text, scope, owner, workspace, phases, labels, ended, group, sort } = filter;
  const query = new URLSearchParams();
  if (text !== '') query.set('q', text);
  if (scope !== '') query.set('scope', scope);
  if (owner !== '') query.set('owner', owner);
  if (workspace !== '') query.set('workspace', workspace);
  if (phases.length > 0) query.set('phase', phases.join(','));
  for (const label of labels) query.append('label', label);
  if (ended !== noFilter.ended) query.set('ended', ended);
  if (group !== noFilter.group) query.set('group', group);
  if (sort !== '') query.set('sort', sort);
  // A comma is valid in a query string, and phases are easier to read without the escape.
  const queryString = query.toString().replaceAll('%2C', ',');
  return queryString === '' ? '/' : `/?${queryString}`;
}

/** Whether the filter hides agents, apart from whose they are. A larger window of ended agents only adds some. */
export const isFiltering = ({ text, owner, workspace, phases, labels }: Filter): boolean =>
  text !== '' || owner !== '' || workspace !== '' || phases.length > 0 || labels.length > 0;

export const ownerOf = ({ ownerProvider, account }: Pick<AgentId, 'ownerProvider' | 'account'>): string =>
  `${providerName(ownerProvider)}/${account}`;

/** Members can answer only their own agents. A filter by person is among all agents. */
export function scopeOf({ scope, owner }: Filter, { role }: Pick<Caller, 'role'>): Scope {
  if (owner !== '') return 'everyone';
  return scope || (role === 'member' ? 'mine' : 'everyone');
}

/** The account, with its provider if another provider has the same account. */
export function ownerText(owner: string, owners: readonly string[]): string {
  const account = owner.slice(owner.indexOf('/') + 1);
  const isShared = owners.filter((other) => other.endsWith(`/${account}`)).length > 1;
  return isShared ? `${account} (${owner.slice(0, owner.indexOf('/'))})` : account;
}

/** Checks everything but the phases and the scope. Each word of the text must occur somewhere in the entry. */
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
  const { agentId, description, needsInput, error, news, currentAction, model, labels } = entry;
  const said = [description, needsInput, error, news, currentAction];
  const text = [pathOf(agentId), ...said, model, ...labelTexts(labels)].join('\n').toLowerCase();
  searchableTexts.set(entry, text);
  return text;
}
