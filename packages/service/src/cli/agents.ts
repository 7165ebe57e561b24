import { agentIdOf, type ListInput, type MusterClient } from '@muster/sdk';
import {
  type AgentEntry,
  type AgentStatus,
  ageOf,
  clock,
  contextText,
  dollars,
  firstLine,
  isTerminal,
  type PlanStep,
  pathOf,
  providerName,
  statusAge,
  statusText,
  thousands,
  unpushedText,
} from '@muster/sdk/contract';
import type { Command } from 'commander';
import { changeRequestLine } from './change-requests.ts';
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
  yesOption,
} from './input.ts';
import { newestSequence } from './logs.ts';
import type { Column, Output } from './output.ts';
import { taskLine } from './tasks.ts';
import { statusStyle, waitOrFollow } from './wait.ts';

const waitOption = ['--wait', 'wait until the agent needs you; sets the exit code'] as const;
const followOption = ['--follow', 'show the transcript until the agent needs you'] as const;

export function addAgentCommands(program: Command): void {
  const spawnText = 'spawn an agent; the text, a file or standard input says what it should do';
  addSettingsOptions(addCommand(program, 'spawn', spawnText, spawn))
    .argument('[text]', 'what the agent should do')
    .option('-f, --file <file>', 'read the text from a file; - is standard input')
    .option('--name <path>', 'name, such as fix-login or parent/child; generated if not given')
    .option('--workspace <name>', 'workspace')
    .option('--expect <text>', 'the output that you expect at the end')
    .option('--task <subject>', 'a task for the checklist; may be repeated', collect)
    .option('--label <key=value>', 'a label; may be repeated', collect)
    .option(...waitOption)
    .option(...followOption);
  addCommand(program, 'ps', 'list your agents and their children', ps)
    .option('-a, --all', 'include agents that have ended')
    .option('--account <account>', "list another account's agents; * for all accounts")
    .option('--workspace <name>', 'only agents of this workspace')
    .option('--label <key=value>', 'only agents with this label; may be repeated', collect)
    .option('-w, --watch', 'keep the list up to date');
  const nameText =
    'such as fix-login, fix-login/tests, workspace:fix-login or provider/account:workspace:fix-login';
  addCommand(program, 'status', "show an agent's status", status).argument('<agent>', nameText);
  const labelText = 'set labels of an agent; key= removes one; without labels, list them';
  addCommand(program, 'label', labelText, label)
    .argument('<agent>')
    .argument('[labels...]', 'such as team=web');
  const killTurnText = 'stop immediately and discard the result of the turn';
  addCommand(program, 'stop <agent>', "stop an agent's turn; the agent stays", stop).option(
    '--kill',
    killTurnText,
  );
  const retryText = 'retry a blocked agent after you fixed the cause, or a retrying agent immediately';
  addCommand(program, 'retry <agent>', retryText, retry)
    .option(...waitOption)
    .option(...followOption);
  const reopenText = 'reopen an agent that finished or failed, with its session, checklist and branch';
  addCommand(program, 'reopen <agent>', reopenText, reopen);
  addCommand(program, 'kill <agent>', 'end an agent and all agents below it', kill).option(...yesOption);
}

type SpawnFlags = SettingsFlags &
  Flags<'file' | 'name' | 'workspace' | 'expect', 'wait' | 'follow', 'task' | 'label'>;

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
      expectedOutput: flags.expect,
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

type PsFlags = Flags<'account' | 'workspace', 'all' | 'watch', 'label'>;

interface Row {
  readonly entry: AgentEntry;
  /** Below its parent only the last part of the path. */
  readonly name: string;
  readonly depth: number;
}

const columns: readonly Column<Row>[] = [
  { title: 'AGENT', of: ({ name, depth }) => `${'· '.repeat(depth)}${name}`, isFlexible: true },
  {
    title: 'STATUS',
    of: ({ entry }) => statusText(entry),
    style: ({ entry }) => statusStyle(entry),
    isFlexible: true,
  },
  { title: 'FOR', of: ({ entry }) => ageOf(entry.phaseSince), isRight: true },
  { title: 'RUNS', of: ({ entry }) => entry.runCount, isRight: true },
  { title: 'COST', of: ({ entry }) => dollars(entry.treeCost), isRight: true },
  { title: 'MODEL', of: ({ entry }) => entry.model, isFlexible: true },
  { title: 'WORKSPACE', of: ({ entry }) => entry.agentId.workspace, isFlexible: true },
  { title: 'ACCOUNT', of: ({ entry: { agentId } }) => ownerName(agentId), isFlexible: true },
  { title: 'NEEDS INPUT', of: ({ entry }) => entry.needsInput, isFlexible: true },
];

/** As `--account` and the name of an agent take it. */
const ownerName = ({ ownerProvider, account }: AgentEntry['agentId']): string =>
  `${providerName(ownerProvider)}/${account}`;

const noAgents = 'no agents; spawn one with muster spawn "…"';

async function ps({ flags, client, output, signal }: Invocation<PsFlags>): Promise<void> {
  const request: ListInput = {
    allDepths: true,
    includeTerminal: flags.all,
    account: flags.account,
    workspace: flags.workspace,
    ...labelsOf(flags.label),
  };
  if (flags.watch && output.format !== 'table') {
    for await (const entry of client().listStream(request, { signal })) output.item(entry, () => {});
    return;
  }
  const rows = await output.progress.during('listing agents', readRows(client(), request, signal));
  if (flags.watch) return watch(client(), request, rows, output, signal);
  if (output.format === 'table') await output.table(rows, columnsFor(rows, request), noAgents);
  else
    output.answer(
      rows.map(({ entry }) => entry),
      () => {},
    );
}

const columnsFor = (rows: readonly Row[], { account }: ListInput): readonly Column<Row>[] =>
  columns.filter(({ title, of }) => {
    if (title === 'ACCOUNT') return account !== undefined;
    return title !== 'NEEDS INPUT' || rows.some((row) => of(row) !== '');
  });

/** Sorts each agent under its parent, if the parent is listed too. */
async function readRows(client: MusterClient, request: ListInput, signal: AbortSignal): Promise<Row[]> {
  const agents = new Map<string, AgentEntry>();
  for await (const entry of client.listAll(request, { signal })) agents.set(keyOf(entry), entry);
  const children = new Map<string, AgentEntry[]>();
  const roots: AgentEntry[] = [];
  for (const entry of agents.values()) {
    const parent = keyOf(entry, -1);
    const siblings = agents.has(parent) ? (children.get(parent) ?? []) : roots;
    siblings.push(entry);
    if (siblings !== roots) children.set(parent, siblings);
  }
  const rowsOf = (entry: AgentEntry, depth: number): Row[] => [
    { entry, depth, name: entry.agentId.agent.slice(depth > 0 ? -1 : 0).join('/') },
    ...(children.get(keyOf(entry)) ?? []).flatMap((child) => rowsOf(child, depth + 1)),
  ];
  return roots.flatMap((root) => rowsOf(root, 0));
}

/** The key of an agent, or with `end` of one above it, which has the same owner and workspace. */
const keyOf = ({ agentId: { ownerProvider, account, workspace, agent } }: AgentEntry, end?: number): string =>
  [ownerProvider, account, workspace, ...agent.slice(0, end)].join('/');

const redrawMs = 1000;

/** Reads the list again when something changed, because costs of parents change too; redraws each second for the ages. */
async function watch(
  client: MusterClient,
  request: ListInput,
  before: Row[],
  output: Output,
  signal: AbortSignal,
): Promise<void> {
  let rows = before;
  let isStale = false;
  const listen = async (): Promise<void> => {
    for await (const _ of client.listStream(request, { signal })) isStale = true;
  };
  const listening = listen();
  const draw = drawer(output);
  while (!signal.aborted) {
    draw(rows.length > 0 ? await output.tableLines(rows, columnsFor(rows, request)) : [noAgents]);
    await Promise.race([listening, new Promise((resolve) => setTimeout(resolve, redrawMs))]);
    if (!isStale) continue;
    isStale = false;
    rows = await readRows(client, request, signal);
  }
}

/** Draws over the previous lines, as many as fit. Without a terminal, prints the lines when they changed. */
function drawer(output: Output): (lines: readonly string[]) => void {
  if (output.isTerminal) {
    process.stdout.write('\u001b[2J');
    return (lines) => {
      const { rows = 24 } = process.stdout;
      const hidden = lines.length - rows + 2;
      const fitting = hidden > 1 ? [...lines.slice(0, rows - 2), `… ${hidden} more`] : lines;
      process.stdout.write(`\u001b[H${fitting.map((line) => `${line}\u001b[K\n`).join('')}\u001b[J`);
    };
  }
  let last = '';
  return (lines) => {
    const text = lines.join('\n');
    if (text !== last) output.line(text);
    last = text;
  };
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
    ...list('cr', status.changeRequests, changeRequestLine),
    ...field(
      'cost',
      `${dollars(cost)}${treeCost === cost ? '' : ` (${dollars(treeCost)} with children)`}, ${tokens}`,
    ),
    ...field('context', status.context ? contextText(status.context) : ''),
    ...field('children', status.children.map((child) => child.agent.at(-1)).join(', ')),
    ...list('tasks', status.tasks, taskLine),
    ...list('plan', status.plan?.steps ?? [], planLine),
    ...list('queue', status.followUps, ({ followUpId, deliverAt, description }) =>
      [followUpId, deliverAt && `at ${clock(deliverAt)}`, firstLine(description)].filter(Boolean).join('  '),
    ),
    ...field('output', status.structuredOutput === null ? '' : JSON.stringify(status.structuredOutput)),
    ...field('dashboard', status.dashboardUrl),
    ...(status.response === '' ? [] : ['', status.response.trimEnd()]),
  ];
}

const planMarks = { PENDING: ' ', IN_PROGRESS: '~', COMPLETED: 'x' } as const;
const planLine = ({ text, status }: PlanStep): string => `[${planMarks[status]}] ${text}`;

/** What is not pushed, and whether a checkpoint has it. */
function unpushedWork({ unpushed, checkpointAt }: AgentStatus): string {
  const text = unpushedText(unpushed);
  if (checkpointAt === null) return text && `${text}; not saved`;
  return `${text || 'nothing'}; saved ${ageOf(checkpointAt)} ago`;
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
  { flags, client, output, signal }: Invocation<Flags<never, 'kill'>>,
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

async function retry(invocation: Invocation<Flags<never, 'wait' | 'follow'>>, agent: string): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const followAfter = flags.follow ? await newestSequence(client(), agent, signal) : undefined;
  const reply = await client().retry(agent, { signal });
  if (flags.follow || flags.wait) return waitOrFollow(invocation, { ref: agent, name: agent, followAfter });
  output.answer(reply, () => output.line(`retrying ${agent}`));
}

async function kill(
  { flags, client, output, signal }: Invocation<Flags<never, 'yes'>>,
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
