import { agentId, tenantIn } from './identity.ts';
import {
  boolean,
  type Infer,
  nameIn,
  nullable,
  pageIn,
  pageOf,
  reply,
  request,
  text,
  timestamp,
} from './schema.ts';

/** Schedules: what fired, and what did not. */
export const overlapPolicies = ['queue', 'skip', 'replace', 'allow'] as const;
export const missedPolicies = ['latest', 'skip', 'all'] as const;
export const scheduleOutcomes = ['FIRED', 'SKIPPED', 'FAILED'] as const;

export const scheduleFire = reply('ScheduleFire', {
  scheduledAt: {
    ...timestamp,
    description: 'The time of the schedule; of a manual one, when it was asked for.',
  },
  at: { ...timestamp, description: 'When it fired, or when it was clear that it does not.' },
  outcome: { type: 'string', enum: scheduleOutcomes },
  reason: {
    ...text,
    description: 'Why it was skipped, failed or is late; empty if there is nothing to say.',
  },
  times: {
    type: 'integer',
    description:
      'How many scheduled times this entry is about: of times that were missed there is one entry.',
  },
  manual: { ...boolean, description: 'Somebody has asked for it.' },
  agentId: { ...nullable(agentId), description: 'The agent that was spawned or that got the message.' },
  followUpId: { ...text, description: 'The message; empty if an agent was spawned.' },
});
export type ScheduleFire = Infer<typeof scheduleFire>;

const scheduleIn = { tenant: tenantIn, name: { ...nameIn, description: 'The name of the schedule.' } };

export const runScheduleRequest = request('RunScheduleRequest', scheduleIn);
export const scheduleHistoryRequest = request('ScheduleHistoryRequest', { ...scheduleIn, ...pageIn });
export const scheduleHistoryReply = pageOf('ScheduleHistoryReply', scheduleFire);

/** What the service says of a schedule beside its document. */
export interface ScheduleState {
  readonly cron: string;
  readonly zone: string;
  /** By the document or by the service. */
  readonly isPaused: boolean;
  readonly pausedReason: string;
  readonly nextRuns: readonly string[];
  readonly lastRun: Pick<ScheduleFire, 'at' | 'outcome' | 'reason'> | null;
}

/** Of a document as the catalog returns it. */
export function scheduleState(document: Readonly<Record<string, unknown>>): ScheduleState {
  const { cron, zone, paused, pausedReason, nextRuns, lastRun } = document as Partial<
    Record<string, unknown> & Omit<ScheduleState, 'cron' | 'zone'>
  >;
  const reason = pausedReason ?? '';
  return {
    cron: typeof cron === 'string' ? cron : '',
    zone: typeof zone === 'string' && zone !== '' ? zone : 'UTC',
    isPaused: paused === true || reason !== '',
    pausedReason: reason,
    nextRuns: nextRuns ?? [],
    lastRun: lastRun ?? null,
  };
}

/** `Fri 20 Nov 2026, 07:00`, by clocks in the zone; without one, by those of the reader. */
export const timeInZone = (time: string, zone?: string): string =>
  new Intl.DateTimeFormat('en-GB', {
    ...{
      weekday: 'short',
      day: 'numeric',
      month: 'short',
      year: 'numeric',
      hour: '2-digit',
      minute: '2-digit',
    },
    ...(zone && { timeZone: zone }),
  }).format(Date.parse(time));
