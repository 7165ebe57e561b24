/** What is longer is shown as plain text: parsing it would stop the page for a second. */
const maxLength = 50_000;
/** Quotes in quotes, lists in lists. The parser calls itself for each. */
const maxDepth = 24;
/** Characters in one paragraph that may begin or end emphasis, a link or code; each is compared with the others. */
const maxDelimiters = 1_500;
/** A row is filled up to the number of columns, so a short text can make millions of cells. */
const maxCells = 20_000;

const fence = /^ {0,3}(`{3,}|~{3,})/;
const marker = /\s*(?:>|[-*+](?=\s|$)|\d{1,9}[.)](?=\s|$))/y;
const delimiter = /[*_~[\]<>`!]/g;

/**
 * Whether Markdown can be parsed quickly and is not nested without end. One pass over the text, before the parser sees
 * it. A text that is refused is shown as it was written.
 */
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

/** How deep a line is: by the markers it begins with, and by the indentation of a list. */
function depthOf(line: string): number {
  let depth = 0;
  marker.lastIndex = 0;
  while (depth <= maxDepth && marker.test(line)) depth += 1;
  const indentation = line.length - line.trimStart().length;
  return depth === 0 ? 0 : depth + Math.floor(indentation / 2);
}
