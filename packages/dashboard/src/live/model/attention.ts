import { type AgentEntry, compareInt64 } from '@muster/sdk';
import {
  type AgentSection,
  agentSections,
  firstLine,
  newsText,
  reasonRow,
  statusAge,
  statusText,
  taskText,
} from '@muster/sdk/contract';

/** A failed agent stays apart from the idle ones when the person has seen it. */
export type Attention = AgentSection | 'failed-seen';

/** The sections of the agent list, most urgent first. */
export const attentions: readonly Attention[] = agentSections.flatMap((section) =>
  section === 'idle' ? ['failed-seen', section] : section,
);

export const attentionTitles: Readonly<Record<Attention, string>> = {
  question: 'Needs input',
  blocked: 'Blocked',
  failed: 'Failed',
  unfinished: 'Unfinished tasks',
  finished: 'Finished, unseen',
  waiting: 'Waiting',
  working: 'Working',
  'failed-seen': 'Failed, seen',
  idle: 'Idle or seen',
};

export type Attended = Pick<
  AgentEntry,
  'phase' | 'phaseReason' | 'phaseSince' | 'needsInput' | 'wakesAt' | 'error' | 'sequence'
>;

/** The person has seen the agent's newest entry. */
export const isSeen = ({ seen, sequence }: Pick<AgentEntry, 'seen' | 'sequence'>): boolean =>
  compareInt64(seen, sequence) >= 0;

/** What a person has seen of a finished or failed agent needs nobody; questions and unfinished tasks stay until resolved. */
export function attentionOf(
  agent: Pick<Attended, 'phaseReason'> & Partial<Pick<Attended, 'phase'>>,
  isSeen: boolean,
): Attention {
  const { section } = reasonRow(agent);
  if (!isSeen) return section;
  return section === 'failed' ? 'failed-seen' : section === 'finished' ? 'idle' : section;
}

const needsPersonIn: ReadonlySet<Attention> = new Set(['question', 'blocked', 'failed', 'unfinished']);

export const needsPerson = (attention: Attention): boolean => needsPersonIn.has(attention);

/** "needs input for 4m: which database?" */
export function reasonText(agent: Attended, now: number): string {
  const status = [statusText(agent, now), statusAge(agent, now)].filter(Boolean).join(' ');
  const { needsInput } = reasonRow(agent);
  if (needsInput === 'question') return `${status}: ${plainLine(agent.needsInput) || 'no question text'}`;
  if (needsInput === 'fix') return `${status}: ${plainLine(agent.needsInput)}`;
  if (agent.phaseReason === 'ERROR') return `${status}: ${firstLine(agent.error) || 'no reason was given'}`;
  return agent.phaseReason === 'RESTING' ? `${status}, ready for a message` : status;
}

/** Their status is what the heading of their section says. */
const plainReasons: ReadonlySet<string> = new Set(
  'QUESTION BLOCKED ERROR TASKS_UNFINISHED FINISHED RESTING WORKING'.split(' '),
);

/**
 * What a row of the list says: the question, the answer, the error or what the agent is doing. The status is said where
 * the heading does not say it, or where there is nothing else to say.
 */
export function rowText(agent: Attended & RowFields, heading: Attention | null, now: number): string {
  const { phaseReason } = agent;
  const status = statusText(agent, now);
  const news = newsText(agent);
  const { section } = reasonRow(agent);
  const isSaid = (heading === section || heading === `${section}-seen`) && plainReasons.has(phaseReason);
  const tasks = phaseReason === 'TASKS_UNFINISHED' ? taskText(agent) : '';
  const said = [tasks, news].filter(Boolean).join(': ');
  if (said !== '') return isSaid || tasks !== '' ? said : `${status}: ${said}`;
  if (phaseReason === 'QUESTION') return 'No question text';
  return phaseReason === 'ERROR' ? 'No reason was given' : status;
}

type RowFields = Pick<AgentEntry, 'news' | 'currentAction' | 'taskCount' | 'tasksDone'>;

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
