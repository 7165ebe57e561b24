const htmlName = /<\/?[^\t\n\r />]*/y;
const htmlGap = /[\t\n\r /]+/y;
const htmlAttribute = /[^\t\n\r />=]*/y;
const htmlValue = /[^\t\n\r >]*/y;
const equalsSign = /[\t\n\r ]*=[\t\n\r ]*/y;

const name = /[A-Za-z][A-Za-z0-9-]*/y;
const gap = /[ \t\n]+/y;
const attributeName = /[A-Za-z_:][A-Za-z0-9_.:-]*/y;
const unquotedValue = /[^ \t\n"'=<>`]+/y;

/** Where a match at `at` ends; `at` itself without a match. */
function after(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/**
 * The end of a tag that begins at `at`, by the rules of browsers, which take almost everything for a tag; -1 if it does
 * not end before `limit`.
 */
export function endOfHtmlTag(text: string, at: number, limit: number): number {
  let i = after(htmlName, text, at);
  while (i < limit) {
    i = after(htmlGap, text, i);
    if (i >= limit) return -1;
    if (text[i] === '>') return i + 1;
    // The first character belongs to the name, even if it is `=`.
    i = after(htmlAttribute, text, i + 1);
    const value = after(equalsSign, text, i);
    if (value === i) continue;
    i = isQuote(text[value]) ? afterQuote(text, value) : after(htmlValue, text, value);
    if (i === -1) return -1;
  }
  return -1;
}

/** The end of a tag that begins at `at` in a paragraph of Markdown; -1 if Markdown takes it for text. */
export function endOfMarkdownTag(text: string, at: number, limit: number): number {
  const isClosing = text[at + 1] === '/';
  const start = at + (isClosing ? 2 : 1);
  let i = after(name, text, start);
  if (i === start) return -1;
  while (i < limit) {
    const next = after(gap, text, i);
    if (text[next] === '>') return next < limit ? next + 1 : -1;
    if (isClosing) return -1;
    if (text[next] === '/') return text[next + 1] === '>' && next + 1 < limit ? next + 2 : -1;
    const attribute = after(attributeName, text, next);
    if (next === i || attribute === next) return -1;
    i = attribute;
    const value = after(equalsSign, text, attribute);
    if (value === attribute) continue;
    i = isQuote(text[value]) ? afterQuote(text, value) : after(unquotedValue, text, value);
    if (i === -1 || i === value) return -1;
  }
  return -1;
}

const isQuote = (character: string | undefined): boolean => character === '"' || character === "'";

/** The end of a quoted value; -1 if it does not end. */
const afterQuote = (text: string, at: number): number => text.indexOf(text[at] as string, at + 1) + 1 || -1;
