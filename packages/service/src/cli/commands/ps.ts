import type { AgentEntry, ListInput, MusterClient } from '@muster/sdk';
import type { Invocation } from '../invocation.ts';
import type { Column, Output } from '../output.ts';
import { ageOf, dollars, standingOf, styleOf } from '../words.ts';

interface Flags {
  readonly all?: boolean;
  readonly account?: string;
  readonly workspace?: string;
  readonly watch?: boolean;
}

interface Row {
  readonly entry: AgentEntry;
  readonly depth: number;
}

const columns: readonly Column<Row>[] = [
  {
    title: 'AGENT',
    of: ({ entry, depth }) => `${'· '.repeat(depth)}${entry.agentId.agent.at(-1) ?? ''}`,
    isFlexible: true,
  },
  {
    title: 'STANDS',
    of: ({ entry }) => standingOf(entry),
    style: ({ entry }) => styleOf(entry),
    isFlexible: true,
  },
  { title: 'FOR', of: ({ entry }) => ageOf(entry.phaseSince), isRight: true },
  { title: 'RUNS', of: ({ entry }) => entry.runCount, isRight: true },
  { title: 'COST', of: ({ entry }) => dollars(entry.treeCost), isRight: true },
  { title: 'MODEL', of: ({ entry }) => entry.model, isFlexible: true },
  { title: 'WORKSPACE', of: ({ entry }) => entry.agentId.workspace, isFlexible: true },
  { title: 'ASKS', of: ({ entry }) => entry.needsInput, isFlexible: true },
];

const nobody = 'no agents; muster spawn "…" makes one';

export async function run({ flags, client: connect, output, signal }: Invocation<Flags>): Promise<void> {
  const request: ListInput = {
    ...(flags.all && { includeTerminal: true }),
    ...(flags.account !== undefined && { account: flags.account }),
    ...(flags.workspace !== undefined && { workspace: flags.workspace }),
  };
  const client = connect();
  const rows = await output.waiting.during('looking for agents', tree(client, request, 0, signal));
  if (flags.watch && output.form !== 'table') {
    for await (const entry of client.listStream(request, { signal })) output.item(entry, () => {});
    return;
  }
  if (flags.watch) return watch(client, request, rows, output, signal);
  const shown = shownColumns(rows);
  output.answer(
    rows.map(({ entry }) => entry),
    () => output.table(rows, shown, nobody),
  );
}

const shownColumns = (rows: readonly Row[]): readonly Column<Row>[] =>
  columns.filter(({ title, of }) => title !== 'ASKS' || rows.some((row) => of(row) !== ''));

async function tree(
  client: MusterClient,
  request: ListInput,
  depth: number,
  signal: AbortSignal,
): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const entry of client.listAll(request, { signal })) {
    rows.push({ entry, depth });
    if (entry.childCount > 0)
      rows.push(...(await tree(client, { ...request, parent: entry.agentId }, depth + 1, signal)));
  }
  return rows;
}

const redrawMs = 1000;

/** Looks again when something changed, and draws once a second for the ages. The stream tells of root agents alone. */
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
    if (!isStale && !rows.some(({ entry }) => entry.childCount > 0)) continue;
    isStale = false;
    rows = await tree(client, request, 0, signal);
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
