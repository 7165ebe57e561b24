/** The beginning of a text, up to a number of characters; none is split. */
export const cutTo = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, '')}…` : text;
