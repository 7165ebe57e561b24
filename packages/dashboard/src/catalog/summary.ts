import { firstLine, type Kind } from '@muster/sdk/contract';

type Document = Readonly<Record<string, unknown>>;

/** A resource in one line. Documents are open: what has not the shape one expects is left out, never an error. */
export function summaryOf(kind: Kind, document: Document): string {
  switch (kind) {
    case 'workspace':
      return joined(
        repos(document.repos),
        labelled('model', document.model),
        labelled('persona', document.persona),
      );
    case 'persona':
      return joined(text(document.model), firstLine(text(document.instructions)));
    case 'environment':
      return joined(
        counted(document.variables, 'variable'),
        counted(document.setup, 'set-up command'),
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
        amount(document.maxRuns, 'runs at most'),
        amount(document.maxTurnMinutes, 'minutes per turn'),
      );
    case 'token':
      return joined(text(document.role), text(document.account), labelled('pool', document.pool));
    case 'share-link':
      return agentWords(document.agentId);
    case 'integration':
      return text(document.type);
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

function agentWords(agentId: unknown): string {
  if (agentId === null || typeof agentId !== 'object') return '';
  const { agent, workspace, account } = agentId as Document;
  const path = Array.isArray(agent) ? agent.join('/') : '';
  return joined(path, labelled('of', account), labelled('in', workspace));
}

/** When it stops or stopped working; null when it never does. */
export const expiryOf = ({ expiresAt }: Document): string | null => text(expiresAt) || null;
export const isExpired = (document: Document, nowMs: number): boolean =>
  Date.parse(expiryOf(document) ?? '') <= nowMs;
