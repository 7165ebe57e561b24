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
  readonly below?: string;
  readonly message?: string;
  readonly run?: string;
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const agents = args[0] as readonly string[];
  refuseMixture(agents, flags);
  const limit = flags.timeout === undefined ? undefined : AbortSignal.timeout(durationMs(flags.timeout));
  const both = AbortSignal.any([signal, ...(limit ? [limit] : [])]);
  const client = connect();
  try {
    // A wait outlives a service that is away. One that was never there is another matter.
    await client.whoami({ signal: both });
    const isEach = flags.all && flags.below === undefined;
    const waiting = isEach ? all(client, agents, output, both) : first(client, agents, flags, output, both);
    const whom = flags.below === undefined ? agents.join(', ') : `the agents below ${flags.below}`;
    await output.waiting.during(`waiting for ${whom}`, waiting);
  } catch (error) {
    if (limit?.aborted && !signal.aborted)
      throw new CommandError(`nothing happened within ${flags.timeout}`, exitCodes.timedOut);
    throw error;
  }
}

function refuseMixture(agents: readonly string[], { all, below, message, run }: Flags): void {
  const hasOne = message !== undefined || run !== undefined;
  const problem =
    (agents.length === 0 && below === undefined && 'name an agent, or --below one') ||
    (agents.length > 0 && below !== undefined && 'name agents or --below, not both') ||
    (message !== undefined && run !== undefined && 'give --message or --run, not both') ||
    (hasOne && (agents.length !== 1 || all) && '--message and --run are of one agent');
  if (problem) throw new CommandError(problem, exitCodes.usage);
}

async function first(
  client: MusterClient,
  agents: readonly string[],
  { all, below, message: followUpId, run: runId }: Flags,
  output: Output,
  signal: AbortSignal,
): Promise<void> {
  const [only] = agents;
  if (below !== undefined) return tell(await client.waitMany({ below }, { all, signal }), output);
  const isAlone = agents.length === 1 && only !== undefined;
  const status = isAlone
    ? client.wait(only, { followUpId, runId, signal })
    : client.waitMany(agents, { signal });
  tell(await status, output);
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
