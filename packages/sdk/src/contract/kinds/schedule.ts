import { spawnRequest } from '../agent.ts';
import { cronInWords } from '../cron-words.ts';
import { agentIdIn } from '../identity.ts';
import { limits } from '../limits.ts';
import { missedPolicies, overlapPolicies } from '../schedule.ts';
import { boolean, type Infer, timestampIn } from '../schema.ts';
import { field, type KindEntry, open, setting } from './kind.ts';
import { joined, textIn } from './summary.ts';

const pathPart = { ...setting, maxLength: limits.nameLength, minLength: 1 } as const;
const timeOrNull = { ...timestampIn, type: ['string', 'null'] } as const;

/** The fields of a spawn; in the path, `{date}` and `{n}` are filled in. */
const spawn = {
  ...open({
    ...spawnRequest.properties,
    agentId: {
      ...agentIdIn,
      properties: {
        ...agentIdIn.properties,
        agent: { ...agentIdIn.properties.agent, items: pathPart },
      },
    },
  }),
  expected: 'the fields of a spawn',
} as const;

const schema = open({
  cron: field(
    { type: 'string', maxLength: 256, expected: 'five fields such as 0 7 * * 1-5' },
    'When it fires: minute, hour, day of the month, month, day of the week.',
    '0 7 * * 1-5',
  ),
  zone: field(
    { type: 'string', maxLength: 64, expected: 'the name of a time zone such as Europe/Berlin' },
    'The time zone of these fields. Default UTC.',
    'Europe/Berlin',
  ),
  agentId: field(agentIdIn, 'The agent that gets the message. Missing fields are those of its creator.', {
    agent: ['my-agent'],
  }),
  message: field({ type: 'string' }, 'The message to the agent.', 'Check the nightly build.'),
  spawn: field(
    spawn,
    'Or the agent to spawn, with the fields of a spawn. In its path, {date} is the date and {n} counts the agents. Default path: the name of the schedule, and {n}.',
    { description: 'Update the dependencies.', agentId: { agent: ['dependencies-{date}'] } },
  ),
  overlap: field(
    { type: 'string', enum: overlapPolicies },
    'What happens if the agent is still busy. queue: the new work waits, at most once. skip: the fire is skipped. replace: the turn is stopped. allow: nothing. Default queue.',
    'queue',
  ),
  missed: field(
    { type: 'string', enum: missedPolicies },
    `What happens to times at which the service did not run. latest: the last one fires. skip: none. all: the last ${limits.scheduleMissedFires}. Default latest.`,
    'latest',
  ),
  jitterSeconds: field(
    { type: 'integer', minimum: 0, maximum: limits.scheduleJitterSeconds },
    'Each fire is delayed by up to this many seconds, so that many schedules do not fire together.',
    60,
  ),
  startsAt: field(timeOrNull, 'It does not fire before.', '2027-01-31T09:00:00Z'),
  endsAt: field(timeOrNull, 'It does not fire after.', '2027-12-31T09:00:00Z'),
  paused: field(boolean, 'true: it does not fire.', false),
});
export type ScheduleDocument = Infer<typeof schema>;

export const schedule = {
  title: 'Schedules',
  one: 'schedule',
  purpose: 'Work at certain times: a message to an agent, or a new agent.',
  group: 'Work',
  schema,
  writers: 'members',
  template: ['cron', 'zone', 'spawn'],
  serverFields: ['nextRuns', 'lastRun', 'pausedReason'],
  columns: { CRON: 'cron', ZONE: 'zone' },
  deleting: { verb: 'Delete', effect: 'It does not fire any more. Agents that it spawned go on.' },
  mostDocuments: limits.schedulesPerTenant,
  summary: ({ cron, zone, paused, pausedReason }) =>
    joined(joinedWords(textIn(cron), textIn(zone)), paused === true || textIn(pausedReason) ? 'paused' : ''),
} as const satisfies KindEntry;

const joinedWords = (cron: string, zone: string): string =>
  [cronInWords(cron) || cron, zone || 'UTC'].filter(Boolean).join(', ');
