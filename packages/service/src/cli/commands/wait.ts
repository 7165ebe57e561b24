import { exitCodeFor } from '../attention.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { statusLine } from '../status-text.ts';
import { durationMs } from '../times.ts';

interface Flags {
  readonly timeout?: string;
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const agents = args[0] as readonly string[];
  const limit = flags.timeout === undefined ? undefined : AbortSignal.timeout(durationMs(flags.timeout));
  const both = AbortSignal.any([signal, ...(limit ? [limit] : [])]);
  const client = connect();
  try {
    const status =
      agents.length === 1
        ? await client.wait(agents[0] as string, { signal: both })
        : await client.waitMany(agents, { signal: both });
    output.answer(status, () => output.line(statusLine(status, output)));
    process.exitCode = exitCodeFor(status);
  } catch (error) {
    if (limit?.aborted)
      throw new CommandError(`nothing happened within ${flags.timeout}`, exitCodes.timedOut);
    throw error;
  }
}
