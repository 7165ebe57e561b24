import type pg from 'pg';

/** What an agent at rest has in every column that has no default. */
const resting = {
  workspace: 'default',
  current: true,
  pool: 'default',
  backend: 'BACKEND_A',
  description: '',
  expected_output: '',
  repos: [],
  created_at: 'now',
  phase: 'PHASE_WAITING_FOR_INPUT',
  reason: 'RESTING',
  since: 'now',
  run_count: 0,
  sequence: 0,
  queued: 0,
  deferred: 0,
  progress_at: 'now',
  settings: {},
  memory: {},
  result: {},
  cost: 0,
  input_tokens: 0,
  cached_tokens: 0,
  output_tokens: 0,
  session: '',
  labels: {},
  first_sequence: 1,
  swept: false,
};

export const agentRowId = (number: number): string =>
  `00000000-0000-7000-8000-${String(number).padStart(12, '0')}`;

/** Writes an agent past all of our code; the fields say who it is, and what is out of the ordinary. */
export async function insertAgentRow(
  client: pg.Client,
  number: number,
  fields: Readonly<Record<string, unknown>>,
): Promise<string> {
  const id = agentRowId(number);
  const row = { ...resting, account: 'ada', id, root: id, ancestors: [], path: `agent-${number}`, ...fields };
  await client.query('INSERT INTO agents SELECT * FROM json_populate_record(NULL::agents, $1)', [
    JSON.stringify(row),
  ]);
  return id;
}
