import type { ClientRequest, IncomingMessage } from 'node:http';

const freeParts = 1_000;
const leastBytes = 64;

/**
 * Ends a message whose body arrives in parts of a few bytes: a chunked body may consist of single bytes. Each part takes
 * microseconds and some hundred bytes of memory, so limits on size alone do not bound what a body costs.
 */
export function refuseSmallParts(message: IncomingMessage): void {
  const push = message.push;
  let parts = 0;
  let bytes = 0;
  message.push = (chunk: Buffer | null, encoding?: BufferEncoding): boolean => {
    if (message.destroyed) return false;
    parts += 1;
    bytes += chunk?.length ?? 0;
    if (parts <= freeParts + bytes / leastBytes) return push.call(message, chunk, encoding);
    // The connection fails with the message. The sender of the request may no longer listen for its errors.
    (message as { readonly req?: ClientRequest }).req?.on('error', () => {});
    message.destroy(new Error('the body arrives in too many small parts'));
    return false;
  };
}
