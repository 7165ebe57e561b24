import type { ListInput, MusterClient } from '@muster/sdk';
import {
  type AgentEntry,
  ageOf,
  dollars,
  firstLine,
  newsText,
  providerName,
  savedText,
  statusText,
  taskText,
  unpushedText,
} from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { collect, labelsOf } from './input.ts';
import type { Column, Output } from './output.ts';
import { statusStyle } from './wait.ts';

export function addPsCommand(program: Command): void {
  addCommand(program, 'ps', 'list your agents and their children', ps)
    .option('-a, --all', 'include agents that have ended')
    .option('--account <account>', "list another account's agents; * for all accounts")
    .option('--workspace <name>', 'only agents of this workspace')
    .option('--label <key=value>', 'only agents with this label; may be repeated', collect)
    .option('-w, --watch', 'keep the list up to date');
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
  { title: 'TASKS', of: ({ entry }) => taskText(entry).replace(/ tasks?$/, ''), isRight: true },
  { title: 'NEWS', of: ({ entry }) => newsText(entry), isFlexible: true },
  {
    title: 'DESCRIPTION',
    of: ({ entry }) => firstLine(entry.description),
    isFlexible: true,
    isOptional: true,
  },
  { title: 'UNPUSHED', of: atRisk, isFlexible: true },
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
    return !['TASKS', 'NEWS', 'UNPUSHED'].includes(title) || rows.some((row) => of(row) !== '');
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
export const keyOf = (
  { agentId: { ownerProvider, account, workspace, agent } }: AgentEntry,
  end?: number,
): string => [ownerProvider, account, workspace, ...agent.slice(0, end)].join('/');

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

/** Only work that a person could lose, such as `2 commits, partly saved 4m ago`. */
function atRisk({ entry }: Row): string {
  const text = unpushedText(entry.unpushed);
  return text || entry.unpushed?.isSaved === false ? [text, savedText(entry)].filter(Boolean).join(', ') : '';
}
