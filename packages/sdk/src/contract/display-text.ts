import type { AgentStatus, PhaseReason } from './agent.ts';
import type { Backend } from './backend.ts';
import type { ChangeRequest } from './code-host.ts';

/** How the command line and the dashboard show an agent's status and its figures. */
type StatusFields = Pick<AgentStatus, 'phaseReason' | 'wakesAt'>;

const statusTexts: Readonly<Record<PhaseReason, string>> = {
  NO_RUNNER: 'waiting for a runner',
  POOL_FULL: 'waiting for capacity',
  STARTING: 'starting',
  WORKING: 'working',
  STOPPING: 'stopping',
  RESTING: 'idle',
  QUESTION: 'needs input',
  TASKS_UNFINISHED: 'unfinished tasks',
  INTERRUPTED: 'interrupted',
  BLOCKED: 'blocked',
  DEFERRED: 'scheduled',
  CHILDREN: 'waiting for children',
  PROVIDER_LIMIT: 'rate limited',
  RETRYING: 'retrying',
  FINISHED: 'finished',
  ERROR: 'failed',
  KILLED: 'killed',
  PARENT_KILLED: 'killed with its parent',
};

/** Before the time at which the status changes by itself. */
const wakePrepositions: Partial<Readonly<Record<PhaseReason, string>>> = {
  DEFERRED: 'for',
  PROVIDER_LIMIT: 'until',
  RETRYING: 'at',
};

/** `needs input`, `rate limited until 16:23`. */
export function statusText({ phaseReason, wakesAt }: StatusFields, now = Date.now()): string {
  const preposition = wakesAt === null ? undefined : wakePrepositions[phaseReason];
  const time = preposition ? ` ${preposition} ${clock(wakesAt as string, now)}` : '';
  return `${statusTexts[phaseReason]}${time}`;
}

/** Events; every other status lasts. */
const eventReasons: readonly PhaseReason[] = ['INTERRUPTED', 'FINISHED', 'ERROR', 'KILLED', 'PARENT_KILLED'];

/** `4m ago` for what happened, `for 6m` for what lasts, empty when the status names a time itself. */
export function statusAge(
  { phaseReason, phaseSince, wakesAt }: StatusFields & Pick<AgentStatus, 'phaseSince'>,
  now = Date.now(),
): string {
  if (wakesAt !== null && phaseReason in wakePrepositions) return '';
  const age = ageOf(phaseSince, now);
  return eventReasons.includes(phaseReason) ? `${age} ago` : `for ${age}`;
}

const units: readonly (readonly [name: string, seconds: number])[] = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
];

/** `3m`, `2h`, `5d`. */
export function ageOf(time: string, now = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  const unit = units.find(([, length]) => seconds >= length);
  return unit ? `${Math.floor(seconds / unit[1])}${unit[0]}` : `${seconds}s`;
}

/** The time of day; with the date when it is not today's. */
export function clock(time: string, now = Date.now()): string {
  const date = new Date(time);
  const isToday = date.toDateString() === new Date(now).toDateString();
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `;
  return `${isToday ? '' : day}${two(date.getHours())}:${two(date.getMinutes())}`;
}

const two = (value: number): string => String(value).padStart(2, '0');

/** `$2.31`; less than ten cents keeps two significant digits: `$0.042`. */
export function dollars(cost: number): string {
  if (cost === 0) return '–';
  if (cost < 0.001) return '<$0.001';
  return `$${cost < 0.0995 ? Number(cost.toPrecision(2)) : cost.toFixed(2)}`;
}

/** `840`, `5.2k`, `96k`, `1.4M`. */
export function thousands(count: string): string {
  const value = Number(count);
  if (value < 1000) return count;
  return value < 999_500 ? `${twoDigits(value / 1000)}k` : `${twoDigits(value / 1_000_000)}M`;
}

const twoDigits = (value: number): string =>
  value < 9.95 ? String(Number(value.toFixed(1))) : String(Math.round(value));

/** `62k of 200k tokens (31 %)`. */
export function contextText({ usedTokens, windowTokens }: NonNullable<AgentStatus['context']>): string {
  const used = Number(usedTokens);
  const window = Number(windowTokens);
  if (window === 0) return `${thousands(usedTokens)} tokens`;
  return `${thousands(usedTokens)} of ${thousands(windowTokens)} tokens (${Math.round((100 * used) / window)} %)`;
}

/** `2 commits, 3 changed files`; empty when everything is pushed. */
export function unpushedText(unpushed: AgentStatus['unpushed']): string {
  const { commits, files } = unpushed ?? { commits: 0, files: 0 };
  return [
    commits > 0 && `${commits} ${commits === 1 ? 'commit' : 'commits'}`,
    files > 0 && `${files} changed ${files === 1 ? 'file' : 'files'}`,
  ]
    .filter(Boolean)
    .join(', ');
}

/** `open, checks failing: test, 2 open threads`. */
export function changeRequestNotes({ state, paused, checks, review }: ChangeRequest): string {
  const failing = checks.failing.length > 0 ? `: ${checks.failing.join(', ')}` : '';
  const { openThreads } = review;
  return [
    state.toLowerCase(),
    paused && 'paused',
    checks.state !== 'NONE' && `checks ${checks.state.toLowerCase()}${failing}`,
    review.state !== 'NONE' && review.state.toLowerCase().replace('_', ' '),
    openThreads > 0 && `${openThreads} open ${openThreads === 1 ? 'thread' : 'threads'}`,
  ]
    .filter(Boolean)
    .join(', ');
}

/** `812 B`, `5.2 KiB`, `31 MiB`. */
export function bytesText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const kib = bytes / 1024;
  return kib < 1023.5 ? `${twoDigits(kib)} KiB` : `${twoDigits(kib / 1024)} MiB`;
}

export const backendNames: Readonly<Record<Backend, string>> = {
  BACKEND_A: 'Claude Code',
  BACKEND_B: 'Codex',
};

export const pathOf = ({ agent }: { readonly agent: readonly string[] }): string => agent.join('/');

export const firstLine = (text: string): string => text.trim().split('\n', 1)[0] ?? '';
