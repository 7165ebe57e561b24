/** Parts of a summary. What is not of the expected type is an empty text, and left out. */
type Fields = Readonly<Record<string, unknown>>;

export const textIn = (value: unknown): string => (typeof value === 'string' ? value : '');
export const joined = (...parts: readonly string[]): string => parts.filter(Boolean).join(' · ');
export const labelled = (label: string, value: unknown): string =>
  textIn(value) ? `${label} ${textIn(value)}` : '';
export const amountOf = (value: unknown, unit: string): string =>
  typeof value === 'number' ? `${value} ${unit}` : '';

export const atMost = (value: unknown, unit: string): string =>
  typeof value === 'number' ? `at most ${value} ${unit}` : '';

export function counted(value: unknown, one: string): string {
  const count = value !== null && typeof value === 'object' ? Object.keys(value).length : 0;
  return count === 0 ? '' : `${count} ${one}${count === 1 ? '' : 's'}`;
}

export function repositoryNames(value: unknown): string {
  const urls = (Array.isArray(value) ? value : []).map((repo: unknown) =>
    textIn(repo !== null && typeof repo === 'object' ? (repo as Fields).url : repo),
  );
  const names = urls.map((url) => url.replace(/\/+$|\.git\/?$/g, '').replace(/^.*[/:]/, '')).filter(Boolean);
  if (names.length > 3) return `${names.slice(0, 2).join(', ')} and ${names.length - 2} more`;
  return names.join(', ');
}

export function agentIn(agentId: unknown): string {
  if (agentId === null || typeof agentId !== 'object') return '';
  const { agent, workspace, account } = agentId as Fields;
  const path = Array.isArray(agent) ? agent.join('/') : '';
  return joined(path, labelled('of', account), labelled('in', workspace));
}
