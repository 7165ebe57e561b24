const lineEnds = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/;

/** Quotes what somebody else wrote, line by line: none of its lines can end a code block or be read as a directive. */
export const quoted = (text: string): string =>
  text
    .split(lineEnds)
    .map((line) => (line === '' ? '>' : `> ${line}`))
    .join('\n');
