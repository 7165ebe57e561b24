import { agentIdOf } from '@muster/sdk';
import {
  type AgentEntry,
  type AgentStatus,
  ageOf,
  clock,
  dollars,
  firstLine,
  isTerminal,
  pathOf,
  statusAge,
  statusText,
  thousands,
  unpushedText,
} from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Invocation } from './command.ts';
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
} from './input.ts';
import { newestSequence } from './logs.ts';
import type { Output } from './output.ts';
import { taskLine } from './tasks.ts';
import { statusStyle, type WaitOrFollowFlags, waitOrFollow } from './wait.ts';

const waitOption = ['--wait', 'wait until the agent needs you; sets the exit code'] as const;
const followOption = ['--follow', 'show the transcript until the agent needs you'] as const;

export function addSpawnCommand(program: Command): void {
  const description = 'spawn an agent; the text, a file or standard input says what it should do';
  addSettingsOptions(addCommand(program, 'spawn', description, spawn))
    .argument('[text]', 'what the agent should do')
    .option('-f, --file <file>', 'read the text from a file; - is standard input')
    .option('--name <path>', 'name, such as fix-login or parent/child; generated if not given')
    .option('--workspace <name>', 'workspace')
    .option('--expect <text>', 'the output that you expect at the end')
    .option('--task <subject>', 'a task for the checklist; may be repeated', collect)
    .option('--label <key=value>', 'a label; may be repeated', collect)
    .option(...waitOption)
    .option(...followOption);
}

interface SpawnFlags extends SettingsFlags, WaitOrFollowFlags {
  readonly file?: string;
  readonly name?: string;
  readonly workspace?: string;
  readonly expect?: string;
  readonly task?: readonly string[];
  readonly label?: readonly string[];
}

async function spawn(invocation: Invocation<SpawnFlags>, text?: string): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const connected = client();
  const description = await messageText(text, flags.file, !flags.task, signal);
  if (description === '' && !flags.task)
    throw usageError('say what the agent should do: muster spawn "…", --file, or standard input');
  const spawned = await connected.spawn(
    {
      path: {
        ...(flags.name !== undefined && agentIdOf(flags.name)),
        ...(flags.workspace !== undefined && { workspace: flags.workspace }),
      },
      description,
      ...(flags.expect !== undefined && { expectedOutput: flags.expect }),
      ...tasksOf(flags.task),
      ...labelsOf(flags.label),
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
    output.note(`follow it with muster logs -f ${name}, or at ${dashboardUrl}`);
  });
}

export function addStatusCommand(program: Command): void {
  addCommand(program, 'status', "show an agent's status", status).argument(
    '<agent>',
    'such as fix-login, fix-login/tests or workspace:fix-login',
  );
}

async function status({ client, output, signal }: Invocation, agent: string): Promise<void> {
  const reply = await client().status(agent, { signal });
  output.answer(reply, () => {
    for (const line of statusLines(reply, output)) output.line(line);
  });
}

function statusLines(status: AgentStatus, output: Output): string[] {
  const field = (name: string, value: string): string[] =>
    value === '' ? [] : [`${output.paint('dim', name.padEnd(12))}${value}`];
  const list = <T>(name: string, items: readonly T[], text: (item: T) => string): string[] =>
    items.flatMap((item, at) => field(at === 0 ? name : '', text(item)));
  const { run, diffStat, cost, treeCost } = status;
  const tokens = `${thousands(status.inputTokens)} in, ${thousands(status.outputTokens)} out`;
  const settings = [status.model, status.reasoningEffort, status.serviceTier, status.fastMode ? 'fast' : ''];
  const changes = diffStat ? `  ${diffStat.files} files, +${diffStat.insertions} −${diffStat.deletions}` : '';
  return [
    output.paint('bold', pathOf(status.agentId)) +
      (status.rehearsed ? output.paint('dim', '  (rehearsal: no model is used)') : ''),
    ...field('sandbox', status.sandboxed || status.rehearsed ? '' : output.paint('red', 'No sandbox')),
    ...field(
      'status',
      `${output.paint(statusStyle(status), statusText(status))} ${statusAge(status)}`.trimEnd(),
    ),
    ...field(status.phaseReason === 'BLOCKED' ? 'to fix' : 'needs input', status.needsInput),
    ...field('error', status.error ? `${status.error.code}: ${status.error.message}` : ''),
    ...field('doing', run?.currentAction ?? ''),
    ...field(
      'run',
      run ? `${run.runId} ${(run.outcome || run.state).toLowerCase()}, started ${clock(run.startedAt)}` : '',
    ),
    ...field('model', settings.filter(Boolean).join(', ')),
    ...field('persona', status.persona),
    ...field('workspace', status.agentId.workspace),
    ...field('branch', status.branch + changes),
    ...field('unpushed', unpushedWork(status)),
    ...field(
      'cost',
      `${dollars(cost)}${treeCost === cost ? '' : ` (${dollars(treeCost)} with children)`}, ${tokens}`,
    ),
    ...field('children', status.children.map((child) => child.agent.at(-1)).join(', ')),
    ...list('tasks', status.tasks, taskLine),
    ...list('queue', status.followUps, ({ followUpId, deliverAt, description }) =>
      [followUpId, deliverAt && `at ${clock(deliverAt)}`, firstLine(description)].filter(Boolean).join('  '),
    ),
    ...field('output', status.structuredOutput === null ? '' : JSON.stringify(status.structuredOutput)),
    ...field('dashboard', status.dashboardUrl),
    ...(status.response === '' ? [] : ['', status.response.trimEnd()]),
  ];
}

/** What is not pushed, and whether a checkpoint has it. */
function unpushedWork({ unpushed, checkpointAt }: AgentStatus): string {
  const text = unpushedText(unpushed);
  if (checkpointAt === null) return text && `${text}; not saved`;
  return `${text || 'nothing'}; saved ${ageOf(checkpointAt)} ago`;
}

/** Commands that change an agent. */
export function addAgentCommands(program: Command): void {
  const labelText = 'set labels of an agent; key= removes one; without labels, list them';
  addCommand(program, 'label', labelText, label)
    .argument('<agent>')
    .argument('[labels...]', 'such as team=web');
  addCommand(program, 'stop <agent>', "stop an agent's turn; the agent stays", stop).option(
    '--kill',
    'stop immediately and discard the result of the turn',
  );
  const retryText =
    'run the messages of a blocked agent again after the cause is fixed; run a delayed retry now';
  addCommand(program, 'retry <agent>', retryText, retry)
    .option(...waitOption)
    .option(...followOption);
  const reopenText = 'reopen an agent that finished or failed, with its session, checklist and branch';
  addCommand(program, 'reopen <agent>', reopenText, reopen);
  addCommand(program, 'kill <agent>', 'end an agent and all agents below it', kill).option(
    '-y, --yes',
    'do not ask for confirmation',
  );
}

async function label({ client, output, signal }: Invocation, agent: string, pairs: string[]): Promise<void> {
  const { labels = {} } = labelsOf(pairs);
  const reply = await client().label(agent, labels, { signal });
  output.answer(reply, () => {
    for (const [key, value] of Object.entries(reply.labels)) output.line(`${key}=${value}`);
  });
}

async function reopen({ client, output, signal }: Invocation, agent: string): Promise<void> {
  const reply = await client().reopen(agent, { signal });
  output.answer(reply, () => output.line(`reopened ${agent}; send it work with muster send ${agent} "…"`));
}

async function stop(
  { flags, client, output, signal }: Invocation<{ readonly kill?: boolean }>,
  agent: string,
): Promise<void> {
  const { run, runCount } = await client().status(agent, { signal });
  if (!run || run.state === 'ENDED')
    throw new CommandError(
      `${agent} has no turn to stop; to end the agent, use muster kill ${agent}`,
      exitCodes.conflict,
    );
  const mode = flags.kill ? 'STOP_TURN_MODE_KILL' : 'STOP_TURN_MODE_INTERRUPT';
  const reply = await client().stopTurn(agent, { runId: runCount, mode }, { signal });
  output.answer(reply, () =>
    output.line(`${flags.kill ? 'killed' : 'stopping'} run ${runCount} of ${agent}`),
  );
}

async function retry(invocation: Invocation<WaitOrFollowFlags>, agent: string): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const followAfter = flags.follow ? await newestSequence(client(), agent, signal) : undefined;
  const reply = await client().retry(agent, { signal });
  if (flags.follow || flags.wait) return waitOrFollow(invocation, { ref: agent, name: agent, followAfter });
  output.answer(reply, () => output.line(`retrying ${agent}`));
}

async function kill(
  { flags, client, output, signal }: Invocation<{ readonly yes?: boolean }>,
  agent: string,
): Promise<void> {
  const status = await client().status(agent, { signal });
  const name = pathOf(status.agentId);
  if (!flags.yes) {
    const below: AgentEntry[] = [];
    const filter = { parent: status.agentId, account: '*', allDepths: true };
    for await (const child of client().listAll(filter, { signal })) below.push(child);
    if (isTerminal(status.phase) && below.length === 0)
      throw new CommandError(`${name} has already ended (${statusText(status)})`, exitCodes.conflict);
    output.note(`This ends ${name} (${statusText(status)})${below.length > 0 ? ' and' : '.'}`);
    // The list is newest first; reversed, parents come before their children.
    for (const child of below.reverse()) output.note(`  ${pathOf(child.agentId)} (${statusText(child)})`);
    if (!(await isConfirmed(signal))) throw new CommandError(`${name} was not killed`);
  }
  const reply = await client().kill(status.agentId, { signal });
  output.answer(reply, () => output.line(`ended ${name}`));
}
