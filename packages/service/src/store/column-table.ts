import { isoTime } from './connection.ts';
import { type Columns, listParameters } from './tables.ts';

/**
 * A column of a hot table. What is written, loaded, compared and shown follows from a table with a row for each.
 *
 * type    of the column in PostgreSQL
 * field   of the domain that has the value; without one, the column is only written
 * of      reads the value: one function that reads any field takes more than twice as long
 * group   when it is written
 * loaded  how SQL makes the field, where it is not the column as it is
 * shown   where the API shows it
 */
interface Column<Item> {
  readonly type: string;
  readonly field?: string;
  readonly of: (item: Item) => unknown;
  readonly group: string;
  readonly loaded?: string;
  readonly shown?: string;
}

export type ColumnTable<Item> = Readonly<Record<string, Column<Item>>>;
type AnyTable = ColumnTable<never>;

/** The names of the columns that are shown like this. */
export type Shown<Table extends AnyTable, How extends string> = {
  [Name in keyof Table]: Table[Name] extends { readonly shown: How } ? Name : never;
}[keyof Table];

export const shownIn = <Table extends AnyTable, How extends string>(table: Table, ...how: How[]) =>
  Object.keys(table).filter((name) => (how as (string | undefined)[]).includes(table[name]?.shown)) as Shown<
    Table,
    How
  >[];

export const columnsOf = <Table extends AnyTable>(
  table: Table,
  ...groups: Table[keyof Table]['group'][]
): Columns =>
  Object.fromEntries(
    Object.entries(table)
      .filter(([, { group }]) => groups.includes(group))
      .map(([name, { type }]) => [name, type]),
  );

/** Items as the parameters of a statement with `listsOf(columns)`. */
export const parametersOf = <Item>(
  table: ColumnTable<Item>,
  columns: Columns,
  items: readonly Item[],
): string[] => listParameters(columns, items, (name) => (table[name] as Column<Item>).of);

const fieldsOf = (table: AnyTable) =>
  Object.entries(table).flatMap(([name, { type, field, loaded }]) =>
    field && !field.includes('.') ? [{ name, type, field, loaded }] : [],
  );

/** The columns of `alias` under the names of their fields. */
export function loadedFields(table: AnyTable, alias: string): string {
  const fields = fieldsOf(table).map(
    ({ name, field, loaded = `${alias}.${name}` }) => `${loaded} AS "${field}"`,
  );
  const usage = Object.entries(table).flatMap(([name, { field }]) =>
    field?.startsWith('usage.') ? [`'${field.slice(6)}', ${alias}.${name}`] : [],
  );
  if (usage.length > 0) fields.push(`json_build_object(${usage.join(', ')}) AS usage`);
  return fields.join(', ');
}

/** Changes the times of an object that was loaded as JSON to the form that the domain has. */
export function timeReader(table: AnyTable): (loaded: object) => void {
  const fields = fieldsOf(table).flatMap(({ type, field }) => (type === 'timestamptz' ? [field] : []));
  return (loaded) => {
    const values = loaded as Record<string, string | null>;
    for (const field of fields) {
      const time = values[field];
      if (time) values[field] = isoTime(time);
    }
  };
}
