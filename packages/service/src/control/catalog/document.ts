import { documents, type Kind, limits, type Schema } from '@muster/sdk/contract';
import { invalid, type Refusal } from '../../domain/refusal.ts';
import { isObject, unsafePlace, unstorableNumber } from '../../lib/json.ts';
import { mcpServersProblem } from '../../lib/mcp-servers.ts';
import { type Violation, validator } from '../../lib/validator.ts';

export type Document = Record<string, unknown>;

const storableNumbers =
  "integers may be from -(2^53-1) to 2^53-1, other numbers within a double's range; use a string";

const base64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

/** A payload into the document it carries. Both base64 alphabets and white space are read; empty is `{}`. */
export function decodePayload(payload: string): Document | Refusal {
  const packed = payload.replace(/\s+/g, '');
  const bare = packed.replace(/={1,2}$/, '');
  if (!base64.test(packed) || bare.length % 4 === 1) return invalid('payload', 'must be base64');
  const bytes = Buffer.from(bare, 'base64');
  if (bytes.length > limits.documentBytes) {
    return invalid('payload', `must be at most ${limits.documentBytes} bytes when decoded`);
  }
  if (bytes.length === 0) return {};
  let document: unknown;
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    document = JSON.parse(text);
  } catch {
    return invalid('payload', 'must be base64 of a JSON object in UTF-8');
  }
  if (!isObject(document)) return invalid('payload', 'must be a JSON object');
  const number = unstorableNumber(text);
  if (number !== null)
    return invalid('payload', `the number ${number} can't be kept as it is: ${storableNumbers}`);
  const unsafe = unsafePlace(document, limits.documentDepth);
  return unsafe ? invalid(unsafe.path ? `payload.${unsafe.path}` : 'payload', unsafe.problem) : document;
}

export const encodePayload = (document: Document): string =>
  Buffer.from(JSON.stringify(document)).toString('base64');

const validators = new Map<Kind, (value: unknown) => Violation | null>(
  Object.entries<Schema>(documents).map(([kind, schema]) => [kind as Kind, validator(schema)]),
);

/** Known fields must have their type; a null one counts as absent. Other fields may have any value. */
export function refuseDocument(kind: Kind, document: Document): Refusal | null {
  const absentFields = Object.keys(documents[kind].properties).filter((field) => document[field] === null);
  const violation =
    validators.get(kind)?.(without(document, absentFields)) ??
    (kind === 'workspace' && document.mcpServers ? mcpServersProblem(document.mcpServers) : null);
  return violation
    ? invalid(violation.field ? `payload.${violation.field}` : 'payload', violation.description)
    : null;
}

/** The document itself if it has none of these fields, because a copy of very many fields is expensive. */
export function without(document: Document, fields: readonly string[]): Document {
  if (!fields.some((field) => Object.hasOwn(document, field))) return document;
  const left: Document = {};
  for (const field in document) if (!fields.includes(field)) left[field] = document[field];
  return left;
}

/** The paths of a mask, or null for a full replace. */
export function parseMask(mask: string): string[][] | null | Refusal {
  if (mask.trim() === '' || mask.trim() === '*') return null;
  const paths = mask.split(',').map((path) => path.trim().split('.'));
  if (paths.length > limits.maskPaths)
    return invalid('updateMask', `must have at most ${limits.maskPaths} paths`);
  if (paths.some((path) => path.some((segment) => segment === ''))) {
    return invalid('updateMask', 'must be paths joined by commas, with no empty part');
  }
  if (paths.some((path) => path.includes('*')))
    return invalid('updateMask', '* means the whole document and must be the only path');
  if (paths.some((path) => path.includes('__proto__')))
    return invalid('updateMask', 'must not name __proto__');
  return paths;
}

/** Takes the fields named by the mask from the payload; a path that the payload lacks clears the field. */
export function patched(base: Document, payload: Document, mask: readonly string[][]): Document | Refusal {
  let result: Document = base;
  for (const path of mask) {
    const value = valueAt(payload, path);
    if (value === throughScalar)
      return invalid('updateMask', `"${path.join('.')}" leads through a value that is no object`);
    const next = withValue(result, path, value);
    if (!next) return invalid('updateMask', `"${path.join('.')}" leads through a value that is no object`);
    result = next;
  }
  return result;
}

const throughScalar = Symbol('a path through a value that is no object');
const absent = Symbol('absent');

function valueAt(document: Document, path: readonly string[]): unknown {
  let value: unknown = document;
  for (const segment of path) {
    if (!isObject(value)) return throughScalar;
    if (!Object.hasOwn(value, segment)) return absent;
    value = value[segment];
  }
  return value;
}

function withValue(document: Document, [first, ...rest]: readonly string[], value: unknown): Document | null {
  if (first === undefined) return document;
  const { [first]: current, ...others } = document;
  const has = Object.hasOwn(document, first);
  if (rest.length === 0) return value === absent ? others : { ...document, [first]: value };
  if (has && !isObject(current)) return null;
  if (!has && value === absent) return document;
  const inner = withValue(has ? (current as Document) : {}, rest, value);
  return inner && { ...document, [first]: inner };
}

/** Resources that exist before anyone writes one. A stored resource of the same name replaces them. */
const builtins: Readonly<Partial<Record<Kind, Readonly<Record<string, Document>>>>> = {
  workspace: { default: { name: 'default', repos: [], environment: 'default', pool: 'default' } },
  environment: { default: { name: 'default', variables: {}, setup: [], allowHosts: [] } },
  pool: { default: { name: 'default', vmProfile: 'default' } },
  'vm-profile': { default: { name: 'default' } },
  persona: {
    default: {
      name: 'default',
      instructions:
        'You are a careful software engineer. Do what you are asked and nothing else, keep your checklist up to date, and say briefly what you did.',
    },
    planner: {
      name: 'planner',
      instructions:
        'You plan work before anyone does it. Read what is there, split the work into tasks with their dependencies, and ask when something essential is unclear. You change no code.',
    },
    reviewer: {
      name: 'reviewer',
      instructions:
        'You review changes. Look for what is wrong, missing or unnecessary, name the file and line, and say what would be right. You change no code.',
    },
  },
};

export const builtin = (kind: Kind, name: string): Document | undefined => {
  const ofKind = builtins[kind];
  return ofKind && Object.hasOwn(ofKind, name) ? ofKind[name] : undefined;
};

export const builtinNames = (kind: Kind): string[] => Object.keys(builtins[kind] ?? {});
