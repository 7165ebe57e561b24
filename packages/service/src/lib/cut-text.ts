export interface CutText {
  readonly text: string;
  readonly truncated: boolean;
}

/** The beginning of a text, up to a number of bytes as UTF-8. Characters are not split. */
export function cutText(text: string, mostBytes: number): CutText {
  if (text.length * 3 <= mostBytes || Buffer.byteLength(text) <= mostBytes) return { text, truncated: false };
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(mostBytes));
  return { text: text.slice(0, read), truncated: true };
}
