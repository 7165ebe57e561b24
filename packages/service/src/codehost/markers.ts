/**
 * Everything that is posted ends with a marker that no reader sees: it tells whether an item was posted when the answer
 * to the call was lost, and which comments are the integration's own.
 */
const form = /<!-- muster:[0-9a-f-]{36} -->/;

export const withMarker = (body: string, marker: string): string =>
  `${body.trimEnd()}\n\n${commentOf(marker)}`;

/** Whether a text has this marker, or any. */
export const hasMarker = (body: string, marker?: string): boolean =>
  marker === undefined ? form.test(body) : body.includes(commentOf(marker));

const commentOf = (marker: string): string => `<!-- muster:${marker} -->`;
