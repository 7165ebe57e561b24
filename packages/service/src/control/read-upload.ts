import type { Readable } from 'node:stream';
import { readBody } from '../lib/read-body.ts';
import { invalid, type Refusal } from './refusal.ts';

/** How long an upload may take to arrive. */
const arrivalMs = 60_000;

/** The bytes of an upload, of at most this size. */
export async function readUpload(body: Readable, most: number): Promise<Buffer | Refusal> {
  const content = await readBody(body, { bytes: most, arrivalMs });
  if (content === 'too-large') return tooLarge(most);
  return content === 'cut' ? invalid('body', 'did not arrive') : content;
}

export const tooLarge = (most: number): Refusal => invalid('body', `must be at most ${most} bytes`);
