import { kindOf, kindTable, type Schema } from '@muster/sdk/contract';
import fc from 'fast-check';

/** What generated requests may refer to. */
export interface KnownValues {
  /** Paths of agents in all sorts of states. */
  readonly agents: readonly (readonly string[])[];
  readonly names: readonly string[];
  /** Internal keys of agents with runs, for the runner protocol. */
  readonly agentKeys: readonly string[];
  readonly runnerIds: readonly string[];
  /** The name under which each of them polls. */
  readonly runnerNames?: Readonly<Record<string, string>>;
  /** A live run with a checkpoint of one part, and its agent; only for routes that do not end it. */
  readonly held?: Readonly<Record<'runnerId' | 'agentKey' | 'runId' | 'checkpointId', unknown>>;
  readonly heldAgent?: readonly string[];
  /** An agent whose first run is live until a request ends it. */
  readonly stoppable?: readonly string[];
  /** A blocked agent, which accepts a retry. */
  readonly blocked?: readonly string[];
  /** A review thread, and its agent. */
  readonly thread?: { readonly agent: readonly string[]; readonly threadId: string };
  /** For a sign-in: unused codes, and the origin of the page. */
  readonly codes?: readonly string[];
  readonly origin?: string;
}

export const typesOf = (schema: Schema): readonly string[] =>
  schema.type === undefined ? [] : typeof schema.type === 'string' ? [schema.type] : schema.type;

const word = fc.string({ maxLength: 12 }).map((text) => text.replace(/^!/, ''));
const soon = fc
  .integer({ min: 60_000, max: 29 * 86_400_000 })
  .map((ms) => new Date(Date.now() + ms).toISOString());

export const document = (kind: string): fc.Arbitrary<unknown> => {
  const kindName = kindOf(kind);
  return kindName ? validValue(kindTable[kindName].schema, '', emptyValues) : fc.constant({});
};
const emptyValues: KnownValues = { agents: [['a0']], names: ['default'], agentKeys: [], runnerIds: [] };
export const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64');

export const mostly = <T>(usual: T, ...others: T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight: 6, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );

/** Values that match the schema; `field` is the name under which they are sent. */
export function validValue(schema: Schema, field: string, known: KnownValues): fc.Arbitrary<unknown> {
  const special = validByName(schema, field, known);
  if (special) return special;
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map((one) => validValue(one, field, known)));
  const [type] = typesOf(schema);
  switch (type) {
    case 'string':
      return validText(schema, known);
    case 'boolean':
      return fc.boolean();
    case 'integer':
    case 'number': {
      const min = Math.max(Number(schema.minimum ?? 0), 0);
      return fc.integer({ min, max: Math.min(Number(schema.maximum ?? 100), min + 100) });
    }
    case 'array':
      return fc.array(validValue(schema.items ?? {}, `${field}[]`, known), {
        minLength: Number(schema.minItems ?? 0),
        maxLength: 3,
      });
    case 'object':
      return validObject(schema, known);
    default:
      return fc.constantFrom<unknown>('any', 1, { any: true });
  }
}

function validByName(schema: Schema, field: string, known: KnownValues): fc.Arbitrary<unknown> | undefined {
  switch (field) {
    case 'agent':
      return typesOf(schema)[0] === 'array'
        ? fc.oneof(
            { weight: 5, arbitrary: fc.constantFrom(...known.agents) },
            fc.array(fc.constantFrom(...known.names)),
          )
        : mostly('', 'default', 'planner', 'nobody');
    // Mostly the caller's own, so that most requests get past permission.
    case 'provider':
      return mostly('PROVIDER_CODEHOST_APP', 'PROVIDER_UNSPECIFIED', 'PROVIDER_IDP_OIDC');
    case 'ownerProvider':
      return mostly('PROVIDER_CODEHOST_OAUTH', 'PROVIDER_UNSPECIFIED', 'PROVIDER_SERVICE_PROFILE');
    case 'account':
      return mostly('', 'admin', 'mia', 'nobody');
    case 'org':
      return mostly('local', '', 'elsewhere');
    case 'persona':
      return mostly('', 'default', 'nobody');
    case 'workspace':
      return mostly('', 'default', 'elsewhere');
    case 'model':
      return mostly('', 'rehearsal-a', 'rehearsal-b', 'opus', 'gpt-5', 'unheard-of');
    case 'reasoningEffort':
      return mostly('', 'low', 'max', 'none', 'silly');
    case 'serviceTier':
      return mostly('', 'flex', 'silly');
    case 'outputSchema':
      return fc.constantFrom('', '{"type":"object"}', '{"type":"string","minLength":3}', '{}');
    case 'runId':
      return typesOf(schema).includes('string') ? mostly<unknown>('1', 1, '0', '2') : mostly(1, 2);
    case 'id':
      return fc.constantFrom('', 't', 't');
    case 'threadId':
      return known.thread ? fc.oneof(fc.constant(known.thread.threadId), fc.uuid()) : fc.uuid();
    case 'repo':
      return mostly('', 'https://example.com/org/app.git');
    case 'startLine':
      return mostly(0, 1);
    case 'path':
      return mostly('src/login.ts', 'a b', '...', 'ü/\u202e.ts');
    case 'body':
      return mostly('What if it is empty?', '> quoted', 'decline: no', '\u202e!');
    case 'followUpId':
      return fc.constantFrom('', 'f', 'g');
    case 'blocks':
    case 'blockedBy':
      return mostly<string[]>([], ['t'], ['unheard-of']);
    case 'preempt':
      return mostly(false, true);
    case 'deliverAt':
      return soon;
    case 'endedSince':
      return mostly('2020-01-31T09:00:00Z', '0000-01-01T00:00:00+23:59', '9999-12-31T23:59:59-23:59');
    case 'waitMs':
      return fc.constant(0);
    case 'agentKey':
      return known.agentKeys.length > 0 ? fc.constantFrom(...known.agentKeys) : undefined;
    case 'part':
      return mostly(0, 1, 2);
    case 'parts':
      return typesOf(schema).includes('integer') ? mostly(1, 2, 3) : undefined;
    case 'content':
      return fc
        .uint8Array({ minLength: 1, maxLength: 20 })
        .map((bytes) => Buffer.from(bytes).toString('base64'));
    case 'runnerId':
      return known.runnerIds.length > 0 ? fc.constantFrom(...known.runnerIds) : undefined;
    case 'updateMask':
      return fc.constantFrom(
        '',
        '*',
        'model',
        'instructions,model',
        'a.b.c',
        'rotate',
        'tasks',
        '__proto__.x',
        'name',
      );
    default:
      return undefined;
  }
}

function validText(schema: Schema, known: KnownValues): fc.Arbitrary<unknown> {
  if (schema.format === 'date-time') return soon;
  if (schema.format === 'uuid') return fc.uuid();
  const pattern = String(schema.pattern ?? '');
  if (pattern.startsWith('^[0-9a-f]')) return fc.stringMatching(new RegExp(pattern));
  if (pattern.includes('[0-9]')) return fc.nat({ max: 5 }).map(String);
  if (pattern.includes('A-Za-z')) return fc.constantFrom(...known.names);
  return word;
}

function validObject(schema: Schema, known: KnownValues): fc.Arbitrary<unknown> {
  const properties = schema.properties ?? {};
  const shape = Object.fromEntries(
    Object.entries(properties).map(([name, inner]) => [name, validValue(inner, name, known)]),
  );
  if (typeof schema.additionalProperties === 'object') {
    return fc.dictionary(fc.constantFrom('A', 'B'), validValue(schema.additionalProperties, '', known));
  }
  // Optional in the schema, but a request that names no agent reaches nothing.
  const naming = ['agentId', 'agentIds', 'agent', 'id'].filter((name) => name in properties);
  return fc.record(shape, { requiredKeys: [...(schema.required ?? []), ...naming], noNullPrototype: true });
}

/** Every place in a schema, as the keys that lead to it. */
export function placesOf(
  schema: Schema,
  at: readonly string[] = [],
): { at: readonly string[]; schema: Schema }[] {
  const here = at.length > 0 ? [{ at, schema }] : [];
  const inner = Object.entries(schema.properties ?? {}).flatMap(([name, one]) =>
    placesOf(one, [...at, name]),
  );
  const items = schema.items ? placesOf(schema.items, [...at, '0']) : [];
  return [...here, ...inner, ...items];
}

const samples: Record<string, unknown> = {
  string: 'text',
  integer: 7,
  number: 7.5,
  boolean: true,
  array: ['x'],
  object: { x: 1 },
};
export const valueOfAnotherType = (schema: Schema): fc.Arbitrary<unknown> => {
  const allowed = typesOf(schema);
  const isNumber = allowed.includes('integer') || allowed.includes('number');
  const others = Object.entries(samples)
    .filter(([type]) => !allowed.includes(type) && !(isNumber && (type === 'integer' || type === 'number')))
    .map(([, value]) => value);
  return fc.constantFrom(...(others.length > 0 ? others : [{}]));
};

export const nested = (depth: number): unknown => {
  let value: unknown = 1;
  for (let i = 0; i < depth; i += 1) value = i % 2 === 0 ? [value] : { x: value };
  return value;
};

export const hostileValue = fc.constantFrom<unknown>(
  '',
  'NaN',
  'Infinity',
  '-1',
  -1,
  '9999999999999999999',
  '9223372036854775808',
  2 ** 53,
  1e308,
  -0.5,
  '1e400',
  '0x10',
  'undefined',
  'a\u0000b',
  '\ud800',
  'x\udfff',
  '9999-12-31T23:59:59.999Z',
  '0000-01-01T00:00:00Z',
  '-271821-04-20T00:00:00Z',
  '2026-02-30T00:00:00Z',
  '2026-12-31T23:59:60Z',
  '2026-12-31T23:59:59+05',
  'NOT_AN_ENUM_VALUE',
  '../../etc/passwd',
  "' OR 1=1 --",
  '%s%n',
  '\u202e\ufeff',
  '__proto__',
  'constructor',
  'x'.repeat(2_000),
  'x'.repeat(300_000),
  '{',
  '{"type":"nothing"}',
  '{"$ref":"#/nowhere"}',
  '{"type":"string","pattern":"("}',
  '{"$ref":"https://example.org/schema.json"}',
  '{"$schema":"http://json-schema.org/draft-04/schema#"}',
  '[]',
  '%%%%',
  'e30',
  base64([1]),
  base64('text'),
  base64({ model: 1, tasks: {}, role: 7, repos: 'x', variables: [], cpus: '2' }),
  JSON.parse('{"__proto__":{"admin":true}}'),
  JSON.parse('{"constructor":{"prototype":{"admin":true}}}'),
  nested(200),
  nested(1_000),
  [],
  {},
  Array.from({ length: 600 }, () => ({})),
  Array.from({ length: 20 }, () => 'deep'),
);
