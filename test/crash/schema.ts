import type { Store } from './store.ts';

/** Everything that makes a schema, as text, in an order that does not depend on how it came to be. */
const parts: Readonly<Record<string, string>> = {
  columns: `
    SELECT format('%s.%s %s %s default %s identity %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
      CASE WHEN a.attnotnull THEN 'not null' ELSE 'null' END, pg_get_expr(d.adbin, d.adrelid), a.attidentity)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v', 'm') AND a.attnum > 0
      AND NOT a.attisdropped`,
  // The order of columns counts too: rows are written as whole rows of their table.
  order: `
    SELECT format('%s: %s', c.relname, string_agg(a.attname, ', ' ORDER BY a.attnum))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY c.relname`,
  relations: `
    SELECT format('%s %s %s', c.relkind, c.relname, c.reloptions)
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace`,
  constraints: `
    SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace`,
  indexes: "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
  functions: `
    SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace`,
  triggers: `
    SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal`,
  types: "SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace",
  tenants: "SELECT format('%s %s %s', id, provider, org) FROM tenants WHERE id = 0",
  migrations: "SELECT format('%s %s', number, name) FROM migrations",
};

export async function dumpSchema(store: Store): Promise<string> {
  const lines: string[] = [];
  for (const [part, sql] of Object.entries(parts)) {
    const rows = await store.rows<{ line: string }>(`SELECT line FROM (${sql}) parts (line) ORDER BY 1`);
    lines.push(`-- ${part}`, ...rows.map(({ line }) => line));
  }
  return lines.join('\n');
}
