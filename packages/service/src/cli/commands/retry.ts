import { type AttendFlags, attend } from '../attend.ts';
import type { Invocation } from '../invocation.ts';
import { newestSequence } from '../newest.ts';

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<AttendFlags>): Promise<void> {
  const agent = args[0] as string;
  const client = connect();
  const followAfter = flags.follow ? await newestSequence(client, agent, signal) : undefined;
  const reply = await client.retry(agent, { signal });
  if (flags.follow || flags.wait)
    return attend(client, { ref: agent, name: agent, followAfter }, output, signal);
  output.answer(reply, () => output.line(`retrying ${agent}`));
}
