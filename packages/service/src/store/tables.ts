import { type Item, listText } from './list-text.ts';

/**
 * Rows as the tables have them, and their translation to and from the types of the domain. A column has the name of its
 * field in snake case; paths are joined by `/`, and the fields of `usage` are columns of the row.
 */
type SnakeCase<S extends string> = S extends `${infer First}${infer Rest}`
  ? `${First extends Uppercase<First> ? `_${Lowercase<First>}` : First}${SnakeCase<Rest>}`
  : S;

type Mutable<T> = T extends readonly (infer Item)[] ? Item[] : T;

export type RowOf<T, Other extends keyof T> = {
  -readonly [Field in Exclude<keyof T, Other> & string as SnakeCase<Field>]: Mutable<T[Field]>;
};

/**
 * The columns that statements write, with their types. Every statement names its columns, so that a build keeps working
 * when a later one has added some.
 */
export type Columns = Readonly<Record<string, string>>;

export const namesOf = (columns: Columns, alias = ''): string =>
  Object.keys(columns)
    .map((name) => (alias ? `${alias}.${name}` : name))
    .join(', ');

/** The first parameter, a JSON text with a list of objects, as rows `n` with these columns. */
export const rowsOf = (columns: Columns): string =>
  `json_to_recordset($1::json) AS n (${Object.entries(columns)
    .map(([name, type]) => `${name} ${type}`)
    .join(', ')})`;

/**
 * The same from one parameter per column, a list of its values: PostgreSQL reads lists in less time than JSON, and knows
 * how many rows there are. For what nearly every command writes, without large JSON: its quotes would be escaped twice. A
 * list of lists has them as texts.
 */
export function listsOf(columns: Columns): string {
  const names = namesOf(columns);
  const lists = Object.values(columns).map((type, i) => `$${i + 1}::${isList(type) ? 'text' : type}[]`);
  const values = Object.entries(columns).map(([name, type]) => (isList(type) ? `${name}::${type}` : name));
  return `(SELECT ${values.join(', ')} FROM unnest(${lists.join(', ')}) AS l (${names})) AS n (${names})`;
}

const isList = (type: string): boolean => type.endsWith('[]');

/** The parameters for `listsOf`. `readerOf` returns what reads the value of a column. */
export const listParameters = <R>(
  columns: Columns,
  rows: readonly R[],
  readerOf: (name: string) => (row: R) => unknown,
): string[] =>
  Object.entries(columns).map(([name, type]) => {
    const read = readerOf(name);
    return listText(rows, (row) => {
      const value = read(row);
      if (value === null || value === undefined) return null;
      if (isList(type)) return listText(value as Item[], (item) => item);
      return type.startsWith('json') ? JSON.stringify(value) : (value as Item);
    });
  });

export const insertInto = (table: string, columns: Columns, rows = rowsOf(columns)): string =>
  `INSERT INTO ${table} (${namesOf(columns)}) SELECT ${namesOf(columns, 'n')} FROM ${rows}`;

/** Assigns the columns of `n` to those of the same name, except to the key. */
export const assigned = (columns: Columns, from: string, key: readonly string[]): string =>
  Object.keys(columns)
    .filter((name) => !key.includes(name))
    .map((name) => `${name} = ${from}.${name}`)
    .join(', ');

/** Changes the rows with the same key. */
export const updateOf = (
  table: string,
  columns: Columns,
  key: readonly string[],
  rows = rowsOf(columns),
): string =>
  `UPDATE ${table} t SET ${assigned(columns, 'n', key)} FROM ${rows}
   WHERE ${key.map((name) => `t.${name} = n.${name}`).join(' AND ')}`;

export const agentKey = { tenant: 'int', agent: 'uuid' };

export const agentStateColumns = {
  ...agentKey,
  settings: 'json',
  memory: 'json',
  result: 'json',
  response: 'text',
  structured_output: 'json',
  labels: 'jsonb',
} as const;

export const agentBriefColumns = {
  ...agentKey,
  description: 'text',
  expected_output: 'text',
  repos: 'text[]',
  searched: 'text',
  traceparent: 'text',
} as const;

export const runResultColumns = {
  ...agentKey,
  number: 'int',
  response: 'text',
  structured_output: 'json',
  error: 'json',
  trace_id: 'text',
} as const;

export const checklistColumns = { ...agentKey, tasks: 'json' } as const;

export const labelColumns = { ...agentKey, key: 'text', value: 'text', is_live: 'boolean' } as const;

export const timelineColumns = {
  ...agentKey,
  sequence: 'bigint',
  at: 'timestamptz',
  run: 'int',
  type: 'text',
  follow_up_id: 'text',
  text: 'text',
  data: 'json',
} as const;

export const threadColumns = {
  ...agentKey,
  id: 'uuid',
  repo: 'text',
  path: 'text',
  line: 'int',
  start_line: 'int',
  side: 'text',
  quote: 'text',
  state: 'text',
  answer: 'text',
  change_request: 'text',
  host_id: 'text',
  url: 'text',
  opened_by: 'text',
  told_by: 'text',
  created_at: 'timestamptz',
} as const;

export const changingThreadColumns = {
  ...agentKey,
  id: 'uuid',
  state: 'text',
  answer: 'text',
  told_by: 'text',
  is_done: 'boolean',
} as const;

/** Without the number, which counts the comments of the thread. */
export const threadCommentColumns = {
  ...agentKey,
  thread: 'uuid',
  author: 'text',
  kind: 'text',
  permission: 'text',
  body: 'text',
  at: 'timestamptz',
  url: 'text',
  host_id: 'text',
  run: 'int',
} as const;

export const diffColumns = { ...agentKey, repo: 'text', working_tree: 'boolean', text: 'text' } as const;

export const replyColumns = {
  tenant: 'int',
  key_id: 'text',
  key: 'text',
  digest: 'text',
  reply: 'json',
  created_at: 'timestamptz',
} as const;
