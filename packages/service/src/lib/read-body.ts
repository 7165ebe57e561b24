import type { Readable } from 'node:stream';

interface BodyLimits {
  readonly bytes: number;
  /** How long the body may take to arrive. */
  readonly arrivalMs: number;
}

/** Reads a body into memory. `onChunk` gets its parts as they arrive. */
export async function readBody(
  body: Readable,
  limits: BodyLimits,
  onChunk?: (chunk: Buffer) => void,
): Promise<Buffer | 'too-large' | 'cut'> {
  const chunks: Buffer[] = [];
  let length = 0;
  const late = setTimeout(() => body.destroy(new Error('the body took too long')), limits.arrivalMs);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > limits.bytes) return 'too-large';
      chunks.push(chunk);
      onChunk?.(chunk);
    }
    return Buffer.concat(chunks, length);
  } catch {
    return 'cut';
  } finally {
    clearTimeout(late);
  }
}
