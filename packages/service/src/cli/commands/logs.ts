import type { TimelineEntry } from '@muster/sdk/contract';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { newestEntries } from '../newest.ts';
import { entryLines } from '../transcript.ts';

interface Flags {
  readonly follow?: boolean;
  readonly lines?: string;
  readonly json?: boolean;
}

const pageSize = 1000;

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const agent = args[0] as string;
  const newest = flags.lines === undefined ? undefined : Number(flags.lines);
  if (newest !== undefined && !(Number.isInteger(newest) && newest >= 0 && newest <= pageSize))
    throw new CommandError(`--lines must be a whole number up to ${pageSize}`, exitCodes.usage);
  const isForPrograms = flags.json || output.form !== 'table';
  const show = (entry: TimelineEntry): void => {
    if (isForPrograms) output.line(JSON.stringify(entry));
    else for (const line of entryLines(entry, output)) output.line(line);
  };
  const client = connect();
  let shown = '0';
  if (newest !== undefined) {
    const entries = await newestEntries(client, agent, Math.max(1, newest), signal);
    shown = entries.at(-1)?.sequence ?? '0';
    for (const entry of newest === 0 ? [] : entries) show(entry);
  } else {
    for await (const entry of client.timelineAll(agent, { signal })) {
      show(entry);
      shown = entry.sequence;
    }
  }
  if (!flags.follow) return;
  for await (const entry of client.timelineStream(agent, { after: shown, signal })) show(entry);
}
