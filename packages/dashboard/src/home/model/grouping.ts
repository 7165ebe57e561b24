import type { AgentEntry } from '@muster/sdk';
import { type Attention, attentions, attentionTitles } from '../../live/model/attention.ts';
import { type Grouping, ownerOf, ownerText } from './filter.ts';

/** The label that `label:team` groups by. */
const labelKeyOf = (group: Grouping): string => group.slice('label:'.length);

/** The section of an agent. A prefix keeps a workspace with the name of a status apart. */
export function sectionIdOf(group: Grouping, { agentId, labels }: AgentEntry, attention: Attention): string {
  if (group === 'status') return attention;
  if (group === 'none') return 'all:';
  if (group === 'person') return `person:${ownerOf(agentId)}`;
  if (group === 'workspace') return `workspace:${agentId.workspace}`;
  const key = labelKeyOf(group);
  return `label:${Object.hasOwn(labels, key) ? labels[key] : ''}`;
}

const statusPlaces: readonly string[] = ['pinned', ...attentions];

/** Pinned agents first; then by urgency or by name, and last the agents without the label. */
export function sectionIds(group: Grouping, ids: readonly string[]): string[] {
  if (group === 'status') return statusPlaces.filter((id) => ids.includes(id));
  const placeOf = (id: string): number => (id === 'pinned' ? 0 : id === 'label:' ? 2 : 1);
  return [...ids].sort((a, b) => placeOf(a) - placeOf(b) || (a < b ? -1 : 1));
}

/** The status that all agents of a section have; null if the section says nothing about it. */
export const statusOfSection = (id: string): Attention | null =>
  attentions.find((attention) => attention === id) ?? null;

export function sectionTitle(id: string, group: Grouping, owners: readonly string[]): string {
  if (id === 'pinned') return 'Pinned';
  if (id === 'all:') return 'Agents';
  if (id === 'more:') return 'More';
  const status = statusOfSection(id);
  if (status) return attentionTitles[status];
  const value = id.slice(id.indexOf(':') + 1);
  if (group === 'person') return ownerText(value, owners);
  return group === 'workspace' ? value : value === '' ? `No ${labelKeyOf(group)}` : value;
}

/** What the list can be grouped by; the label keys of the listed agents come last. */
export function groupingChoices(
  labels: readonly string[],
  chosen: Grouping,
): readonly (readonly [Grouping, title: string])[] {
  const keys = new Set(labels.map((label) => label.slice(0, label.indexOf('='))));
  if (chosen.startsWith('label:')) keys.add(labelKeyOf(chosen));
  return [
    ['status', 'Group by status'],
    ['person', 'Group by person'],
    ['workspace', 'Group by workspace'],
    ...[...keys].map((key) => [`label:${key}`, `Group by ${key}`] as const),
    ['none', 'No groups'],
  ];
}
