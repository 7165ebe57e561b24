const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const opening = [0x5b, 0x7b];
const closing = [0x5d, 0x7d];

export interface JsonBounds {
  readonly depth: number;
  readonly values: number;
}

/**
 * Whether a JSON text keeps to the bounds, before anything is built from it: a few megabytes of brackets become
 * hundreds of megabytes of objects. Linear, and without memory of its own. A text that is not JSON gets any answer.
 */
export function boundsProblem(text: Uint8Array, bounds: JsonBounds): string | undefined {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] ?? 0;
    if (byte === quote) at = endOfString(text, at);
    else if (byte === comma) values += 1;
    else if (opening.includes(byte)) {
      depth += 1;
      values += 1;
    } else if (closing.includes(byte)) depth -= 1;
    if (depth > bounds.depth) return `The body is nested deeper than ${bounds.depth} levels`;
    if (values > bounds.values) return `The body has more than ${bounds.values} values`;
  }
  return undefined;
}

/** The place of the closing quote, or the end of the text. */
function endOfString(text: Uint8Array, start: number): number {
  for (let end = text.indexOf(quote, start + 1); end !== -1; end = text.indexOf(quote, end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === backslash) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
  return text.length;
}
