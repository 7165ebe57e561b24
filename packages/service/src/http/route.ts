import {
  type BodyOf,
  type Caller,
  needsKey,
  type QueryOf,
  type ReplyOf,
  type Route,
  type RouteName,
  routes,
  type Schema,
} from '@muster/sdk/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { CodeHosts } from '../codehost/code-hosts.ts';
import { refuseAccess } from '../control/access/permit.ts';
import type { Principal } from '../control/access/principal.ts';
import type { Control } from '../control/control.ts';
import type { Refusal } from '../control/refusal.ts';
import { traceparentOf } from '../lib/traces/tracer.ts';
import { version } from '../lib/version.ts';
import type { Notifications } from '../notify/notifications.ts';
import type { SignIns } from '../sign-in/sign-ins.ts';
import type { Triggers } from '../trigger/triggers.ts';
import { authenticate, countBody } from './authenticate.ts';
import type { RouteContext } from './context.ts';
import { throwRefusal, unlessRefused } from './errors.ts';
import { checked } from './request-body.ts';
import { refuseOtherOrigin, refuseOtherPage } from './same-origin.ts';

/** A route that needs no key has no caller. */
type CallerOf<N extends RouteName> = (typeof routes)[N]['access'] extends 'own-page' | 'anyone'
  ? undefined
  : Principal;

export interface Call<N extends RouteName> {
  readonly control: Control;
  readonly codeHosts: CodeHosts;
  readonly notifications: Notifications;
  readonly signIns: SignIns;
  readonly triggers: Triggers;
  readonly caller: CallerOf<N>;
  readonly body: BodyOf<N>;
  readonly params: Readonly<Record<string, string>>;
  readonly query: QueryOf<N>;
  /** Where the request is in a trace; undefined if it is in none. */
  readonly traceparent?: string | undefined;
}

export interface HttpCall<N extends RouteName> extends Call<N> {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** Returned by a handler that has sent the reply itself, such as a stream. */
export const alreadySent = Symbol('alreadySent');

type Handler<N extends RouteName> = (call: HttpCall<N>) => Promise<ReplyOf<N> | Refusal | typeof alreadySent>;

export const callerView = (caller: Principal): Caller => ({
  tenant: { provider: caller.tenant.provider, org: caller.tenant.org },
  ownerProvider: caller.ownerProvider,
  account: caller.account,
  keyId: caller.keyId,
  role: caller.role,
  expiresAt: caller.expiresAt,
  version,
});

/**
 * Serves one route of the contract. The checks come in this order: who calls (401), or which page if no key is needed
 * (403); the shape of the request (400); whether the caller has access (403); then the handler, which finds what the
 * request names (404) and checks its state.
 */
export function serve<N extends RouteName>(context: RouteContext, name: N, handle: Handler<N>): void {
  const { app, control, codeHosts, notifications, signIns, triggers } = context;
  const route: Route = routes[name];
  const isKeyed = needsKey(route);
  const querySchema: Schema = route.query ?? noQuery;
  const numbers = numbersIn(querySchema);

  const permit = ({ caller }: FastifyRequest): void => {
    const refused = isKeyed ? refuseAccess(caller, route.access) : null;
    if (refused) throwRefusal(refused);
  };

  app.route({
    method: route.method,
    url: route.path.replace(/\{(?:ref\.)?(\w+)\}/g, ':$1'),
    // A body of unusual size is read only from a caller that may send one.
    ...(route.bodyBytes !== undefined && {
      bodyLimit: route.bodyBytes,
      preParsing: async (request: FastifyRequest) => permit(request),
    }),
    onRequest: [
      noStore,
      ...(isKeyed
        ? [authenticate(context, { takesCookies: route.access !== 'runner' }), countBody(context)]
        : [route.access === 'anyone' ? noOtherPage(context) : ownPageOnly(context)]),
    ],
    // A HEAD request would hold a stream open that nobody reads.
    exposeHeadRoute: !route.stream,
    schema: { response: { 200: route.reply } },
    handler: async (request, reply) => {
      const ignored: string[] = [];
      const body = route.body && checked(request.body ?? {}, route.body, ignored);
      const query = checked(withNumbers(request.query, numbers), querySchema, ignored);
      if (ignored.length > 0) reply.header('muster-ignored-fields', headerSafe(ignored));
      permit(request);
      request.about = aboutOf(body ?? query);
      const result = await handle({
        control,
        codeHosts,
        notifications,
        signIns,
        triggers,
        caller: request.caller as CallerOf<N>,
        body: body as BodyOf<N>,
        params: request.params as Record<string, string>,
        query: query as QueryOf<N>,
        traceparent: request.trace && traceparentOf(request.trace),
        request,
        reply,
      });
      return result === alreadySent ? reply : unlessRefused(result);
    },
  });
}

/** The agent that a body names: a runner by its key, others by its path. */
function aboutOf(body: unknown): FastifyRequest['about'] {
  const { agentKey, runId, agentId } = Object(body) as Readonly<Record<string, unknown>>;
  if (typeof agentKey === 'string')
    return { agent: agentKey, ...(typeof runId === 'number' && { run: runId }) };
  const { agent } = Object(agentId) as { readonly agent?: unknown };
  return Array.isArray(agent) && agent.length > 0 ? { agent: agent.join('/') } : undefined;
}

/** A query has only texts: those of whole numbers become numbers in these fields. */
function withNumbers(query: unknown, fields: readonly string[]): unknown {
  if (fields.length === 0) return query;
  const typed = { ...(query as Record<string, unknown>) };
  for (const name of fields) if (/^\d{1,15}$/.test(String(typed[name]))) typed[name] = Number(typed[name]);
  return typed;
}

const numbersIn = ({ properties = {} }: Schema): string[] =>
  Object.keys(properties).filter((name) => properties[name]?.type === 'integer');

const noQuery = { type: 'object', properties: {} } as const;

/** For a route that needs no key. A page that signs in with a key sends it, and may be on any host name. */
const ownPageOnly =
  ({ publicUrl }: RouteContext) =>
  async (request: FastifyRequest): Promise<void> => {
    const { authorization, origin, host = '' } = request.headers;
    if (authorization === undefined) refuseOtherPage(request, publicUrl());
    else refuseOtherOrigin(origin, host, publicUrl());
  };

/** Programs send no Origin. A page of another service must not use the network address of its reader. */
const noOtherPage =
  ({ publicUrl }: RouteContext) =>
  async ({ headers: { origin, host = '' } }: FastifyRequest): Promise<void> => {
    if (origin !== undefined) refuseOtherOrigin(origin, host, publicUrl());
  };

/** A reply is for one caller, and may contain a one-time secret. */
const noStore = (_request: FastifyRequest, reply: FastifyReply, done: () => void): void => {
  reply.header('cache-control', 'no-store');
  done();
};

/** Field names are the caller's text: escaped for a header, and limited in length. */
const headerSafe = (fields: readonly string[]): string =>
  fields
    .map((field) => encodeURI(field.toWellFormed()).replace(/%5B/g, '[').replace(/%5D/g, ']').slice(0, 100))
    .join(', ');
