import type { Caller } from '@muster/sdk';
import {
  cronInWords,
  firstLine,
  providerName,
  type ScheduleDocument,
  type ScheduleFire,
  type ScheduleState,
  scheduleState,
} from '@muster/sdk/contract';
import type { Tone } from '../../parts/model/tone.ts';

type Document = Readonly<Record<string, unknown>>;

export interface ShownSchedule extends ScheduleState {
  readonly name: string;
  readonly words: string;
  /** What it does: whom it tells, or what it spawns. */
  readonly work: string;
  readonly createdBy: string;
}

export function shownSchedule(name: string, document: Document): ShownSchedule {
  const state = scheduleState(document);
  return {
    ...state,
    name,
    words: cronInWords(state.cron) || state.cron || 'No time is set',
    work: workOf(document as ScheduleDocument),
    createdBy: String(document.createdBy ?? ''),
  };
}

function workOf({ agentId, message = '', spawn }: ScheduleDocument): string {
  if (spawn)
    return `Spawns ${spawn.agentId?.agent?.join('/') || 'an agent'}: ${firstLine(spawn.description ?? '')}`;
  if (message === '') return 'No work is set';
  return `Tells ${agentId?.agent?.join('/') || 'nobody'}: ${firstLine(message)}`;
}

const timeOf = ({ nextRuns }: ShownSchedule): string => nextRuns[0] ?? '9999';

/** Those that fire next come first, then those that do not fire. */
export const inOrder = (schedules: readonly ShownSchedule[]): ShownSchedule[] =>
  schedules.toSorted((a, b) => timeOf(a).localeCompare(timeOf(b)) || a.name.localeCompare(b.name));

const outcomes: Readonly<Record<ScheduleFire['outcome'], readonly [text: string, tone: Tone]>> = {
  FIRED: ['fired', 'good'],
  SKIPPED: ['skipped', 'quiet'],
  FAILED: ['failed', 'bad'],
};

export const outcomeMark = ({
  outcome,
}: Pick<ScheduleFire, 'outcome'>): readonly [text: string, tone: Tone] => outcomes[outcome];

export function stateMark({ isPaused, nextRuns }: ScheduleState): readonly [text: string, tone: Tone] {
  if (isPaused) return ['paused', 'warning'];
  return nextRuns.length > 0 ? ['active', 'good'] : ['does not fire', 'quiet'];
}

/** Why an entry of the history is as it is. */
export function reasonOf({ reason, manual, times }: ScheduleFire): string {
  const count = times > 1 ? `${times} times` : '';
  return [reason, count, manual ? 'run by hand' : ''].filter(Boolean).join(' · ');
}

const isCreator = ({ ownerProvider, account }: Caller, createdBy: string): boolean =>
  createdBy === `${providerName(ownerProvider)}/${account}`;

/** Members fire and change those that they created. */
export const mayRun = (caller: Caller, { createdBy }: ShownSchedule): boolean =>
  caller.role === 'admin' ||
  caller.role === 'operator' ||
  (caller.role === 'member' && isCreator(caller, createdBy));

/** An operator has to give a reason for each write, which the page of the catalog asks for. */
export const mayPause = (caller: Caller, schedule: ShownSchedule): boolean =>
  caller.role !== 'operator' && mayRun(caller, schedule);
