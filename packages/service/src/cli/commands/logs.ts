import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { Output } from '../output.ts';
import { showEntry } from '../transcript.ts';

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
  signal,
  ...given
}: Invocation<Flags>): Promise<void> {
  const agent = args[0] as string;
  const newest = flags.lines === undefined ? undefined : Number(flags.lines);
  if (newest !== undefined && !(Number.isInteger(newest) && newest >= 0 && newest <= pageSize))
    throw new CommandError(`--lines must be a whole number up to ${pageSize}`, exitCodes.usage);
  const output = flags.json ? new Output('json', false) : given.output;
  const client = connect();
  let shown = '0';
  if (newest !== undefined) {
    const entries = await client.timelineNewest(agent, { limit: Math.max(1, newest), signal });
    shown = entries.at(-1)?.sequence ?? '0';
    for (const entry of newest === 0 ? [] : entries) showEntry(entry, output);
  } else {
    for await (const entry of client.timelineAll(agent, { signal })) {
      showEntry(entry, output);
      shown = entry.sequence;
    }
  }
  if (!flags.follow) return;
  for await (const entry of client.timelineStream(agent, { after: shown, signal })) showEntry(entry, output);
}
