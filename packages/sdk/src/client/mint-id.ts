/** A random id. Not `crypto.randomUUID`: browsers have that on secure pages only, and the service may be a plain one. */
export const mintId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  );
