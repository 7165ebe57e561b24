/** A change of a text that a key makes: this stretch becomes that, and this is selected then. */
export interface Edit {
  readonly from: number;
  readonly to: number;
  readonly insert: string;
  readonly selectFrom: number;
  readonly selectTo: number;
}

const step = 2;

/** Tab: spaces up to the next step, or every selected line one step in. */
export function indent(text: string, from: number, to: number): Edit {
  const start = lineStart(text, from);
  if (!text.slice(from, to).includes('\n')) {
    const insert = ' '.repeat(step - ((from - start) % step));
    return { from, to, insert, selectFrom: from + insert.length, selectTo: from + insert.length };
  }
  return reshape(text, from, to, (line) => (line === '' ? line : `${' '.repeat(step)}${line}`));
}

/** Shift and Tab: every selected line one step out. */
export const outdent = (text: string, from: number, to: number): Edit =>
  reshape(text, from, to, (line) => line.replace(/^ {1,2}/, ''));

/** Enter: the next line begins where this one does, one step further behind a colon. */
export function breakLine(text: string, from: number, to: number): Edit {
  const line = text.slice(lineStart(text, from), from);
  const lead = /^ */.exec(line)?.[0] ?? '';
  const insert = `\n${lead}${/:\s*$/.test(line) ? ' '.repeat(step) : ''}`;
  return { from, to, insert, selectFrom: from + insert.length, selectTo: from + insert.length };
}

const lineStart = (text: string, at: number): number => text.lastIndexOf('\n', at - 1) + 1;

function reshape(text: string, from: number, to: number, change: (line: string) => string): Edit {
  const start = lineStart(text, from);
  const end = text.indexOf('\n', Math.max(from, to - 1));
  const stop = end < 0 ? text.length : end;
  const lines = text.slice(start, stop).split('\n');
  const insert = lines.map(change).join('\n');
  const firstGrown = change(lines[0] ?? '').length - (lines[0] ?? '').length;
  return {
    from: start,
    to: stop,
    insert,
    selectFrom: Math.max(start, from + firstGrown),
    selectTo: Math.max(start, to + insert.length - (stop - start)),
  };
}
