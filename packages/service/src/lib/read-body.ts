import type { Readable } from 'node:stream';

interface BodyLimits {
  readonly bytes: number;
  /** How long the body may take to arrive. */
  readonly arrivalMs: number;
}

/**
 * Reads a body into memory. `onChunk` gets its parts as they arrive. What is too large or late is not read further; the
 * connection stays open for the reply.
 */
export function readBody(
  body: Readable,
  limits: BodyLimits,
  onChunk?: (chunk: Buffer) => void,
): Promise<Buffer | 'too-large' | 'cut'> {
  const chunks: Buffer[] = [];
  let length = 0;
  return new Promise((resolve) => {
    const stop = (result: Buffer | 'too-large' | 'cut') => {
      clearTimeout(late);
      body.off('data', take).off('end', finish).off('close', cut).pause();
      resolve(result);
    };
    const take = (chunk: Buffer) => {
      length += chunk.length;
      if (length > limits.bytes) return stop('too-large');
      chunks.push(chunk);
      onChunk?.(chunk);
    };
    const finish = () => stop(Buffer.concat(chunks, length));
    const cut = () => stop('cut');
    const late = setTimeout(cut, limits.arrivalMs);
    // An error of a body that is no longer read has no reader either.
    body
      .on('error', () => {})
      .on('data', take)
      .on('end', finish)
      .on('close', cut);
    if (body.destroyed) cut();
  });
}
