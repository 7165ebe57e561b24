import type { AgentId, Caller, UsageKey, UsageRow } from '@muster/sdk';
import { type Backend, backendFacts, providerByName } from '@muster/sdk/contract';
import { ownerText } from '../../home/model/filter.ts';

/** How a key is called in the choice, and above a column. */
const titles = {
  workspace: 'Workspace',
  account: 'Person',
  model: 'Model',
  backend: 'Backend',
  providerAccount: 'Provider account',
} as const satisfies Partial<Record<UsageKey, string>>;
export const chosenKeys = Object.keys(titles) as readonly (keyof typeof titles)[];

export const keyTitle = (key: UsageKey): string =>
  key.startsWith('label:')
    ? `Label ${key.slice('label:'.length)}`
    : (titles[key as keyof typeof titles] ?? key);

/** The text of a value, among all values of its key. */
export function valueText(key: UsageKey, value: string, values: readonly string[]): string {
  if (value === '') return key.startsWith('label:') ? 'Without this label' : 'Unknown';
  if (key === 'account') return ownerText(value, values);
  if (key === 'backend')
    return Object.hasOwn(backendFacts, value) ? backendFacts[value as Backend].title : value;
  return value;
}

/** The agent of a row that is grouped by account, workspace and path; undefined if it was deleted. */
export function agentOfRow(
  { keys }: Pick<UsageRow, 'keys'>,
  top: 'agent' | 'root',
  caller: Caller,
): AgentId | undefined {
  const [provider, ...account] = (keys.account ?? '').split('/');
  const ownerProvider = providerByName(provider);
  const path = keys[top] ?? '';
  if (path === '' || !ownerProvider) return undefined;
  return {
    tenant: caller.tenant,
    ownerProvider,
    account: account.join('/'),
    workspace: keys.workspace ?? '',
    agent: path.split('/'),
  };
}
