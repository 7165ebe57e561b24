import type { AgentEntry } from '@muster/sdk';
import { firstLine, standingAndAge } from '@muster/sdk/contract';

/** Who needs a person, the most urgent first. */
export const attentions = [
  'question',
  'blocked',
  'failed',
  'unfinished',
  'finished',
  'parked',
  'working',
  'asleep',
] as const;
export type Attention = (typeof attentions)[number];

export const attentionTitles: Readonly<Record<Attention, string>> = {
  question: 'Asks you',
  blocked: 'Blocked',
  failed: 'Failed',
  unfinished: 'Left tasks unfinished',
  finished: 'Finished, not yet seen',
  parked: 'Held up',
  working: 'Working',
  asleep: 'Asleep or seen',
};

export type Attended = Pick<
  AgentEntry,
  'phase' | 'phaseReason' | 'phaseSince' | 'needsInput' | 'wakesAt' | 'error' | 'sequence'
>;

/**
 * What an agent wants of whoever looks. An end that was looked at wants nothing any more; a question and unfinished
 * tasks stay until somebody does something about them.
 */
export function attentionOf({ phaseReason }: Pick<Attended, 'phaseReason'>, isSeen: boolean): Attention {
  switch (phaseReason) {
    case 'QUESTION':
      return 'question';
    case 'BLOCKED':
      return 'blocked';
    case 'ERROR':
      return isSeen ? 'asleep' : 'failed';
    case 'TASKS_UNFINISHED':
      return 'unfinished';
    case 'FINISHED':
    case 'RESTING':
    case 'INTERRUPTED':
      return isSeen ? 'asleep' : 'finished';
    case 'PROVIDER_LIMIT':
    case 'NO_RUNNER':
    case 'POOL_FULL':
    case 'RETRYING':
      return 'parked';
    case 'STARTING':
    case 'WORKING':
    case 'STOPPING':
    case 'CHILDREN':
      return 'working';
    case 'DEFERRED':
    case 'KILLED':
    case 'PARENT_KILLED':
      return 'asleep';
  }
}

/** "asked 4m ago: which database?" */
export function reasonWords(agent: Attended, now: number): string {
  const { words, age } = standingAndAge(agent, now);
  const standing = age === '' ? words : `${words} ${age}`;
  switch (agent.phaseReason) {
    case 'QUESTION':
      return `${standing}: ${plainLine(agent.needsInput) || 'it waits for an answer'}`;
    case 'BLOCKED':
      return `${standing}: ${plainLine(agent.needsInput)}`;
    case 'ERROR':
      return `${standing}: ${firstLine(agent.error) || 'no reason was given'}`;
    case 'RESTING':
      return `${standing}, and waits for a message`;
    default:
      return standing;
  }
}

/** The first line as it would be read out: without the signs of Markdown that only make it bold or code. */
const plainLine = (text: string): string => firstLine(text).replace(/\*\*|__|`/g, '');
