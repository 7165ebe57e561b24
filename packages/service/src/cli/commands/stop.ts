import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';

interface Flags {
  readonly kill?: boolean;
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const agent = args[0] as string;
  const client = connect();
  const { run: turn, runCount } = await client.status(agent, { signal });
  if (!turn || turn.state === 'ENDED')
    throw new CommandError(
      `${agent} has no turn to stop; muster kill ends the agent itself`,
      exitCodes.conflict,
    );
  const mode = flags.kill ? 'STOP_TURN_MODE_KILL' : 'STOP_TURN_MODE_INTERRUPT';
  const reply = await client.stopTurn(agent, { runId: runCount, mode }, { signal });
  output.answer(reply, () =>
    output.line(`${flags.kill ? 'killed' : 'stopping'} run ${runCount} of ${agent}`),
  );
}
