import type { AgentChange } from '../domain/loaded-agents.ts';
import { type Connection, statement } from './connection.ts';
import { listParameters, listsOf, namesOf } from './tables.ts';
import {
  addRows,
  amountColumns,
  type CountedRow,
  type Spent,
  type SpentBy,
  type UsageRow,
  usageAmounts,
} from './usage-rows.ts';

export const usageColumns = {
  tenant: 'int',
  hour: 'timestamptz',
  agent: 'uuid',
  run: 'int',
  model: 'text',
  provider_account: 'text',
  root: 'uuid',
  owner_provider: 'text',
  account: 'text',
  workspace: 'text',
  backend: 'text',
  ...amountColumns,
  is_estimated: 'boolean',
} as const satisfies Record<keyof UsageRow, string>;

/** After an `INSERT INTO table AS u`: a row that is there gets the amounts of the new one, too. */
export const addToRow = (...counts: readonly string[]): string =>
  [
    ...[...counts, ...usageAmounts].map((name) => `${name} = u.${name} + excluded.${name}`),
    'is_estimated = u.is_estimated OR excluded.is_estimated',
  ].join(', ');

const addUsage = statement<string[], never>(
  'add-usage',
  `INSERT INTO usage_hours AS u (${namesOf(usageColumns)}) SELECT ${namesOf(usageColumns, 'n')} FROM ${listsOf(usageColumns)}
   ON CONFLICT (tenant, hour, agent, run, model, provider_account) DO UPDATE SET ${addToRow()}`,
);

/** Of one run, by model and account. */
const readCounted = statement<[tenant: number, agent: string, run: number], CountedRow>(
  'read-counted-usage',
  `SELECT model, provider_account, ${usageAmounts.map((name) => `sum(${name})::${amountColumns[name]} AS ${name}`).join(', ')}
   FROM usage_hours WHERE tenant = $1 AND agent = $2 AND run = $3 GROUP BY model, provider_account`,
);

/** Writes what a batch of changes used. */
export function saveUsage(connection: Connection, changes: readonly AgentChange[]): Promise<unknown>[] {
  const rows = new Map<string, UsageRow>();
  const late: [SpentBy, Spent][] = [];
  for (const { events, after } of changes)
    for (const event of events) {
      if (event.type !== 'spent') continue;
      if (event.isLate) late.push([after.agent, event]);
      else addRows(rows, after.agent, event);
    }
  const saved: Promise<unknown>[] = [];
  if (rows.size > 0) saved.push(insert(connection, [...rows.values()]));
  if (late.length > 0) saved.push(saveLate(connection, late));
  return saved;
}

async function saveLate(connection: Connection, late: readonly [SpentBy, Spent][]): Promise<void> {
  for (const [agent, event] of late) {
    const counted = await readCounted(connection, agent.tenant, agent.id, event.runId);
    const rows = new Map<string, UsageRow>();
    addRows(rows, agent, event, counted);
    await insert(connection, [...rows.values()]);
  }
}

const insert = (connection: Connection, rows: readonly UsageRow[]): Promise<unknown> =>
  addUsage(connection, ...listParameters(usageColumns, rows, (name) => (row) => row[name as keyof UsageRow]));
