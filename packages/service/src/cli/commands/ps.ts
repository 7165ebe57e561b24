import type { AgentEntry, ListInput, MusterClient } from '@muster/sdk';
import { ageOf, dollars, statusText } from '@muster/sdk/contract';
import type { Invocation } from '../invocation.ts';
import type { Column, Output } from '../output.ts';
import { styleOf } from '../phase-style.ts';
import { labelsOf } from '../settings.ts';

interface Flags {
  readonly all?: boolean;
  readonly account?: string;
  readonly workspace?: string;
  readonly watch?: boolean;
  readonly label?: readonly string[];
}

interface Row {
  readonly entry: AgentEntry;
  /** Below its parent the last part of its path, else all of it. */
  readonly name: string;
  readonly depth: number;
}

const columns: readonly Column<Row>[] = [
  {
    title: 'AGENT',
    of: ({ name, depth }) => `${'· '.repeat(depth)}${name}`,
    isFlexible: true,
  },
  {
    title: 'STATUS',
    of: ({ entry }) => statusText(entry),
    style: ({ entry }) => styleOf(entry),
    isFlexible: true,
  },
  { title: 'FOR', of: ({ entry }) => ageOf(entry.phaseSince), isRight: true },
  { title: 'RUNS', of: ({ entry }) => entry.runCount, isRight: true },
  { title: 'COST', of: ({ entry }) => dollars(entry.treeCost), isRight: true },
  { title: 'MODEL', of: ({ entry }) => entry.model, isFlexible: true },
  { title: 'WORKSPACE', of: ({ entry }) => entry.agentId.workspace, isFlexible: true },
  { title: 'NEEDS INPUT', of: ({ entry }) => entry.needsInput, isFlexible: true },
];

const nobody = 'no agents; muster spawn "…" makes one';

export async function run({ flags, client: connect, output, signal }: Invocation<Flags>): Promise<void> {
  const request: ListInput = {
    allDepths: true,
    ...(flags.all && { includeTerminal: true }),
    ...(flags.account !== undefined && { account: flags.account }),
    ...(flags.workspace !== undefined && { workspace: flags.workspace }),
    ...labelsOf(flags.label),
  };
  const client = connect();
  if (flags.watch && output.form !== 'table') {
    for await (const entry of client.listStream(request, { signal })) output.item(entry, () => {});
    return;
  }
  const rows = await output.waiting.during('looking for agents', tree(client, request, signal));
  if (flags.watch) return watch(client, request, rows, output, signal);
  const shown = shownColumns(rows);
  output.answer(
    rows.map(({ entry }) => entry),
    () => output.table(rows, shown, nobody),
  );
}

const shownColumns = (rows: readonly Row[]): readonly Column<Row>[] =>
  columns.filter(({ title, of }) => title !== 'NEEDS INPUT' || rows.some((row) => of(row) !== ''));

/** Each agent under its parent, if that one is shown too. */
async function tree(client: MusterClient, request: ListInput, signal: AbortSignal): Promise<Row[]> {
  const agents = new Map<string, AgentEntry>();
  for await (const entry of client.listAll(request, { signal })) agents.set(keyOf(entry), entry);
  const children = new Map<string, AgentEntry[]>();
  const tops: AgentEntry[] = [];
  for (const entry of agents.values()) {
    const above = keyOf(entry, -1);
    const beside = agents.has(above) ? (children.get(above) ?? []) : tops;
    beside.push(entry);
    if (beside !== tops) children.set(above, beside);
  }
  const under = (entry: AgentEntry, depth: number): Row[] => [
    { entry, depth, name: entry.agentId.agent.slice(depth > 0 ? -1 : 0).join('/') },
    ...(children.get(keyOf(entry)) ?? []).flatMap((child) => under(child, depth + 1)),
  ];
  return tops.flatMap((top) => under(top, 0));
}

/** Of the agent, or of one above it: it has the same owner and workspace. */
const keyOf = ({ agentId: { ownerProvider, account, workspace, agent } }: AgentEntry, end?: number): string =>
  [ownerProvider, account, workspace, ...agent.slice(0, end)].join('/');

const redrawMs = 1000;

/** Looks again when something changed, for what trees cost, too, and draws once a second for the ages. */
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
  const draw = screen(output);
  while (!signal.aborted) {
    draw(rows.length > 0 ? output.tableLines(rows, shownColumns(rows)) : [nobody]);
    await Promise.race([listening, new Promise((resolve) => setTimeout(resolve, redrawMs))]);
    if (!isStale) continue;
    isStale = false;
    rows = await tree(client, request, signal);
  }
}

/** Each time over what was there, as much as fits. Where it is no terminal, only what is new. */
function screen(output: Output): (lines: readonly string[]) => void {
  if (output.isTerminal) {
    process.stdout.write('\u001b[2J');
    return (lines) => {
      const { rows = 24 } = process.stdout;
      const rest = lines.length - rows + 2;
      const fitting = rest > 1 ? [...lines.slice(0, rows - 2), `… ${rest} more`] : lines;
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
