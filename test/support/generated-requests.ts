import {
  kindOf,
  kinds,
  kindTable,
  type Route,
  type RouteName,
  routes,
  type Schema,
} from '@muster/sdk/contract';
import fc from 'fast-check';
import { routeEntries, schemaProblem } from './contract-schemas.ts';
import {
  base64,
  document,
  hostileValue,
  type KnownValues,
  mostly,
  nested,
  placesOf,
  typesOf,
  validValue,
  valueOfAnotherType,
} from './generated-values.ts';

type Values = Record<string, unknown>;

/**
 * Requests generated from the route table: one half matches its schema, the other half is invalid in one place. Each
 * says whether it may be accepted, so that an invalid value that is accepted is found.
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

/** Puts a value at a place, and creates missing parents. */
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

/** `null` is the same as absent. Values deeper than every schema do not matter. */
function withoutNulls(value: unknown, depth = 0): unknown {
  if (depth > 20 || value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== null)
      .map(([key, inner]) => [key, withoutNulls(inner, depth + 1)]),
  );
}

/** A knownBody string field with NUL or a lone surrogate in it. */
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

/** What the contract says is wrong with the body: by its schema, and by that of the document in it. */
function wrongBody(route: RouteName, kind: string, body: unknown): string | undefined {
  const { body: schema } = routes[route] as Route;
  if (!schema) return undefined;
  const knownBody = withoutNulls(body);
  const broken = schemaProblem(schema, knownBody) ?? illFormed(schema, knownBody);
  if (broken !== undefined || (route !== 'writeResource' && route !== 'validateResource')) return broken;
  const { payload, updateMask } = knownBody as { payload?: string; updateMask?: string };
  const kindName = kindOf(kind);
  if (!payload || !kindName || (updateMask && updateMask !== '*')) return undefined;
  try {
    const decoded: unknown = JSON.parse(Buffer.from(payload, 'base64').toString());
    if (decoded === null || typeof decoded !== 'object' || Array.isArray(decoded))
      return 'payload: no object';
    return schemaProblem(kindTable[kindName].schema, withoutNulls(decoded));
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
function knownFields(route: Route, known: KnownValues): Values | undefined {
  const { held, heldAgent, stoppable, blocked, thread } = known;
  const { path } = route;
  if (path.startsWith('/v1/runner/checkpoint')) return held;
  if (path === routes.stopTurn.path && stoppable) return { agentId: { agent: stoppable }, runId: '1' };
  if (path === routes.queue.path && stoppable) return { agentId: { agent: stoppable } };
  if (path === routes.createTasks.path && heldAgent) return { agentId: { agent: heldAgent }, tasks: [{}] };
  if (path === routes.updateTask.path && heldAgent) return { agentId: { agent: heldAgent }, id: 't' };
  if (path === routes.createReview.path && thread) return { agentId: { agent: thread.agent } };
  const isOnThread = path === routes.replyToThread.path || path === routes.resolveThread.path;
  if (isOnThread && thread) return { agentId: { agent: thread.agent }, threadId: thread.threadId };
  if (path === routes.retry.path && blocked) return { agentId: { agent: blocked } };
  if (path === routes.checkpoint.path && held)
    return { agentId: { agent: heldAgent }, checkpointId: held.checkpointId };
  return isOwnRun(route) ? { agentId: { agent: heldAgent } } : undefined;
}

function bodyOf(route: Route, kind: string, known: KnownValues): fc.Arbitrary<unknown> {
  if (!route.body) return fc.constant(undefined);
  const fits = validValue(route.body, '', known);
  const knownBody = knownFields(route, known);
  if (knownBody)
    return fc
      .tuple(fits, fc.boolean())
      .map(([body, isKnown]) => ({ ...(body as Values), ...(isKnown && knownBody) }));
  if (route.path === routes.runnerPoll.path) {
    return fits.map((body) => {
      const name = known.runnerNames?.[String((body as Values).runnerId)];
      return { ...(body as Values), ...(name && { name }) };
    });
  }
  if (route.access === 'own-page')
    return fc.constantFrom(...(known.codes ?? []), 'never-made').map((code) => ({ code }));
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
      fc
        .oneof(valueOfAnotherType(schema), hostileValue, fc.constant(null))
        .map((value) => put(body, at, value)),
    );
  const unknownField = fc
    .tuple(fc.constantFrom('__proto__', 'constructor', 'colour', 'a\nb', 'größe', 'agent_id'), hostileValue)
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
    ? hostileValue.map((one) =>
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

const headersFor = (name: RouteName, { origin = '' }: KnownValues): fc.Arbitrary<Record<string, string>> => {
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
const withShortWait = (name: RouteName, body: unknown): unknown =>
  name === 'runnerPoll' && body !== null && typeof body === 'object' && !Array.isArray(body)
    ? { ...body, waitMs: typeof (body as Values).waitMs === 'string' ? (body as Values).waitMs : 0 }
    : body;

/** A request to one of these routes. */
export function generatedRequest(
  known: KnownValues,
  entries: typeof routeEntries = routeEntries,
): fc.Arbitrary<GeneratedRequest> {
  const names = fc.constantFrom(...known.names, 'default', '__proto__', '..', 'a b', 'x'.repeat(200));
  return fc
    .tuple(fc.constantFrom(...entries), kindNames, names, fc.boolean())
    .chain(([[name, route], kind, resource, broken]) =>
      fc
        .tuple(
          bodyOf(route, kind, known).chain((body) =>
            broken && route.body ? brokenBody(route, body) : fc.constant(body),
          ),
          fc.oneof(
            { weight: broken ? 9 : 1, arbitrary: fc.constant(undefined) },
            { weight: broken ? 1 : 0, arbitrary: rawBodies },
          ),
          route.query ? queryOf(route, broken) : fc.constant(''),
          callerFor(route),
          headersFor(name, known),
        )
        .map(([value, raw, query, caller, headers]): GeneratedRequest => {
          const path =
            route.path
              .replace('{pool}', 'default')
              .replace('{ref.kind}', safe(kind))
              .replace('{ref.name}', safe(resource)) + query;
          const sent = route.body ? (raw ?? JSON.stringify(withShortWait(name, value))) : undefined;
          const parsed = sent === undefined || raw !== undefined ? undefined : (JSON.parse(sent) as unknown);
          const wrong = parsed === undefined ? undefined : wrongBody(name, kind, parsed);
          return { route: name, method: route.method, path, caller, headers, body: sent, wrong };
        }),
    );
}
