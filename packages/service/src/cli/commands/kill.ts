import type { AgentRef, MusterClient } from '@muster/sdk';
import { type AgentEntry, isTerminal, pathOf, statusText } from '@muster/sdk/contract';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { isConfirmed } from '../prompt.ts';

interface Flags {
  readonly yes?: boolean;
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
  const status = await client.status(agent, { signal });
  const name = pathOf(status.agentId);
  const victims = flags.yes ? [] : await descendants(client, status.agentId, signal);
  if (isTerminal(status.phase) && victims.length === 0 && !flags.yes)
    throw new CommandError(`${name} has ended already (${statusText(status)})`, exitCodes.conflict);
  if (!flags.yes) {
    output.note(`This ends ${name} (${statusText(status)})${victims.length > 0 ? ' and' : '.'}`);
    for (const victim of victims) output.note(`  ${pathOf(victim.agentId)} (${statusText(victim)})`);
    if (!(await isConfirmed(signal))) throw new CommandError('nothing was ended');
  }
  const reply = await client.kill(status.agentId, { signal });
  output.answer(reply, () => output.line(`ended ${name}`));
}

/** Those that live below it, parents before their children. */
async function descendants(
  client: MusterClient,
  parent: AgentRef,
  signal: AbortSignal,
): Promise<AgentEntry[]> {
  const found: AgentEntry[] = [];
  const below = { parent, account: '*', allDepths: true };
  for await (const agent of client.listAll(below, { signal })) found.push(agent);
  return found.reverse();
}
