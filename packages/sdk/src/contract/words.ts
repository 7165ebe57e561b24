import type { AgentStatus, PhaseReason } from './agent.ts';
import type { Backend } from './backend.ts';

/** How people are told of agents: short, and the same on the command line and on the page. */
export type Standing = Pick<AgentStatus, 'phase' | 'phaseReason' | 'wakesAt'>;

const reasons: Readonly<Record<PhaseReason, string>> = {
  NO_RUNNER: 'waits for a runner',
  POOL_FULL: 'waits for a free place',
  STARTING: 'starting',
  WORKING: 'working',
  STOPPING: 'stopping',
  RESTING: 'rests',
  QUESTION: 'asks',
  TASKS_UNFINISHED: 'left tasks unfinished',
  INTERRUPTED: 'was interrupted',
  BLOCKED: 'blocked',
  DEFERRED: 'sleeps',
  CHILDREN: 'waits for its children',
  PROVIDER_LIMIT: 'waiting for the provider',
  RETRYING: 'tries again',
  FINISHED: 'finished',
  ERROR: 'failed',
  KILLED: 'killed',
  PARENT_KILLED: 'killed with its parent',
};

export const standingOf = (standing: Standing, now = Date.now()): string =>
  `${reasons[standing.phaseReason]}${untilOf(standing, now)}`;

function untilOf({ phaseReason, wakesAt }: Standing, now: number): string {
  if (wakesAt === null) return '';
  if (phaseReason === 'RETRYING') return ` at ${clock(wakesAt, now)}`;
  const isWaiting = phaseReason === 'DEFERRED' || phaseReason === 'PROVIDER_LIMIT';
  return isWaiting ? ` until ${clock(wakesAt, now)}` : '';
}

/** What happened once, and is some time ago; everything else goes on. */
const happened: Partial<Readonly<Record<PhaseReason, string>>> = {
  RESTING: 'came to rest',
  QUESTION: 'asked',
  TASKS_UNFINISHED: reasons.TASKS_UNFINISHED,
  INTERRUPTED: reasons.INTERRUPTED,
  FINISHED: reasons.FINISHED,
  ERROR: reasons.ERROR,
  KILLED: reasons.KILLED,
  PARENT_KILLED: reasons.PARENT_KILLED,
};

/** How it stands, and since when: `asked` and `4m ago`, `working` and `for 6m`, `sleeps until 14:30` and nothing more. */
export function standingAndAge(
  standing: Standing & Pick<AgentStatus, 'phaseSince'>,
  now = Date.now(),
): { readonly words: string; readonly age: string } {
  const age = ageOf(standing.phaseSince, now);
  const event = happened[standing.phaseReason];
  if (event) return { words: event, age: `${age} ago` };
  return { words: standingOf(standing, now), age: untilOf(standing, now) === '' ? `for ${age}` : '' };
}

const units: readonly (readonly [name: string, seconds: number])[] = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
];

/** `3m`, `2h`, `5d`: one unit is enough to tell new from old. */
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

/** `$2.31`; what is less than ten cents keeps two digits that say something: `$0.042`. */
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

/** `2 commits, 3 changed files`; empty when everything is pushed. */
export function unpushedWords(unpushed: AgentStatus['unpushed']): string {
  const { commits, files } = unpushed ?? { commits: 0, files: 0 };
  return [
    commits > 0 && `${commits} ${commits === 1 ? 'commit' : 'commits'}`,
    files > 0 && `${files} changed ${files === 1 ? 'file' : 'files'}`,
  ]
    .filter(Boolean)
    .join(', ');
}

/** `812 B`, `5.2 KiB`, `31 MiB`. */
export function byteWords(bytes: number): string {
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
