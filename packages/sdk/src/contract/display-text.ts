import type { AgentEntry, AgentStatus } from './agent.ts';
import { backendFacts } from './backend.ts';
import type { AgentBudget } from './budget.ts';
import type { ChangeRequest } from './code-host.ts';
import { reasonRow } from './phases.ts';

/** How the command line and the dashboard show an agent's status and its figures. */
type StatusFields = Pick<AgentStatus, 'phaseReason' | 'wakesAt'> & Partial<Pick<AgentStatus, 'phase'>>;

/** `needs input`, `rate limited until 16:23`. */
export function statusText(agent: StatusFields, now = Date.now()): string {
  const { wakesAt } = agent;
  const { status, timeWord } = reasonRow(agent);
  return wakesAt !== null && timeWord ? `${status} ${timeWord} ${clock(wakesAt, now)}` : status;
}

/** Why no runner takes an agent, and the commands that start one that does. An older service does not name the pool. */
export function noRunnerText({
  model,
  backend,
  pool,
}: Pick<AgentStatus, 'model' | 'backend' | 'pool'>): string {
  const name = (pool as string | undefined) || 'default';
  return `No runner of the pool "${name}" can run ${model} (${backendFacts[backend].title}). Start one: muster token create runner-1 --role runner --pool ${name}, then muster runner --key KEY --pool ${name}. It needs an account of ${backendFacts[backend].title}.`;
}

/** `4m ago` for what happened, `for 6m` for what lasts, empty when the status names a time itself. */
export function statusAge(agent: StatusFields & Pick<AgentStatus, 'phaseSince'>, now = Date.now()): string {
  const { timeWord, isEvent } = reasonRow(agent);
  if (agent.wakesAt !== null && timeWord) return '';
  const age = ageOf(agent.phaseSince, now);
  return isEvent ? `${age} ago` : `for ${age}`;
}

/**
 * What is most worth knowing of an agent in a list: what it asks, why it failed, what it is doing, or what it said. An
 * older service sends only questions and errors.
 */
export function newsText(
  entry: Pick<AgentEntry, 'needsInput' | 'error'> & Partial<Pick<AgentEntry, 'news' | 'currentAction'>>,
): string {
  const { needsInput, error, currentAction, news } = entry;
  if (needsInput !== '') return news || firstLine(needsInput);
  return firstLine(error) || currentAction || news || '';
}

/** `1 of 2 tasks`; empty without tasks. */
export const taskText = ({ taskCount = 0, tasksDone = 0 }: Partial<AgentEntry>): string =>
  taskCount === 0 ? '' : `${tasksDone} of ${taskCount} ${taskCount === 1 ? 'task' : 'tasks'}`;

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

/** An amount that somebody has set, or what is left of one: `$10.00`, `$0.25`, `$0.0312`. */
export const usd = (amount: number): string =>
  `$${amount < 1 ? amount.toFixed(4).replace(/00$/, '') : amount.toFixed(2)}`;

/** `$3.10 of $10.00, $0.40 reserved, resets 2026-12-01 00:00`. */
export function budgetText({ spentUsd, amountUsd, reservedUsd, resetsAt }: AgentBudget): string {
  const spent = `${usd(spentUsd)} of ${usd(amountUsd)}`;
  const reserved = reservedUsd > 0 ? `${usd(reservedUsd)} reserved` : '';
  return [spent, reserved, resetsAt && `resets ${clock(resetsAt)}`].filter(Boolean).join(', ');
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

/** Whether a checkpoint has the unpushed work: `not saved`, `saved 4m ago` or `partly saved 4m ago`; empty if there is none. */
export function savedText({
  unpushed,
  checkpointAt,
}: Pick<AgentStatus, 'unpushed' | 'checkpointAt'>): string {
  const isPartial = unpushed?.isSaved === false;
  if (checkpointAt === null) return isPartial || unpushedText(unpushed) !== '' ? 'not saved' : '';
  return `${isPartial ? 'partly ' : ''}saved ${ageOf(checkpointAt)} ago`;
}

/** `open, checks failing: test, 2 open threads`. */
export function changeRequestNotes({ state, paused, checks, review, problem }: ChangeRequest): string {
  const failing = checks.failing.length > 0 ? `: ${checks.failing.join(', ')}` : '';
  const { openThreads } = review;
  return [
    state.toLowerCase(),
    paused && 'paused',
    checks.state !== 'NONE' && `checks ${checks.state.toLowerCase()}${failing}`,
    review.state !== 'NONE' && review.state.toLowerCase().replace('_', ' '),
    openThreads > 0 && `${openThreads} open ${openThreads === 1 ? 'thread' : 'threads'}`,
    problem && `problem: ${problem}`,
  ]
    .filter(Boolean)
    .join(', ');
}

/** `812 B`, `5.2 KiB`, `31 MiB`, `1.8 GiB`. */
export function bytesText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const kib = bytes / 1024;
  if (kib < 1023.5) return `${twoDigits(kib)} KiB`;
  const mib = kib / 1024;
  return mib < 1023.5 ? `${twoDigits(mib)} MiB` : `${twoDigits(mib / 1024)} GiB`;
}

export const pathOf = ({ agent }: { readonly agent: readonly string[] }): string => agent.join('/');

export const firstLine = (text: string): string => text.trim().split('\n', 1)[0] ?? '';
