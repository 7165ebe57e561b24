import {
  type BodyOf,
  type Caller,
  type ReplyOf,
  type Route,
  type RouteName,
  routes,
} from '@muster/sdk/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { refuseAccess } from '../control/permit.ts';
import type { Principal } from '../control/principal.ts';
import { isRefusal, type Refusal } from '../control/refusal.ts';
import { validator } from '../lib/validator.ts';
import type { RouteContext } from './context.ts';
import { EdgeError, invalidField, throwRefusal } from './errors.ts';
import { normalize } from './normalize.ts';
import { refuseForeignOrigin, refuseForeignPage } from './own-page.ts';
import { callerByCookie } from './session-cookie.ts';

/** Nobody, where no key is needed. */
type CallerOf<N extends RouteName> = (typeof routes)[N]['access'] extends 'own-page' ? undefined : Principal;

export interface Call<N extends RouteName> {
  readonly caller: CallerOf<N>;
  readonly body: BodyOf<N>;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** A handler that has answered by itself (a stream, a long wait). */
export const answered = Symbol('answered');

type Handler<N extends RouteName> = (call: Call<N>) => Promise<ReplyOf<N> | Refusal | typeof answered>;

/** The key that was sent, or nothing. */
export function bearerOf({ headers }: FastifyRequest): string {
  const [scheme = '', key = ''] = (headers.authorization ?? '').split(' ');
  return scheme.toLowerCase() === 'bearer' ? key : '';
}

/** How a reply shows a caller. */
export const callerView = (caller: Principal): Caller => ({
  tenant: { provider: caller.tenant.provider, org: caller.tenant.org },
  ownerProvider: caller.ownerProvider,
  account: caller.account,
  keyId: caller.keyId,
  role: caller.role,
  expiresAt: caller.expiresAt,
});

/**
 * Who calls: 401, or 429 for a key that sends too much. A cookie counts only without an Authorization header, and never
 * where machines call.
 */
export const authenticate =
  (context: RouteContext, { takesCookies }: { readonly takesCookies: boolean }) =>
  async (request: FastifyRequest): Promise<void> => {
    const hasKey = request.headers.authorization !== undefined || !takesCookies;
    const caller = hasKey
      ? await context.control.keys.authenticate(bearerOf(request))
      : await callerByCookie(context, request);
    if (!caller) {
      throw new EdgeError(
        'UNAUTHENTICATED',
        'send a valid key: Authorization: Bearer mst_<key_id>.<secret>',
        [],
        {
          'www-authenticate': 'Bearer',
        },
      );
    }
    request.caller = caller;
    limitRate(context, caller);
  };

export function limitRate({ limiter }: RouteContext, { keyId }: Principal): void {
  const waitSeconds = limiter.take(keyId);
  if (waitSeconds <= 0) return;
  const retryAfter = String(Math.max(1, Math.ceil(waitSeconds)));
  throw new EdgeError('RESOURCE_EXHAUSTED', 'this key sends too many requests', [], {
    'retry-after': retryAfter,
  });
}

/**
 * Serves one route of the contract. The checks come in this order: who calls (401) or, where no key is needed, which
 * page asks (403); the shape of what was sent (400); whether the caller may (403); then the handler, for what exists
 * (404) and its state.
 */
export function serve<N extends RouteName>(context: RouteContext, name: N, handle: Handler<N>): void {
  const { app } = context;
  const route: Route = routes[name];
  const checkBody = route.body && validator(route.body);
  const checkQuery = route.query && validator(route.query);
  const needsKey = route.access !== 'own-page';

  const permit = ({ caller }: FastifyRequest): void => {
    const refused = needsKey ? refuseAccess(caller, route.access) : null;
    if (refused) throwRefusal(refused);
  };

  app.route({
    method: route.method,
    url: route.path.replace(/\{ref\.(\w+)\}/g, ':$1'),
    // A body of unusual size is read only from who may send one.
    ...(route.bodyBytes !== undefined && {
      bodyLimit: route.bodyBytes,
      preParsing: async (request: FastifyRequest) => permit(request),
    }),
    onRequest: [
      noStore,
      needsKey ? authenticate(context, { takesCookies: route.access !== 'runner' }) : ownPageOnly(context),
    ],
    // What answers HEAD would hold a stream open that nobody reads.
    exposeHeadRoute: !route.stream,
    schema: { response: { 200: route.reply } },
    handler: async (request, reply) => {
      const ignored: string[] = [];
      const checked = (value: unknown, schema: Route['body'], check: typeof checkBody): unknown => {
        if (!schema || !check) return undefined;
        const normalized = normalize(value, schema);
        ignored.push(...normalized.ignored);
        const violation = check(normalized.value);
        if (violation) throw invalidField(violation.field, violation.description);
        return normalized.value;
      };
      const body = checked(request.body ?? {}, route.body, checkBody);
      const query = checked(
        request.query,
        route.query ?? { type: 'object', properties: {} },
        checkQuery ?? (() => null),
      );
      if (ignored.length > 0) reply.header('muster-ignored-fields', headerSafe(ignored));
      permit(request);
      const result = await handle({
        caller: request.caller as CallerOf<N>,
        body: body as BodyOf<N>,
        params: request.params as Record<string, string>,
        query: (query ?? {}) as Record<string, string>,
        request,
        reply,
      });
      if (result === answered) return reply;
      if (isRefusal(result)) return throwRefusal(result);
      return result;
    },
  });
}

/** Where no key is needed, or where a page brings its key to sign in. */
const ownPageOnly =
  ({ publicUrl }: RouteContext) =>
  async (request: FastifyRequest): Promise<void> => {
    const { authorization, origin, host = '' } = request.headers;
    if (authorization === undefined) refuseForeignPage(request, publicUrl());
    else refuseForeignOrigin(origin, host, publicUrl());
  };

/** A reply is for one caller, and may hold a one-time secret. */
const noStore = async (_request: FastifyRequest, reply: FastifyReply): Promise<void> => {
  reply.header('cache-control', 'no-store');
};

/** Field names are the caller's text: only what a header may carry, and not without end. */
const headerSafe = (fields: readonly string[]): string =>
  fields
    .slice(0, 50)
    .map((field) => encodeURI(field).replace(/%5B/g, '[').replace(/%5D/g, ']').slice(0, 100))
    .join(', ');
