import type { AgentEntry } from '@muster/sdk';
import { firstLine, type PhaseReason, statusAge, statusText } from '@muster/sdk/contract';

/** The sections of the agent list, most urgent first. */
export const attentions = [
  'question',
  'blocked',
  'failed',
  'unfinished',
  'finished',
  'waiting',
  'working',
  'idle',
] as const;
export type Attention = (typeof attentions)[number];

export const attentionTitles: Readonly<Record<Attention, string>> = {
  question: 'Needs input',
  blocked: 'Blocked',
  failed: 'Failed',
  unfinished: 'Unfinished tasks',
  finished: 'Finished, unseen',
  waiting: 'Waiting',
  working: 'Working',
  idle: 'Idle or seen',
};

export type Attended = Pick<
  AgentEntry,
  'phase' | 'phaseReason' | 'phaseSince' | 'needsInput' | 'wakesAt' | 'error' | 'sequence'
>;

const attentionByReason: Readonly<Record<PhaseReason, Attention>> = {
  QUESTION: 'question',
  BLOCKED: 'blocked',
  ERROR: 'failed',
  TASKS_UNFINISHED: 'unfinished',
  FINISHED: 'finished',
  RESTING: 'finished',
  INTERRUPTED: 'finished',
  PROVIDER_LIMIT: 'waiting',
  NO_RUNNER: 'waiting',
  POOL_FULL: 'waiting',
  RETRYING: 'waiting',
  STARTING: 'working',
  WORKING: 'working',
  STOPPING: 'working',
  CHILDREN: 'working',
  DEFERRED: 'idle',
  KILLED: 'idle',
  PARENT_KILLED: 'idle',
};

/** A finished or failed agent becomes idle when it is seen; questions and unfinished tasks stay until resolved. */
export function attentionOf({ phaseReason }: Pick<Attended, 'phaseReason'>, isSeen: boolean): Attention {
  const attention = attentionByReason[phaseReason];
  return isSeen && (attention === 'failed' || attention === 'finished') ? 'idle' : attention;
}

/** "needs input for 4m: which database?" */
export function reasonText(agent: Attended, now: number): string {
  const status = [statusText(agent, now), statusAge(agent, now)].filter(Boolean).join(' ');
  switch (agent.phaseReason) {
    case 'QUESTION':
      return `${status}: ${plainLine(agent.needsInput) || 'no question text'}`;
    case 'BLOCKED':
      return `${status}: ${plainLine(agent.needsInput)}`;
    case 'ERROR':
      return `${status}: ${firstLine(agent.error) || 'no reason was given'}`;
    case 'RESTING':
      return `${status}, ready for a message`;
    default:
      return status;
  }
}

/** The first line without Markdown's bold and code markers. */
const plainLine = (text: string): string => firstLine(text).replace(/\*\*|__|`/g, '');

/** How far back ended agents are listed; live agents always are. */
export const endedWindows = ['7d', '30d', 'all'] as const;
export type EndedWindow = (typeof endedWindows)[number];

const days: Readonly<Record<EndedWindow, number | null>> = { '7d': 7, '30d': 30, all: null };

/** The earliest end time that is listed; undefined for all. */
export function endedSinceOf(window: EndedWindow, nowMs = Date.now()): string | undefined {
  const count = days[window];
  return count === null ? undefined : new Date(nowMs - count * 86_400_000).toISOString();
}
