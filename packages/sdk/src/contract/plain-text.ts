/** How much of a text is read for a plain one: marks take some of it. */
export const plainSourceLength = (maxLength: number): number => Math.ceil(maxLength * 1.25);

// Without \p{Cc}, which takes five times as long.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const unseen = /[\s\0-\x1f\x7f-\x9f]{2,}|[\0-\x1f\x7f-\x9f\u2028\u2029]/g;

/**
 * The beginning of a text on one line, without the marks of Markdown and without characters that a reader can't see or
 * that change the direction of what follows. Only the beginning is read, however long the text is. A list has thousands
 * of them, so expressions are tried only where they may match.
 */
export function plainText(text: string, maxLength: number): string {
  if (text === '') return '';
  const mostRead = plainSourceLength(maxLength);
  let plain = text.length > mostRead ? text.slice(0, mostRead) : text;
  const hasLines = plain.includes('\n');
  if (hasLines && (plain.includes('```') || plain.includes('~~~')))
    plain = plain.replace(/^[ \t]*(?:```|~~~).*$/gm, ' ');
  if (hasLines || /^[\s#>*+\d-]/.test(plain))
    plain = plain.replace(/^[ \t]*(?:#{1,6}|>|[-*+]|\d{1,3}[.)])[ \t]+/gm, '');
  if (plain.includes('](')) plain = plain.replace(/!?\[([^[\]\n]*)\]\([^()\s]*\)/g, '$1');
  if (plain.includes('`')) plain = plain.replaceAll('`', '');
  // A masked value is `***`.
  if (plain.includes('**')) plain = plain.replace(/(?<!\*)\*\*(?!\*)/g, '');
  if (plain.includes('__')) plain = plain.replaceAll('__', '');
  plain = plain
    .replace(/[\u202a-\u202e\u2066-\u2069]+/g, '')
    .replace(unseen, ' ')
    .trim();
  return plain.length > maxLength || (text.length > mostRead && plain !== '') ? cut(plain, maxLength) : plain;
}

/** Not within a character. */
const cut = (text: string, maxLength: number): string =>
  `${text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`;
