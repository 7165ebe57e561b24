import type { MusterClient } from '@muster/sdk';
import { tell } from '../attend.ts';
import { exitCodeFor } from '../attention.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import type { Output } from '../output.ts';
import { statusLine } from '../status-text.ts';
import { durationMs } from '../times.ts';

interface Flags {
  readonly timeout?: string;
  readonly all?: boolean;
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
    // A wait outlives a service that is away. One that was never there is another matter.
    await client.whoami({ signal: both });
    const waiting = flags.all ? all(client, agents, output, both) : first(client, agents, output, both);
    await output.waiting.during(`waiting for ${agents.join(', ')}`, waiting);
  } catch (error) {
    if (limit?.aborted && !signal.aborted)
      throw new CommandError(`nothing happened within ${flags.timeout}`, exitCodes.timedOut);
    throw error;
  }
}

async function first(
  client: MusterClient,
  agents: readonly string[],
  output: Output,
  signal: AbortSignal,
): Promise<void> {
  const [only] = agents;
  const isAlone = agents.length === 1 && only !== undefined;
  tell(await (isAlone ? client.wait(only, { signal }) : client.waitMany(agents, { signal })), output);
}

/** Tells of each as it comes to rest. The code is that of the first, as they were named, that is not 0. */
async function all(
  client: MusterClient,
  agents: readonly string[],
  output: Output,
  signal: AbortSignal,
): Promise<void> {
  const waits = agents.map(async (agent) => {
    const status = await client.wait(agent, { signal });
    output.item(status, () => output.line(statusLine(status, output)));
    return exitCodeFor(status);
  });
  process.exitCode = (await Promise.all(waits)).find((code) => code !== exitCodes.ok) ?? exitCodes.ok;
}
