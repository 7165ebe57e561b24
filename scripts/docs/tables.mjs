export const note = (table) =>
  `<!-- Made by scripts/generate-docs.mjs from ${table}. Change that, not this page. -->\n`;

/** One row per entry of a table of the contract; an entry that is not explained, or one too many, is an error. */
export function rowsOf(table, known, rowOf) {
  requireSame(Object.keys(table), Object.keys(known));
  return Object.keys(table)
    .map((name) => rowOf(name, table[name], known[name]))
    .join('\n');
}

export function requireSame(names, known) {
  const stray = [
    ...names.filter((name) => !known.includes(name)),
    ...known.filter((name) => !names.includes(name)),
  ];
  if (stray.length > 0) throw new Error(`the pages and what they are made from differ: ${stray.join(', ')}`);
}

/** Text as it may stand in a cell. */
export const cell = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ').trim();
