import type { CatalogEntry, DocumentOf, ScheduleFire } from '@muster/sdk';
import {
  clock,
  cronInWords,
  firstLine,
  pathOf,
  type ScheduleDocument,
  type ScheduleState,
  scheduleState,
  timeInZone,
} from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, usageError } from './errors.ts';
import type { Output, Style } from './output.ts';
import { addPauseCommands } from './pausing.ts';

export function addScheduleCommands(program: Command): void {
  const schedules = program
    .command('schedule')
    .description('work at certain times; create schedules with muster edit or muster apply');
  addCommand(schedules, 'ls', 'list schedules, with the next time and the last outcome', list);
  addCommand(schedules, 'show <schedule>', 'what it does, in words, and the next five times', show);
  addCommand(schedules, 'run <schedule>', 'fire it now, also if it is paused', run);
  addCommand(schedules, 'history <schedule>', 'what fired and what did not, newest first', history).option(
    '-n, --limit <number>',
    'how many',
    '50',
  );
  addPauseCommands(schedules, {
    kind: 'schedule',
    pause: 'do not fire until it is resumed',
    resume: 'fire again, from now on',
  });
}

const words = ({ cron, zone }: ScheduleState): string => `${cronInWords(cron) || cron || 'never'}, ${zone}`;

const outcomeStyles = { FIRED: 'green', SKIPPED: 'dim', FAILED: 'red' } as const;
const outcomeText = ({ outcome }: Pick<ScheduleFire, 'outcome'>): string => outcome.toLowerCase();

async function list({ client, output, signal }: Invocation): Promise<void> {
  const entries: CatalogEntry<DocumentOf<'schedule'>>[] = [];
  for await (const entry of client().catalog.listAll('schedule', { signal })) entries.push(entry);
  if (output.format !== 'table') return output.answer(entries, () => {});
  const rows = entries.map(({ name, document }) => ({ name, state: scheduleState(document) }));
  await output.table(
    rows,
    [
      { title: 'SCHEDULE', of: ({ name }) => name },
      { title: 'WHEN', of: ({ state }) => words(state), isFlexible: true },
      { title: 'NEXT', of: ({ state }) => nextText(state) },
      {
        title: 'LAST',
        of: ({ state: { lastRun } }) => (lastRun ? `${outcomeText(lastRun)} ${clock(lastRun.at)}` : '–'),
        style: ({ state: { lastRun } }): Style | undefined =>
          lastRun ? outcomeStyles[lastRun.outcome] : undefined,
      },
    ],
    'no schedules; create one with muster edit schedule/NAME',
  );
}

const nextText = ({ isPaused, nextRuns: [next] }: ScheduleState): string =>
  isPaused ? 'paused' : next === undefined ? 'never' : clock(next);

async function show({ client, output, signal }: Invocation, name: string): Promise<void> {
  const { document, ...resource } = await client().catalog.read('schedule', name, { signal });
  output.answer({ ...resource, document }, () => {
    const state = scheduleState(document);
    const line = (title: string, text: string) =>
      output.line(`${output.paint('dim', title.padEnd(9))}${text}`);
    line('when', words(state));
    line('does', workText(document as ScheduleDocument));
    if (state.isPaused) line('paused', state.pausedReason || 'yes');
    if (state.lastRun) line('last', fireText(output, state.lastRun));
    for (const [i, next] of state.nextRuns.entries()) {
      const [here, there] = [timeInZone(next), timeInZone(next, state.zone)];
      line(i === 0 ? 'next' : '', here === there ? here : `${there} (${here} here)`);
    }
  });
}

function workText({ agentId, message = '', spawn }: ScheduleDocument): string {
  if (spawn) {
    const path = (spawn.agentId?.agent ?? []).join('/');
    return `spawns ${path || 'an agent'}: ${firstLine(spawn.description ?? '')}`;
  }
  return `tells ${pathOf({ agent: agentId?.agent ?? [] })}: ${firstLine(message)}`;
}

function fireText(output: Output, fire: Pick<ScheduleFire, 'at' | 'outcome' | 'reason'>): string {
  const { outcome, at, reason } = fire;
  return `${output.paint(outcomeStyles[outcome], outcomeText(fire))} ${clock(at)}${reason && `: ${reason}`}`;
}

async function run({ client, output, signal }: Invocation, name: string): Promise<void> {
  const fire = await client().schedules.run(name, { signal });
  output.answer(fire, () => {
    const { agentId, followUpId } = fire;
    if (agentId) output.line(`${followUpId ? 'told' : 'spawned'} ${pathOf(agentId)}`);
  });
  if (fire.outcome !== 'FIRED') throw new CommandError(`${name} did not fire: ${fire.reason}`);
}

async function history(
  { flags, client, output, signal }: Invocation<Flags<'limit'>>,
  name: string,
): Promise<void> {
  const limit = Number(flags.limit);
  if (!Number.isInteger(limit) || limit < 1)
    throw usageError(`--limit ${flags.limit}: expected a number above 0`);
  const found: ScheduleFire[] = [];
  for await (const fire of client().schedules.historyAll(name, { signal })) {
    if (found.push(fire) >= limit) break;
  }
  await output.table(
    found,
    [
      { title: 'SCHEDULED', of: ({ scheduledAt }) => clock(scheduledAt) },
      { title: 'AT', of: ({ at }) => clock(at) },
      { title: 'OUTCOME', of: outcomeText, style: ({ outcome }) => outcomeStyles[outcome] },
      { title: 'AGENT', of: ({ agentId }) => (agentId ? pathOf(agentId) : '–') },
      {
        title: 'REASON',
        of: ({ reason, manual }) => reason || (manual ? 'run by hand' : ''),
        isFlexible: true,
      },
    ],
    'it has not fired yet',
  );
}
