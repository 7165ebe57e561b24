import {
  documents,
  kindOf,
  kinds,
  type Route,
  type RouteName,
  routes,
  type Schema,
} from '@muster/sdk/contract';
import fc from 'fast-check';
import { routeEntries, schemaProblem } from './contract-schemas.ts';

/**
 * Requests made from the route table: one half fits its schema, the other is broken in one place. Each knows whether
 * it may be accepted at all, so that a wrong value that gets through is found.
 */
export interface GeneratedRequest {
  readonly route: RouteName;
  readonly method: Route['method'];
  readonly path: string;
  readonly caller: Caller;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** Why a 2xx would be wrong; undefined when the request may be accepted. */
  readonly wrong: string | undefined;
}

export const callers = ['admin', 'member', 'viewer', 'runner', 'agent', 'nobody'] as const;
export type Caller = (typeof callers)[number];

export interface Pools {
  /** Paths of agents in all sorts of states. */
  readonly agents: readonly (readonly string[])[];
  readonly names: readonly string[];
  /** Internal keys of agents with runs, for the runner protocol. */
  readonly agentKeys: readonly string[];
  readonly runnerIds: readonly string[];
  /** The name under which each of them polls. */
  readonly runnerNames?: Readonly<Record<string, string>>;
  /** A run that stays live, with a checkpoint of one part, and its agent: only routes that leave it so are told of them. */
  readonly held?: Readonly<Record<'runnerId' | 'agentKey' | 'runId' | 'checkpointId', unknown>>;
  readonly heldAgent?: readonly string[];
  /** An agent whose first run is live until a request ends it. */
  readonly stoppable?: readonly string[];
  /** One that a retry may be about. */
  readonly blocked?: readonly string[];
  /** For a sign-in: codes of a key that asks for no more, and where the page is from. */
  readonly codes?: readonly string[];
  readonly origin?: string;
}

type Values = Record<string, unknown>;

const typesOf = (schema: Schema): readonly string[] =>
  schema.type === undefined ? [] : typeof schema.type === 'string' ? [schema.type] : schema.type;

const word = fc.string({ maxLength: 12 }).map((text) => text.replace(/^!/, ''));
const soon = fc
  .integer({ min: 60_000, max: 29 * 86_400_000 })
  .map((ms) => new Date(Date.now() + ms).toISOString());

const document = (kind: string): fc.Arbitrary<unknown> => {
  const known = kindOf(kind);
  return known ? fitting(documents[known], '', emptyPools) : fc.constant({});
};
const emptyPools: Pools = { agents: [['a0']], names: ['default'], agentKeys: [], runnerIds: [] };
const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64');

const mostly = <T>(usual: T, ...others: T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight: 6, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );

/** Values that fit the schema; `field` is the name under which they are sent. */
function fitting(schema: Schema, field: string, pools: Pools): fc.Arbitrary<unknown> {
  const special = fittingByName(schema, field, pools);
  if (special) return special;
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map((one) => fitting(one, field, pools)));
  const [type] = typesOf(schema);
  switch (type) {
    case 'string':
      return fittingText(schema, pools);
    case 'boolean':
      return fc.boolean();
    case 'integer':
    case 'number': {
      const min = Math.max(Number(schema.minimum ?? 0), 0);
      return fc.integer({ min, max: Math.min(Number(schema.maximum ?? 100), min + 100) });
    }
    case 'array':
      return fc.array(fitting(schema.items ?? {}, `${field}[]`, pools), {
        minLength: Number(schema.minItems ?? 0),
        maxLength: 3,
      });
    case 'object':
      return fittingObject(schema, pools);
    default:
      return fc.constantFrom<unknown>('any', 1, { any: true });
  }
}

function fittingByName(schema: Schema, field: string, pools: Pools): fc.Arbitrary<unknown> | undefined {
  switch (field) {
    case 'agent':
      return typesOf(schema)[0] === 'array'
        ? fc.oneof(
            { weight: 5, arbitrary: fc.constantFrom(...pools.agents) },
            fc.array(fc.constantFrom(...pools.names)),
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
      return pools.agentKeys.length > 0 ? fc.constantFrom(...pools.agentKeys) : undefined;
    case 'part':
      return mostly(0, 1, 2);
    case 'parts':
      return mostly(1, 2, 3);
    case 'content':
      return fc
        .uint8Array({ minLength: 1, maxLength: 20 })
        .map((bytes) => Buffer.from(bytes).toString('base64'));
    case 'runnerId':
      return pools.runnerIds.length > 0 ? fc.constantFrom(...pools.runnerIds) : undefined;
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

function fittingText(schema: Schema, pools: Pools): fc.Arbitrary<unknown> {
  if (schema.format === 'date-time') return soon;
  if (schema.format === 'uuid') return fc.uuid();
  const pattern = String(schema.pattern ?? '');
  if (pattern.includes('[0-9]')) return fc.nat({ max: 5 }).map(String);
  if (pattern.includes('A-Za-z')) return fc.constantFrom(...pools.names);
  return word;
}

function fittingObject(schema: Schema, pools: Pools): fc.Arbitrary<unknown> {
  const properties = schema.properties ?? {};
  const shape = Object.fromEntries(
    Object.entries(properties).map(([name, inner]) => [name, fitting(inner, name, pools)]),
  );
  if (typeof schema.additionalProperties === 'object') {
    return fc.dictionary(fc.constantFrom('A', 'B'), fitting(schema.additionalProperties, '', pools));
  }
  // Optional by the schema, but without it no agent is named and nothing is reached.
  const naming = ['agentId', 'agentIds', 'agent', 'id'].filter((name) => name in properties);
  return fc.record(shape, { requiredKeys: [...(schema.required ?? []), ...naming], noNullPrototype: true });
}

/** Every place of a schema, as the keys that lead to it. */
function placesOf(schema: Schema, at: readonly string[] = []): { at: readonly string[]; schema: Schema }[] {
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
const ofAnotherType = (schema: Schema): fc.Arbitrary<unknown> => {
  const allowed = typesOf(schema);
  const isNumber = allowed.includes('integer') || allowed.includes('number');
  const others = Object.entries(samples)
    .filter(([type]) => !allowed.includes(type) && !(isNumber && (type === 'integer' || type === 'number')))
    .map(([, value]) => value);
  return fc.constantFrom(...(others.length > 0 ? others : [{}]));
};

const nested = (depth: number): unknown => {
  let value: unknown = 1;
  for (let i = 0; i < depth; i += 1) value = i % 2 === 0 ? [value] : { x: value };
  return value;
};

const nasty = fc.constantFrom<unknown>(
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

/** Puts a value at a place, making the parents that are missing. */
function put(into: unknown, at: readonly string[], value: unknown): unknown {
  const [key, ...rest] = at;
  if (key === undefined) return value;
  if (key === '0') {
    const list = Array.isArray(into) ? [...into] : [];
    list[0] = put(list[0], rest, value);
    return list;
  }
  const object: Values = into !== null && typeof into === 'object' && !Array.isArray(into) ? { ...into } : {};
  object[key] = put(object[key], rest, value);
  return object;
}

/** `null` is the same as absent. Deeper than any schema reaches it does not matter. */
function withoutNulls(value: unknown, depth = 0): unknown {
  if (depth > 20 || value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== null)
      .map(([key, inner]) => [key, withoutNulls(inner, depth + 1)]),
  );
}

/** A known string field with NUL or a lone surrogate in it. */
function illFormed(schema: Schema, value: unknown, at = ''): string | undefined {
  if (typeof value === 'string') {
    const broken = value.includes('\u0000') || /\p{Surrogate}/u.test(value);
    return broken && typesOf(schema).includes('string') ? at : undefined;
  }
  if (Array.isArray(value)) {
    return value.map((item, i) => illFormed(schema.items ?? {}, item, `${at}[${i}]`)).find((found) => found);
  }
  if (value === null || typeof value !== 'object') return undefined;
  return Object.entries(schema.properties ?? {})
    .map(([name, inner]) =>
      Object.hasOwn(value, name) ? illFormed(inner, (value as Values)[name], `${at}.${name}`) : undefined,
    )
    .find((found) => found);
}

/** What is wrong with the body by the contract alone: its schema, and that of the document it carries. */
function wrongBody(route: RouteName, kind: string, body: unknown): string | undefined {
  const { body: schema } = routes[route] as Route;
  if (!schema) return undefined;
  const known = withoutNulls(body);
  const broken = schemaProblem(schema, known) ?? illFormed(schema, known);
  if (broken !== undefined || route !== 'writeResource') return broken;
  const { payload, updateMask } = known as { payload?: string; updateMask?: string };
  const kindName = kindOf(kind);
  if (!payload || !kindName || (updateMask && updateMask !== '*')) return undefined;
  try {
    const decoded: unknown = JSON.parse(Buffer.from(payload, 'base64').toString());
    if (decoded === null || typeof decoded !== 'object' || Array.isArray(decoded))
      return 'payload: no object';
    return schemaProblem(documents[kindName], withoutNulls(decoded));
  } catch {
    return 'payload: not JSON';
  }
}

const kindNames = fc.constantFrom(
  ...kinds,
  ...kinds,
  'Personas',
  'pool_config',
  'spaceship',
  '__proto__',
  'constructor',
  'a'.repeat(300),
);

/** What half of the requests of a route name, so that enough of them are accepted. */
function knownFields(route: Route, { held, heldAgent, stoppable, blocked }: Pools): Values | undefined {
  const { path } = route;
  if (path.startsWith('/v1/runner/checkpoint')) return held;
  if (path === routes.stopTurn.path && stoppable) return { agentId: { agent: stoppable }, runId: '1' };
  if (path === routes.queue.path && stoppable) return { agentId: { agent: stoppable } };
  if (path === routes.retry.path && blocked) return { agentId: { agent: blocked } };
  if (path === routes.checkpoint.path && held)
    return { agentId: { agent: heldAgent }, checkpointId: held.checkpointId };
  return isOwnRun(route) ? { agentId: { agent: heldAgent } } : undefined;
}

function bodyOf(route: Route, kind: string, pools: Pools): fc.Arbitrary<unknown> {
  if (!route.body) return fc.constant(undefined);
  const fits = fitting(route.body, '', pools);
  const known = knownFields(route, pools);
  if (known)
    return fc
      .tuple(fits, fc.boolean())
      .map(([body, isKnown]) => ({ ...(body as Values), ...(isKnown && known) }));
  if (route.path === routes.runnerPoll.path) {
    return fits.map((body) => {
      const name = pools.runnerNames?.[String((body as Values).runnerId)];
      return { ...(body as Values), ...(name && { name }) };
    });
  }
  if (route.access === 'own-page')
    return fc.constantFrom(...(pools.codes ?? []), 'never-made').map((code) => ({ code }));
  if (route.access !== 'catalog-write') return fits;
  const ref = fc.constantFrom(undefined, {}, { tenant: { org: 'local' } });
  return fc.tuple(fits, document(kind), ref, fc.boolean()).map(([body, carried, about, conditional]) => ({
    ...(body as Values),
    payload: base64(carried),
    ref: about,
    ...(!conditional && { ifGenerationMatch: undefined }),
  }));
}

function brokenBody(route: Route, body: unknown): fc.Arbitrary<unknown> {
  const places = placesOf(route.body ?? {});
  const whole = fc.constantFrom<unknown>([], 'text', 1, [{}], nested(1_500), { '': 1 });
  if (places.length === 0) return whole;
  const inOnePlace = fc
    .constantFrom(...places)
    .chain(({ at, schema }) =>
      fc.oneof(ofAnotherType(schema), nasty, fc.constant(null)).map((value) => put(body, at, value)),
    );
  const unknownField = fc
    .tuple(fc.constantFrom('__proto__', 'constructor', 'colour', 'a\nb', 'größe', 'agent_id'), nasty)
    .map(([key, value]) => Object.defineProperty({ ...(body as Values) }, key, { value, enumerable: true }));
  return fc.oneof({ weight: 8, arbitrary: inOnePlace }, { weight: 1, arbitrary: unknownField }, whole);
}

/** Texts that no JSON value would give. */
const rawBodies = fc.constantFrom(
  '{',
  '{"agentId":',
  'null',
  '{"runId":1e400}',
  '{"ifGenerationMatch":-1e400}',
  '{"pageSize":NaN}',
  `${'['.repeat(50_000)}`,
  `{"a":${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}}`,
  '{"agentId":{"agent":["a0"]},"agentId":{"agent":[7]}}',
  '\ufeff{}',
  '{"__proto__":null}',
  '',
);

const queryOf = (route: Route, broken: boolean): fc.Arbitrary<string> => {
  const names = Object.keys(route.query?.properties ?? {});
  const value = broken
    ? nasty.map((one) =>
        typeof one === 'string' ? one.slice(0, 3_000) : JSON.stringify(one).slice(0, 3_000),
      )
    : fc.constantFrom('', 'local', 'PROVIDER_CODEHOST_APP', '5');
  const one = fc
    .tuple(fc.constantFrom(...names, 'colour'), value)
    .map(([key, text]) => `${key}=${safe(text)}`);
  return fc
    .array(one, { maxLength: broken ? 3 : 1 })
    .map((parts) => (parts.length > 0 ? `?${parts.join('&')}` : ''));
};

/** Percent-encoded; what can't be is left out. */
const safe = (text: string): string => encodeURIComponent(text.replace(/\p{Surrogate}/gu, ''));

/** What an agent says of its own run, with the run's own key. */
const isOwnRun = ({ path }: Route): boolean =>
  [routes.ask.path, routes.finish.path, routes.fail.path].some((own) => own === path);

const callerFor = (route: Route): fc.Arbitrary<Caller> => {
  if (isOwnRun(route)) return mostly<Caller>('agent', 'admin', 'runner', 'nobody');
  return route.access === 'runner'
    ? fc.constantFrom<Caller>('runner', 'runner', 'runner', 'runner', 'admin')
    : fc.constantFrom<Caller>(
        'admin',
        'admin',
        'admin',
        'admin',
        'member',
        'viewer',
        'agent',
        'runner',
        'nobody',
      );
};

const headersFor = (name: RouteName, { origin = '' }: Pools): fc.Arbitrary<Record<string, string>> => {
  if (name === 'signIn') {
    return mostly<Record<string, string>>({ origin }, {}, { origin: 'null' }, { origin: `${origin}/` });
  }
  if (name === 'spawn') {
    return mostly<Record<string, string>>(
      {},
      { 'idempotency-key': 'fuzz' },
      { 'idempotency-key': 'x'.repeat(5_000) },
    );
  }
  if (!name.includes('Stream')) return fc.constant({});
  return fc.constantFrom(
    {},
    { 'last-event-id': '1' },
    { 'last-event-id': 'x' },
    { 'last-event-id': '9'.repeat(30) },
  );
};

/** Never a real poll that waits: the test counts what hangs. */
const impatient = (name: RouteName, body: unknown): unknown =>
  name === 'runnerPoll' && body !== null && typeof body === 'object' && !Array.isArray(body)
    ? { ...body, waitMs: typeof (body as Values).waitMs === 'string' ? (body as Values).waitMs : 0 }
    : body;

/** A request to one of these routes. */
export function generatedRequest(
  pools: Pools,
  entries: typeof routeEntries = routeEntries,
): fc.Arbitrary<GeneratedRequest> {
  const names = fc.constantFrom(...pools.names, 'default', '__proto__', '..', 'a b', 'x'.repeat(200));
  return fc
    .tuple(fc.constantFrom(...entries), kindNames, names, fc.boolean())
    .chain(([[name, route], kind, resource, broken]) =>
      fc
        .tuple(
          bodyOf(route, kind, pools).chain((body) =>
            broken && route.body ? brokenBody(route, body) : fc.constant(body),
          ),
          fc.oneof(
            { weight: broken ? 9 : 1, arbitrary: fc.constant(undefined) },
            { weight: broken ? 1 : 0, arbitrary: rawBodies },
          ),
          route.query ? queryOf(route, broken) : fc.constant(''),
          callerFor(route),
          headersFor(name, pools),
        )
        .map(([value, raw, query, caller, headers]): GeneratedRequest => {
          const path =
            route.path.replace('{ref.kind}', safe(kind)).replace('{ref.name}', safe(resource)) + query;
          const sent = route.body ? (raw ?? JSON.stringify(impatient(name, value))) : undefined;
          const parsed = sent === undefined || raw !== undefined ? undefined : (JSON.parse(sent) as unknown);
          const wrong = parsed === undefined ? undefined : wrongBody(name, kind, parsed);
          return { route: name, method: route.method, path, caller, headers, body: sent, wrong };
        }),
    );
}
