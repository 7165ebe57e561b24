const lineLength = 200;
const textLength = 4000;
const listLength = 50;
const depth = 5;

/** A copy of a tool's arguments that is small enough for a timeline: long texts, lists and depths are cut. */
export function bounded(value: unknown, level = 0): unknown {
  if (typeof value === 'string') return value.length > textLength ? `${value.slice(0, textLength)}…` : value;
  if (typeof value !== 'object' || value === null) return value;
  if (level === depth) return '…';
  if (Array.isArray(value)) return value.slice(0, listLength).map((each) => bounded(each, level + 1));
  const fields = Object.entries(value).slice(0, listLength);
  return Object.fromEntries(fields.map(([name, each]) => [name, bounded(each, level + 1)]));
}

/** What an agent is at, in one line. */
export function oneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > lineLength ? `${line.slice(0, lineLength - 1)}…` : line;
}
