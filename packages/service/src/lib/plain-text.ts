/**
 * The beginning of a text on one line, without the marks of Markdown and without characters that a reader can't see or
 * that change the direction of what follows. Only the beginning is read, however long the text is.
 */
export function plainText(text: string, maxLength: number): string {
  const plain = text
    .slice(0, 2 * maxLength)
    .replace(/^[ \t]*(?:```|~~~).*$/gm, ' ')
    .replace(/^[ \t]*(?:#{1,6}|>|[-*+]|\d{1,3}[.)])[ \t]+/gm, '')
    .replace(/!?\[([^[\]\n]*)\]\([^()\s]*\)/g, '$1')
    // A masked value is `***`.
    .replace(/(?<!\*)\*\*(?!\*)|__|`/g, '')
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();
  if (plain.length <= maxLength) return plain;
  // Not half of a character at the end.
  return `${plain.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
