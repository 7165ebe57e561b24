import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const [agent, id] = args as [string, string];
  const reply = await client().removeFollowUp(agent, id, { signal });
  if (!reply.removed)
    throw new CommandError(
      `${id} is not in the queue of ${agent}; muster queue ${agent} shows what is`,
      exitCodes.notFound,
    );
  output.answer(reply, () => output.line(`removed ${id}`));
}
