import { type Caller, type CatalogEntry, FailedPreconditionError } from '@muster/sdk';
import { firstLine, type Kind, memberKinds } from '@muster/sdk/contract';

type Document = Readonly<Record<string, unknown>>;

/** A resource in one line. Documents may have any shape, so unexpected values are left out. */
export function summaryOf(kind: Kind, document: Document): string {
  switch (kind) {
    case 'workspace':
      return joined(
        repos(document.repos),
        labelled('model', document.model),
        labelled('persona', document.persona),
        counted(document.mcpServers, 'MCP server'),
      );
    case 'persona':
      return joined(text(document.model), firstLine(text(document.instructions)));
    case 'environment':
      return joined(
        counted(document.variables, 'variable'),
        counted(document.setup, 'setup command'),
        counted(document.allowHosts, 'host'),
      );
    case 'profile':
      return text(document.displayName);
    case 'vm-profile':
      return joined(
        amount(document.cpus, 'CPUs'),
        amount(document.memoryMb, 'MiB'),
        amount(document.processes, 'processes'),
        amount(document.scratchMb, 'MiB scratch'),
      );
    case 'pool':
      return joined(
        labelled('VM profile', document.vmProfile),
        amount(document.maxRuns, 'max runs per runner'),
        amount(document.maxRunsTotal, 'max runs in total'),
        amount(document.maxTurnMinutes, 'minutes per turn'),
      );
    case 'token':
      return joined(text(document.role), text(document.account), labelled('pool', document.pool));
    case 'share-link':
      return agentText(document.agentId);
    case 'integration':
      return text(document.type);
    case 'secret':
      return labelled('fingerprint', document.fingerprint) || 'no value';
    case 'change-request':
      return joined(text(document.title), text(document.url));
  }
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const joined = (...parts: readonly string[]): string => parts.filter(Boolean).join(' · ');
const labelled = (label: string, value: unknown): string => (text(value) ? `${label} ${text(value)}` : '');
const amount = (value: unknown, unit: string): string =>
  typeof value === 'number' ? `${value} ${unit}` : '';

function counted(value: unknown, one: string): string {
  const count = value !== null && typeof value === 'object' ? Object.keys(value).length : 0;
  return count === 0 ? '' : `${count} ${one}${count === 1 ? '' : 's'}`;
}

function repos(value: unknown): string {
  const urls = (Array.isArray(value) ? value : []).map((repo: unknown) =>
    text(repo !== null && typeof repo === 'object' ? (repo as Document).url : repo),
  );
  const names = urls.map((url) => url.replace(/\/+$|\.git\/?$/g, '').replace(/^.*[/:]/, '')).filter(Boolean);
  if (names.length > 3) return `${names.slice(0, 2).join(', ')} and ${names.length - 2} more`;
  return names.join(', ');
}

function agentText(agentId: unknown): string {
  if (agentId === null || typeof agentId !== 'object') return '';
  const { agent, workspace, account } = agentId as Document;
  const path = Array.isArray(agent) ? agent.join('/') : '';
  return joined(path, labelled('of', account), labelled('in', workspace));
}

/** Null if it never expires. */
export const expiryOf = ({ expiresAt }: Document): string | null => text(expiresAt) || null;
export const isExpired = (document: Document, nowMs: number): boolean =>
  Date.parse(expiryOf(document) ?? '') <= nowMs;

/**
 * Why the caller may not write a resource; null if it may. The service decides; this only keeps the page from offering
 * writes that would fail. `stored` is the current document.
 */
export function writeRefusal(caller: Caller, kind: Kind, stored: Document | null = null): string | null {
  if (kind === 'change-request') return 'Change requests are read-only records.';
  if (caller.role === 'viewer') return 'Read-only access. Your key has the viewer role.';
  if (caller.role !== 'member') return null;
  if (!memberKinds.includes(kind))
    return 'Read-only access. Members can write personas, share links and their own tokens.';
  if (kind === 'token' && stored && !isOwn(caller, stored))
    return 'Read-only access. This token belongs to another account.';
  const agentId = stored?.agentId;
  if (kind === 'share-link' && agentId && !isOwn(caller, agentId as Document))
    return 'Read-only access. This link shows another account’s agent.';
  return null;
}

/** An empty account means the caller's. */
const isOwn = (caller: Caller, { account, ownerProvider }: Document): boolean =>
  (!account || account === caller.account) &&
  (!ownerProvider || ownerProvider === 'PROVIDER_UNSPECIFIED' || ownerProvider === caller.ownerProvider);

/** Operators must give a reason for each write. */
export const needsReason = (caller: Caller): boolean => caller.role === 'operator';

/** Whether a write failed because the resource has another generation than the one that was read. */
export const isGenerationConflict = (error: unknown): boolean =>
  error instanceof FailedPreconditionError && error.violations.some(({ type }) => type === 'GENERATION');

type Entry = Pick<CatalogEntry<Document>, 'kind' | 'name' | 'document'>;

/** Each word of the search must occur in the name or the summary. */
export function matches({ kind, name, document }: Entry, search: string): boolean {
  const text = `${name} ${summaryOf(kind as Kind, document)}`.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
