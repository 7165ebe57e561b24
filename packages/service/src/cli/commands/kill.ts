import type { AgentRef, MusterClient } from '@muster/sdk';
import type { AgentEntry } from '@muster/sdk/contract';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { isConfirmed } from '../prompt.ts';
import { pathOf, standingOf } from '../words.ts';

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
  if (!flags.yes) {
    const victims = await descendants(client, status.agentId, signal);
    output.note(
      `This ends ${pathOf(status.agentId)} (${standingOf(status)})${victims.length > 0 ? ' and' : '.'}`,
    );
    for (const victim of victims) output.note(`  ${pathOf(victim.agentId)} (${standingOf(victim)})`);
    if (!(await isConfirmed(signal))) throw new CommandError('nothing was ended', exitCodes.failed);
  }
  const reply = await client.kill(status.agentId, { signal });
  output.answer(reply, () => output.line(`ended ${pathOf(status.agentId)}`));
}

async function descendants(
  client: MusterClient,
  parent: AgentRef,
  signal: AbortSignal,
): Promise<AgentEntry[]> {
  const found: AgentEntry[] = [];
  for await (const child of client.listAll({ parent, account: '*' }, { signal })) {
    found.push(child);
    if (child.childCount > 0) found.push(...(await descendants(client, child.agentId, signal)));
  }
  return found;
}
