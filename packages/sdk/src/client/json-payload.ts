const chunkBytes = 0x8000;

/** A document as the wire carries it: base64 of its JSON in UTF-8. */
export function encodePayload(document: unknown): string {
  const bytes = new TextEncoder().encode(JSON.stringify(document));
  let binary = '';
  // A call takes only so many arguments.
  for (let from = 0; from < bytes.length; from += chunkBytes) {
    binary += String.fromCharCode(...bytes.subarray(from, from + chunkBytes));
  }
  return btoa(binary);
}

export function decodePayload(payload: string): unknown {
  if (payload === '') return null;
  const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes)) as unknown;
}
