import { setImmediate as nextTurn } from 'node:timers/promises';
import { cronProblem, limits, nameExpected, namePattern, type ScheduleDocument } from '@muster/sdk/contract';
import type { Violation } from '../../../lib/validator.ts';
import { isZone, zoneProblem } from '../../../lib/zone.ts';
import {
  deleteSchedule,
  readSchedule,
  readShownSchedules,
  saveSchedule,
} from '../../../store/statements/schedules.ts';
import { spawnPath } from '../../schedules/spawn-path.ts';
import { dueMs, timesAfter, timingOf } from '../../schedules/timing.ts';
import type { Document } from '../document.ts';
import { refuseOtherAgents } from './other-agents.ts';
import type { KindRules, WriteTransaction } from './rules.ts';

export const scheduleRules: KindRules = {
  check: (document) =>
    checks.map((check) => check(document as ScheduleDocument)).find((found) => found) ?? null,
  warnings: (document) => warningsOf(document as ScheduleDocument),
  complete: (caller, tenant, document) => refuseOtherAgents(caller, tenant, 'schedule', document) ?? document,
  onWrite: async (transaction, document) => {
    await saveTimes(transaction, document);
    return { document };
  },
  onDelete: async (connection, tenant, { name }) => {
    await deleteSchedule(connection, tenant, name);
  },
  state: async (database, tenant, found) => {
    const rows = await readShownSchedules(database, tenant, [...found.keys()]);
    const shown = new Map<string, Document>();
    for (const [i, row] of rows.entries()) {
      // Times of very many schedules take long.
      if (i % 25 === 24) await nextTurn();
      shown.set(row.name, stateOf(row, found.get(row.name) ?? {}));
    }
    return shown;
  },
};

const nameForm = new RegExp(namePattern);
const violation = (field: string, description: string): Violation => ({ field, description });

function tooLong(field: string, text: string | undefined): Violation | null {
  const bytes = Buffer.byteLength(text ?? '');
  const most = limits.descriptionBytes;
  return bytes > most ? violation(field, `must be at most ${most} bytes; got ${bytes}`) : null;
}

/** What is wrong with a document, by field. */
const checks: readonly ((document: ScheduleDocument) => Violation | null)[] = [
  ({ cron }) => {
    const problem = cron ? cronProblem(cron) : null;
    return problem === null ? null : violation('cron', problem);
  },
  ({ zone }) => (zone && !isZone(zone) ? violation('zone', zoneProblem(zone)) : null),
  ({ startsAt, endsAt }) =>
    startsAt && endsAt && Date.parse(endsAt) <= Date.parse(startsAt)
      ? violation('endsAt', `must be after startsAt, which is ${startsAt}; got ${endsAt}`)
      : null,
  ({ message, spawn }) => (message && spawn ? violation('spawn', 'may not be combined with message') : null),
  ({ agentId, spawn }) =>
    agentId && spawn
      ? violation('agentId', 'is the agent that gets a message; name the one to spawn in spawn.agentId')
      : null,
  ({ message }) => tooLong('message', message),
  ({ spawn }) => tooLong('spawn.description', spawn?.description),
  ({ spawn }) => {
    const path = spawn?.agentId?.agent ?? [];
    const at = spawnPath(path, '', '2026-01-31', 1_000_000).findIndex((part) => !nameForm.test(part));
    return at < 0 || path.length === 0
      ? null
      : violation(
          `spawn.agentId.agent[${at}]`,
          `must be ${nameExpected}, when {date} and {n} are filled in; got ${JSON.stringify(path[at])}`,
        );
  },
];

function warningsOf({ cron, message, agentId, spawn }: ScheduleDocument) {
  const found: { field: string; description: string }[] = [];
  if (!cron) found.push({ field: 'cron', description: 'is not set: this schedule never fires' });
  if (!message && !spawn)
    found.push({ field: 'message', description: 'is not set, nor is spawn: this schedule never fires' });
  if (message && !agentId)
    found.push({ field: 'agentId', description: 'is not set: nobody gets the message, and nothing fires' });
  const path = spawn?.agentId?.agent ?? [];
  if (path.length > 0 && !path.some((part) => /\{(date|n)\}/.test(part)))
    found.push({
      field: 'spawn.agentId.agent',
      description: 'has neither {date} nor {n}: it can only fire while no agent of this name lives',
    });
  return found;
}

/** What decides when it fires. */
const timing = ['cron', 'zone', 'jitterSeconds', 'startsAt', 'endsAt', 'paused'] as const;
const isSet = (document: Document): boolean =>
  Boolean(document.spawn || (document.message && document.agentId));

/** A change of its work or its policies does not lose a fire that is due. */
async function saveTimes(
  { connection, tenant, write, row }: WriteTransaction,
  document: Document,
): Promise<void> {
  const { name } = write;
  const before = row.document;
  const isSame =
    before !== null &&
    isSet(before) === isSet(document) &&
    timing.every((field) => before[field] === document[field]);
  if (isSame) {
    const [known] = await readSchedule(connection, tenant, name);
    if (known && known.paused_reason === '') return;
  }
  const times = timingOf(document);
  const [nextMs] = times ? timesAfter(times, Date.parse(row.now)) : [];
  const [at, due] =
    times && nextMs !== undefined ? [nextMs, dueMs(times, name, nextMs)].map(timeOf) : [null, null];
  await saveSchedule(connection, tenant, name, at ?? null, due ?? null);
}

const timeOf = (ms: number): string => new Date(ms).toISOString();

const shownTimes = 5;

function stateOf(row: Awaited<ReturnType<typeof readShownSchedules>>[number], document: Document): Document {
  const times = row.scheduled_at === null ? null : timingOf(document);
  const from = Date.parse(row.scheduled_at ?? '') - 1;
  return {
    nextRuns: times ? timesAfter(times, from, shownTimes).map(timeOf) : [],
    lastRun: row.at === null ? null : { at: row.at, outcome: row.outcome, reason: row.reason },
    pausedReason: row.paused_reason,
  };
}
