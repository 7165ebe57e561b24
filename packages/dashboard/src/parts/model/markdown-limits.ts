/** Longer texts are shown as plain text, because parsing them would block the page for about a second. */
const maxLength = 50_000;
/** Nested quotes and lists; the parser recurses into each. */
const maxDepth = 24;
/** Characters in one paragraph that may delimit emphasis, a link or code; the parser compares each with the others. */
const maxDelimiters = 1_500;
/** The parser pads each row to the number of columns, so a short text can become millions of cells. */
const maxCells = 20_000;

const fence = /^ {0,3}(`{3,}|~{3,})/;
const marker = /\s*(?:>|[-*+](?=\s|$)|\d{1,9}[.)](?=\s|$))/y;
const delimiter = /[*_~[\]<>`!]/g;

/** Whether Markdown can be parsed quickly and is not nested too deeply. If not, the caller shows it as plain text. */
export function isParsable(text: string): boolean {
  if (text.length > maxLength) return false;
  let openFence = '';
  let delimiters = 0;
  let columns = 0;
  let rows = 0;
  for (const line of text.split('\n')) {
    const [, found = ''] = fence.exec(line) ?? [];
    if (openFence !== '') {
      if (found.startsWith(openFence)) openFence = '';
      continue;
    }
    if (depthOf(line) > maxDepth) return false;
    openFence = found;
    if (line.trim() === '') {
      delimiters = columns = rows = 0;
      continue;
    }
    delimiters += line.match(delimiter)?.length ?? 0;
    columns = Math.max(columns, line.split('|').length - 1);
    rows += 1;
    if (delimiters > maxDelimiters || columns * rows > maxCells) return false;
  }
  return true;
}

/** Counts the markers at the start of a line, and the indentation of a list. */
function depthOf(line: string): number {
  let depth = 0;
  marker.lastIndex = 0;
  while (depth <= maxDepth && marker.test(line)) depth += 1;
  const indentation = line.length - line.trimStart().length;
  return depth === 0 ? 0 : depth + Math.floor(indentation / 2);
}
