import type { AgentRef } from '@muster/sdk';
import { type AgentEntry, pathOf, statusText } from '@muster/sdk/contract';
import type { Command } from 'commander';
import type { Flags, Invocation } from './command.ts';
import { CommandError, exitCodeOf, usageError } from './errors.ts';
import { collect, isConfirmed, labelsOf, yesOption } from './input.ts';

/** How a command names several agents: by name, by label, or all of them. */
export type SelectFlags = Flags<never, 'all' | 'yes', 'label'>;

export interface SelectedAgent {
  readonly ref: AgentRef;
  readonly name: string;
  /** Of an agent that was found by label or with --all. */
  readonly entry?: AgentEntry;
}

export const labelOption = [
  '--label <key=value>',
  'your live agents with this label instead of names; may be repeated',
  collect,
] as const;

export const addSelectOptions = (command: Command): Command =>
  command
    .option(...labelOption)
    .option('--all', 'all your live agents instead of names')
    .option(...yesOption);

export const noneFits = 'no live agent fits';

export const isSelection = ({ all, label }: SelectFlags): boolean => all === true || label !== undefined;

/** The agents that the names or the flags select. Of your live agents only those that the command applies to. */
export async function selectAgents(
  { flags, client, signal }: Pick<Invocation<SelectFlags>, 'flags' | 'client' | 'signal'>,
  names: readonly string[],
  applies: (entry: AgentEntry) => boolean = () => true,
): Promise<SelectedAgent[]> {
  if (!isSelection(flags)) {
    if (names.length === 0) throw usageError('name an agent, or use --label or --all');
    return [...new Set(names)].map((name) => ({ ref: name, name }));
  }
  if (names.length > 0) throw usageError('name agents, or use --label or --all, not both');
  const entries: AgentEntry[] = [];
  const filter = { allDepths: true, ...labelsOf(flags.label) };
  for await (const entry of client().listAll(filter, { signal })) if (applies(entry)) entries.push(entry);
  const paths = entries.map(({ agentId }) => pathOf(agentId));
  // The list is newest first; reversed, parents come before their children.
  return entries.reverse().map((entry) => {
    const path = pathOf(entry.agentId);
    const isAmbiguous = paths.indexOf(path) !== paths.lastIndexOf(path);
    const name = isAmbiguous ? `${entry.agentId.workspace}:${path}` : path;
    return { ref: entry.agentId, name, entry };
  });
}

/** Lists what a command is about to do to the agents that flags selected, and asks once. Names need no confirmation. */
export async function confirmSelection(
  { flags, output, signal }: Pick<Invocation<SelectFlags>, 'flags' | 'output' | 'signal'>,
  agents: readonly SelectedAgent[],
  does: string,
): Promise<void> {
  if (!isSelection(flags) || flags.yes || agents.length === 0) return;
  output.note(`This ${does} ${agentCount(agents.length)}:`);
  for (const { name, entry } of agents) output.note(`  ${name}${entry ? ` (${statusText(entry)})` : ''}`);
  if (!(await isConfirmed(signal))) throw new CommandError('nothing was done');
}

export const agentCount = (count: number): string => (count === 1 ? '1 agent' : `${count} agents`);

const atOnce = 8;

/**
 * Applies an operation to each agent and prints the results. If one agent is refused, the others still get their turn;
 * the exit code is the first that is not 0. As JSON: the reply for one named agent, else an array.
 */
export async function actOnEach<R extends object>(
  { flags, output, signal }: Pick<Invocation<SelectFlags>, 'flags' | 'output' | 'signal'>,
  agents: readonly SelectedAgent[],
  act: (agent: SelectedAgent) => Promise<R>,
  show: (agent: SelectedAgent, reply: R) => void,
): Promise<void> {
  const [only] = agents;
  if (!isSelection(flags) && only && agents.length === 1) {
    const reply = await act(only);
    output.answer(reply, () => show(only, reply));
    return;
  }
  const results: object[] = [];
  for (let at = 0; at < agents.length; at += atOnce) {
    const some = agents.slice(at, at + atOnce);
    const settled = await Promise.allSettled(some.map(act));
    signal.throwIfAborted();
    for (const [i, outcome] of settled.entries()) {
      const agent = some[i] as SelectedAgent;
      if (outcome.status === 'fulfilled') {
        if (output.format === 'table') show(agent, outcome.value);
        results.push({ agent: agent.name, ...outcome.value });
      } else {
        const { message } = outcome.reason as Error;
        output.note(`muster: ${agent.name}: ${message}`);
        results.push({ agent: agent.name, error: message });
        process.exitCode ??= exitCodeOf(outcome.reason);
      }
    }
  }
  output.answer(results, () => {
    if (agents.length === 0) output.note(noneFits);
  });
}
