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
