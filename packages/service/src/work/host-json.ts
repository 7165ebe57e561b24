import { exceededBound, type JsonBounds } from '../lib/json.ts';
import { cutWritten } from './markers.ts';

/** JSON of a host, with what it costs to keep. */
export interface HostJson {
  readonly value: unknown;
  readonly values: number;
  readonly characters: number;
}

export type ParseReply = (bytes: Buffer) => HostJson | Promise<HostJson>;

/** Of one body: more is not parsed. */
const bounds: JsonBounds = { depth: 64, values: 1_000_000 };
/** Of one reply: the serving thread spends time on everything that is kept of it. */
const kept = { values: 100_000, characters: 8 * 1024 * 1024 };
/** Of a text: GitHub allows this much. The rest of a longer one is not used. */
export const mostTextLength = 64 * 1024;

/** Parses a body and cuts its texts. Throws a `TypeError` that says which bound it exceeds. */
export function parseHostJson(bytes: Uint8Array): HostJson {
  const exceeded = exceededBound(bytes, bounds);
  if (exceeded) throw new TypeError(`the JSON has more ${exceeded} than ${bounds[exceeded]}`);
  const size = { values: 0, characters: 0 };
  const value = cutTexts(
    JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()),
    size,
  );
  return { value, ...size };
}

/** The same for a reply, of which less may be kept. */
export function parseReply(bytes: Uint8Array): HostJson {
  const json = parseHostJson(bytes);
  for (const bound of ['values', 'characters'] as const)
    if (json[bound] > kept[bound]) throw new TypeError(`the JSON has more ${bound} than ${kept[bound]}`);
  return json;
}

/** Cuts the texts in a value in place. The recursion ends at the depth that was checked. */
function cutTexts(value: unknown, size: { values: number; characters: number }): unknown {
  size.values += 1;
  if (typeof value === 'string') {
    const text = cutWritten(value, mostTextLength);
    size.characters += text.length;
    return text;
  }
  if (typeof value !== 'object' || value === null) return value;
  const fields = value as Record<string, unknown>;
  for (const key in fields) {
    if (!Array.isArray(value)) size.characters += key.length;
    const field = fields[key];
    // Most values are not texts: they need no assignment.
    const cut = cutTexts(field, size);
    if (cut !== field) fields[key] = cut;
  }
  return value;
}
