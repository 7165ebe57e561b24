/**
 * Everything that is posted ends with a marker that no reader sees: it tells whether an item was posted when the answer
 * to the call was lost, and which comments are the integration's own.
 */
const form = /<!-- muster:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) -->/;
const lastOne = new RegExp(`${form.source}\\s*$`);

export const withMarker = (body: string, marker: string): string =>
  `${body.trimEnd()}\n\n${commentOf(marker)}`;

/** Whether a text has this marker, or any. */
export const hasMarker = (body: string, marker?: string): boolean =>
  marker === undefined ? form.test(body) : body.includes(commentOf(marker));

/** The markers at the end of texts. */
export const markersOf = (bodies: readonly string[]): string[] =>
  bodies.flatMap((body) => lastOne.exec(body.slice(-mostMarkerLength))?.[1] ?? []);

/** The beginning of a text that is longer than `most`, with the marker at its end. It stays longer than that. */
export function cutWritten(text: string, most: number): string {
  if (text.length <= most) return text;
  const [marker = '…'] = lastOne.exec(text.slice(-mostMarkerLength)) ?? [];
  return `${text.slice(0, most)}${marker}`;
}

const commentOf = (marker: string): string => `<!-- muster:${marker} -->`;

/** With the white space that a host may add. */
const mostMarkerLength = 200;
