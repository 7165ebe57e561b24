import type { MusterClient } from '@muster/sdk';
import { type AgentEntry, type AgentStatus, isTerminal, pathOf, statusText } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodes } from './errors.ts';
import { isConfirmed, yesOption } from './input.ts';
import { actOnEach, agentCount } from './several-agents.ts';

export function addDeleteCommand(program: Command): void {
  const agent = program.command('agent').description('delete agents that have ended');
  const text =
    'delete agents that have ended, and the agents below them: transcript, checkpoints, images, messages and runs';
  addCommand(agent, 'delete <agents...>', text, deleteAgents).option(...yesOption);
}

interface Doomed {
  readonly ref: AgentStatus['agentId'];
  readonly name: string;
  readonly below: readonly AgentEntry[];
}

async function deleteAgents(invocation: Invocation<Flags<never, 'yes'>>, names: string[]): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const doomed: Doomed[] = [];
  for (const name of new Set(names)) doomed.push(await whatIsDeleted(client(), name, signal));
  if (!flags.yes) {
    for (const { name, below } of doomed) {
      output.note(`This deletes ${name} for good${below.length > 0 ? ', and' : '.'}`);
      for (const { agentId, ...entry } of below) output.note(`  ${pathOf(agentId)} (${statusText(entry)})`);
    }
    if (!(await isConfirmed(signal))) throw new CommandError('nothing was deleted');
  }
  const belowOf = new Map(doomed.map(({ name, below }) => [name, below.length]));
  await actOnEach(
    { flags: {}, output, signal },
    doomed,
    async ({ ref, name }) => {
      await client().delete(ref, { signal });
      return { deleted: 1 + (belowOf.get(name) ?? 0) };
    },
    ({ name }, { deleted }) =>
      output.line(`deleted ${name}${deleted > 1 ? ` and ${agentCount(deleted - 1)} below it` : ''}`),
  );
}

async function whatIsDeleted(client: MusterClient, agent: string, signal: AbortSignal): Promise<Doomed> {
  const status = await client.status(agent, { signal });
  const name = pathOf(status.agentId);
  if (!isTerminal(status.phase))
    throw new CommandError(
      `${name} has not ended (${statusText(status)}); end it first with muster kill ${agent}`,
      exitCodes.conflict,
    );
  const below: AgentEntry[] = [];
  const filter = { parent: status.agentId, account: '*', allDepths: true, includeTerminal: true };
  for await (const child of client.listAll(filter, { signal })) below.push(child);
  return { ref: status.agentId, name, below: below.reverse() };
}
