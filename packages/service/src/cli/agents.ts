import { agentIdOf } from '@muster/sdk';
import { canRetry, isTerminal, pathOf, statusText } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { amountOf } from './budgets.ts';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodes, usageError } from './errors.ts';
import {
  addSettingsOptions,
  collect,
  isConfirmed,
  labelsOf,
  messageText,
  type SettingsFlags,
  settingsOf,
  tasksOf,
  textFileOption,
  yesOption,
} from './input.ts';
import { type Kill, killedNotes, killLines, killOf } from './killed-agents.ts';
import { confirmWorkspace } from './known-workspace.ts';
import { newestSequence } from './logs.ts';
import { addPsCommand, keyOf } from './ps.ts';
import { workspaceOf } from './repository-workspace.ts';
import {
  actOnEach,
  addSelectOptions,
  confirmSelection,
  type SelectedAgent,
  type SelectFlags,
  selectAgents,
} from './several-agents.ts';
import { addStatusCommand } from './status.ts';
import { followOption, onlyOf, waitOption, waitOrFollow } from './wait.ts';

export function addAgentCommands(program: Command): void {
  const spawnText = 'spawn an agent; the text, a file or standard input says what it should do';
  addSettingsOptions(addCommand(program, 'spawn', spawnText, spawn))
    .argument('[text]', 'what the agent should do')
    .option(...textFileOption)
    .option('--name <path>', 'name, such as fix-login or parent/child; generated if not given')
    .option('--workspace <name>', 'workspace')
    .option(
      '--repo <path-or-url>',
      'a repository, such as . for this one: finds its workspace or creates one',
    )
    .option('--expect <text>', 'the output that you expect at the end')
    .option('--task <subject>', 'a task for the checklist; may be repeated', collect)
    .option('--label <key=value>', 'a label; may be repeated', collect)
    .option('--budget <usd>', 'the most that it and all agents below it may spend, such as 5')
    .option(...yesOption)
    .option(...waitOption)
    .option(...followOption);
  addPsCommand(program);
  addStatusCommand(program);
  const labelText = 'set labels of an agent; key= removes one; without labels, list them';
  addCommand(program, 'label', labelText, label)
    .argument('<agent>')
    .argument('[labels...]', 'such as team=web');
  const killTurnText = 'stop immediately and discard the result of the turn';
  const stopText = 'stop the turns of agents; the agents stay';
  addSelectOptions(addCommand(program, 'stop [agents...]', stopText, stop)).option('--kill', killTurnText);
  const retryText =
    'retry blocked agents after you fixed the cause, or retrying and rate-limited agents immediately';
  addSelectOptions(addCommand(program, 'retry [agents...]', retryText, retry))
    .option(...waitOption)
    .option(...followOption);
  const reopenText = 'reopen an agent that finished or failed, with its session, checklist and branch';
  addCommand(program, 'reopen <agent>', reopenText, reopen);
  addSelectOptions(addCommand(program, 'kill [agents...]', 'end agents and all agents below them', kill));
}

type SpawnFlags = SettingsFlags &
  Flags<
    'file' | 'name' | 'workspace' | 'repo' | 'expect' | 'budget',
    'wait' | 'follow' | 'yes',
    'task' | 'label'
  >;

async function spawn(invocation: Invocation<SpawnFlags>, text?: string): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const connected = client();
  const description = await messageText(text, flags.file, !flags.task, signal);
  if (description === '' && !flags.task)
    throw usageError('say what the agent should do: muster spawn "…", --file, or standard input');
  if (flags.repo !== undefined && flags.workspace !== undefined)
    throw usageError('use --repo or --workspace, not both');
  const workspace = flags.repo === undefined ? flags.workspace : await workspaceOf(invocation, flags.repo);
  const named = flags.name === undefined ? undefined : agentIdOf(flags.name);
  // A child has its parent's workspace.
  if (!flags.yes && (named?.agent?.length ?? 0) < 2)
    await confirmWorkspace(invocation, workspace ?? named?.workspace);
  const spawned = await connected.spawn(
    {
      path: {
        ...named,
        ...(workspace !== undefined && { workspace }),
      },
      description,
      expectedOutput: flags.expect,
      ...tasksOf(flags.task),
      ...labelsOf(flags.label),
      ...(flags.budget !== undefined && { budgetUsd: amountOf(flags.budget) }),
      ...settingsOf(flags),
    },
    { signal },
  );
  const { agentId, dashboardUrl } = spawned;
  const name = pathOf(agentId);
  if (flags.follow)
    output.note(`${name} in workspace ${agentId.workspace} (Ctrl-C stops following; the agent continues)`);
  if (flags.follow || flags.wait)
    return waitOrFollow(invocation, { ref: agentId, name, followAfter: flags.follow ? '0' : undefined });
  output.answer(spawned, () => {
    output.line(name);
    // Another workspace may have an agent of the same name.
    output.note(`follow it with muster logs -f ${agentId.workspace}:${name}, or at ${dashboardUrl}`);
  });
}

async function label({ client, output, signal }: Invocation, agent: string, pairs: string[]): Promise<void> {
  const { labels = {} } = labelsOf(pairs);
  const reply = await client().label(agent, labels, { signal });
  output.answer(reply, () => {
    const entries = Object.entries(reply.labels);
    for (const [key, value] of entries) output.line(`${key}=${value}`);
    if (entries.length === 0)
      output.note(`${agent} has no labels; set one with muster label ${agent} key=value`);
  });
}

async function reopen({ client, output, signal }: Invocation, agent: string): Promise<void> {
  const { phase } = await client().status(agent, { signal });
  const reply = await client().reopen(agent, { signal });
  const did = isTerminal(phase) ? `reopened ${agent}` : `${agent} has not ended`;
  output.answer(reply, () => output.line(`${did}; send it work with muster send ${agent} "…"`));
}

async function stop(
  invocation: Invocation<SelectFlags & Flags<never, 'kill'>>,
  names: string[],
): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const agents = await selectAgents(invocation, names, ({ phase }) => phase === 'PHASE_RUNNING');
  await confirmSelection(invocation, agents, flags.kill ? 'kills the turn of' : 'stops the turn of');
  const mode = flags.kill ? 'STOP_TURN_MODE_KILL' : 'STOP_TURN_MODE_INTERRUPT';
  const runs = new Map<SelectedAgent, string>();
  const act = async (agent: SelectedAgent) => {
    const { run, runCount } = await client().status(agent.ref, { signal });
    if (!run || run.state === 'ENDED')
      throw new CommandError(
        `${agent.name} has no turn to stop; to end the agent, use muster kill ${agent.name}`,
        exitCodes.conflict,
      );
    runs.set(agent, runCount);
    return client().stopTurn(agent.ref, { runId: runCount, mode }, { signal });
  };
  await actOnEach(invocation, agents, act, (agent) =>
    output.line(`${flags.kill ? 'killed' : 'stopping'} run ${runs.get(agent)} of ${agent.name}`),
  );
}

async function retry(
  invocation: Invocation<SelectFlags & Flags<never, 'wait' | 'follow'>>,
  names: string[],
): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const agents = await selectAgents(invocation, names, canRetry);
  if (flags.follow || flags.wait) {
    const only = onlyOf(agents, flags);
    const followAfter = flags.follow ? await newestSequence(client(), only.ref, signal) : undefined;
    await client().retry(only.ref, { signal });
    return waitOrFollow(invocation, { ...only, followAfter });
  }
  await confirmSelection(invocation, agents, 'retries');
  await actOnEach(
    invocation,
    agents,
    ({ ref }) => client().retry(ref, { signal }),
    ({ name }) => output.line(`retrying ${name}`),
  );
}

async function kill(invocation: Invocation<SelectFlags>, names: string[]): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const agents = await selectAgents(invocation, names);
  const readKill = async ({ ref }: SelectedAgent) =>
    killOf(client(), await client().status(ref, { signal }), signal);
  // A kill of an agent above it ends it too.
  const selected = new Set(agents.flatMap(({ entry }) => (entry ? [keyOf(entry)] : [])));
  const doomed = agents.filter(
    ({ entry }) => !entry?.agentId.agent.some((_, at) => at > 0 && selected.has(keyOf(entry, at))),
  );
  const kills: Kill[] = [];
  for (const agent of flags.yes ? [] : doomed) {
    const kill = await readKill(agent);
    const { status, killed } = kill;
    if (killed.length === 0)
      throw new CommandError(
        `${pathOf(status.agentId)} has already ended (${statusText(status)})`,
        exitCodes.conflict,
      );
    kills.push(kill);
  }
  for (const line of killLines(kills)) output.note(line);
  if (kills.length > 0 && !(await isConfirmed(signal)))
    throw new CommandError(
      `${doomed.map(({ name }) => name).join(', ')} ${doomed.length === 1 ? 'was' : 'were'} not killed`,
    );
  const notes = new Set<string>();
  const killOne = async (agent: SelectedAgent) => {
    const kill = await readKill(agent);
    const reply = await client().kill(agent.ref, { signal });
    for (const note of killedNotes(kill)) notes.add(note);
    return reply;
  };
  await actOnEach(invocation, doomed, killOne, ({ name }) => output.line(`ended ${name}`));
  for (const line of notes) output.note(line);
}
