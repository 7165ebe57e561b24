import type { UsageRow } from './usage.ts';

type Amount = Exclude<keyof UsageRow, 'start' | 'keys'>;

const amounts: readonly Amount[] = [
  'costUsd',
  'estimated',
  'inputTokens',
  'cachedInputTokens',
  'outputTokens',
  'runs',
  'agents',
  'unpricedTokens',
];

/** As RFC 4180 describes it: a header, then a line per row. */
export function usageCsv(rows: readonly UsageRow[], keys: readonly string[]): string {
  const lines = [
    ['start', ...keys, ...amounts],
    ...rows.map((row) => [
      row.start,
      ...keys.map((key) => withoutFormula(row.keys[key] ?? '')),
      ...amounts.map((name) => String(row[name])),
    ]),
  ];
  return lines.map((cells) => `${cells.map(quoted).join(',')}\r\n`).join('');
}

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

/** A spreadsheet would run a label such as `=1+1` as a formula. */
const withoutFormula = (text: string): string => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);
