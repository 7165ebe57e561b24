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

export async function run({ flags, client: connect, output, signal }: Invocation<Flags>): Promise<void> {
  const request: ListInput = {
    ...(flags.all && { includeTerminal: true }),
    ...(flags.account !== undefined && { account: flags.account }),
    ...(flags.workspace !== undefined && { workspace: flags.workspace }),
  };
  const client = connect();
  if (flags.watch) return watch(client, request, output, signal);
  const rows = await tree(client, request, 0, signal);
  output.answer(
    rows.map(({ entry }) => entry),
    () => show(rows, output),
  );
}

function show(rows: readonly Row[], output: Output): void {
  const shown = columns.filter(({ title, of }) => title !== 'ASKS' || rows.some((row) => of(row) !== ''));
  if (rows.length === 0) output.note('no agents; muster spawn "…" makes one');
  else for (const line of output.tableLines(rows, shown)) output.line(line);
}

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

const clear = '\u001b[H\u001b[2J';
const redrawMs = 1000;

/** Looks again whenever something changed, and once a second for the ages. */
async function watch(
  client: MusterClient,
  request: ListInput,
  output: Output,
  signal: AbortSignal,
): Promise<void> {
  let isStale = true;
  const listen = async (): Promise<void> => {
    for await (const _ of client.listStream(request, { signal })) isStale = true;
  };
  const listening = listen();
  let rows: Row[] = [];
  while (!signal.aborted) {
    if (isStale) {
      isStale = false;
      rows = await tree(client, request, 0, signal);
    }
    if (output.isTerminal) process.stdout.write(clear);
    show(rows, output);
    await Promise.race([listening, new Promise((resolve) => setTimeout(resolve, redrawMs))]);
  }
}
