import type { Style } from './output.ts';

/** How a line of a diff is coloured. */
export function diffStyle(line: string): Style | undefined {
  if (line.startsWith('+')) return 'green';
  if (line.startsWith('-')) return 'red';
  return line.startsWith('@') ? 'cyan' : undefined;
}
