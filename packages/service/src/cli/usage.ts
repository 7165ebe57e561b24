import {
  dollars,
  thousands,
  type UsageInterval,
  type UsageRow,
  usageCsv,
  usageIntervals,
  usageKeys,
} from '@muster/sdk/contract';
import { type Command, Option } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { usageError } from './errors.ts';
import { collect, pairsOf, pastDate } from './input.ts';
import type { Column } from './output.ts';

export function addUsageCommand(program: Command): void {
  const keys = [...usageKeys, 'label:KEY'].join(', ');
  addCommand(program, 'usage', 'add up what agents used, and what it cost', usage)
    .option(
      '--by <key>',
      `a row for each value of ${keys}; several are separated by commas, or the option repeated`,
      collect,
    )
    .addOption(
      new Option('--interval <interval>', 'what a row is for (default: total)').choices(usageIntervals),
    )
    .option('--from <time>', 'such as 7d, yesterday or 2026-12-01 (default: 30 days ago)')
    .option('--to <time>', 'not included (default: now)')
    .option('--zone <zone>', 'time zone of days and months (default: that of this machine)')
    .option('--filter <key=value>', 'only what has this value of a key of --by; may be repeated', collect)
    .option('--csv', 'print CSV');
}

type UsageFlags = Flags<'from' | 'to' | 'zone', 'csv', 'by' | 'filter'> & {
  readonly interval?: UsageInterval;
};

async function usage({ flags, client, output, signal }: Invocation<UsageFlags>): Promise<void> {
  const { by = [], interval = 'total', zone = zoneHere() } = flags;
  const groupBy = by.flatMap((keys) => keys.split(','));
  if (flags.csv && output.format !== 'table') throw usageError('use --csv or --output, not both');
  const request = {
    ...{ groupBy: [...groupBy], interval, zone },
    from: await pastDate(flags.from, '--from'),
    to: await pastDate(flags.to, '--to'),
    ...(flags.filter && { filter: pairsOf(flags.filter, 'filter') }),
  };
  const rows: UsageRow[] = [];
  const reading = async () => {
    for await (const row of client().usageAll(request, { signal })) rows.push(row);
  };
  await output.progress.during('adding up', reading());
  if (flags.csv) return output.write(usageCsv(rows, groupBy));
  if (output.format !== 'table') return output.answer(rows, () => {});
  const shown = interval === 'total' ? rows.sort((a, b) => b.costUsd - a.costUsd) : rows;
  await output.table(shown, columnsFor(rows, groupBy, interval, zone), 'nothing was used in this time');
  if (rows.length > 1)
    output.line(`\ntotal: ${dollars(rows.reduce((sum, { costUsd }) => sum + costUsd, 0))}`);
  if (rows.some(({ estimated }) => estimated))
    output.note('~ some of it was paid by a subscription: counted at list price');
}

const zoneHere = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

function columnsFor(
  rows: readonly UsageRow[],
  groupBy: readonly string[],
  interval: UsageInterval,
  zone: string,
): Column<UsageRow>[] {
  const start = startText(interval, zone);
  const columns: (Column<UsageRow> & { readonly isShown?: boolean })[] = [
    { title: interval.toUpperCase(), of: (row) => start(row.start), isShown: interval !== 'total' },
    ...groupBy.map((key) => ({
      title: key.toUpperCase(),
      of: ({ keys }: UsageRow) => keys[key] || '–',
      isFlexible: true as const,
    })),
    { title: 'COST', of: (row) => `${row.estimated ? '~' : ''}${dollars(row.costUsd)}`, isRight: true },
    { title: 'IN', of: ({ inputTokens }) => thousands(inputTokens), isRight: true },
    { title: 'CACHED', of: ({ cachedInputTokens }) => thousands(cachedInputTokens), isRight: true },
    { title: 'OUT', of: ({ outputTokens }) => thousands(outputTokens), isRight: true },
    {
      title: 'UNPRICED',
      of: ({ unpricedTokens }) => thousands(unpricedTokens),
      isRight: true,
      isShown: rows.some(({ unpricedTokens }) => unpricedTokens !== '0'),
    },
    { title: 'RUNS', of: ({ runs }) => String(runs), isRight: true },
    { title: 'AGENTS', of: ({ agents }) => String(agents), isRight: true },
  ];
  return columns.filter(({ isShown }) => isShown !== false);
}

/** `2026-05-01`, `2026-05`, or `2026-05-01 09:00` in the zone. */
function startText(interval: UsageInterval, timeZone: string): (start: string) => string {
  const length = { hour: 16, day: 10, month: 7, total: 0 }[interval];
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'short' });
  return (start) => format.format(new Date(start)).slice(0, length);
}
