import { exceededBound, type JsonBounds } from '../lib/json.ts';
import { mostTextLength } from '../lib/quoting/quote.ts';
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
/** Of one reply: the serving thread spends time on everything that is kept of it, and most on names of fields. */
const kept = { values: 100_000, characters: 8 * 1024 * 1024, names: 5_000 };
/** Of a reply before it is parsed, where an empty list counts twice. */
const replyBounds: JsonBounds = { ...bounds, values: 2 * kept.values };

/** Parses a body and cuts its texts. Throws a `TypeError` that says which bound it exceeds. */
export function parseHostJson(bytes: Uint8Array, within = bounds): HostJson & { readonly names: number } {
  const exceeded = exceededBound(bytes, within);
  if (exceeded) throw new TypeError(`the JSON has more ${exceeded} than ${within[exceeded]}`);
  const size = { values: 0, characters: 0, names: new Set<string>() };
  const value = cutTexts(
    JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()),
    size,
  );
  return { value, ...size, names: size.names.size };
}

/** The same for a reply, of which less may be kept. */
export function parseReply(bytes: Uint8Array): HostJson {
  const json = parseHostJson(bytes, replyBounds);
  for (const bound of ['values', 'characters', 'names'] as const)
    if (json[bound] > kept[bound]) throw new TypeError(`the JSON has more ${bound} than ${kept[bound]}`);
  return json;
}

/** Cuts the texts in a value in place. The recursion ends at the depth that was checked. */
function cutTexts(
  value: unknown,
  size: { values: number; characters: number; readonly names: Set<string> },
): unknown {
  size.values += 1;
  if (typeof value === 'string') {
    const text = cutWritten(value, mostTextLength);
    size.characters += text.length;
    return text;
  }
  if (typeof value !== 'object' || value === null) return value;
  const fields = value as Record<string, unknown>;
  for (const key in fields) {
    if (!Array.isArray(value)) {
      size.characters += key.length;
      size.names.add(key);
    }
    const field = fields[key];
    // Most values are not texts: they need no assignment.
    const cut = cutTexts(field, size);
    if (cut !== field) fields[key] = cut;
  }
  return value;
}
