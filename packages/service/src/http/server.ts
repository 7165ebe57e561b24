import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { limits, tenantName } from '@muster/sdk/contract';
import fastJson from 'fast-json-stringify';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { refuseSmallParts } from '../lib/small-parts.ts';
import { http } from '../lib/traces/attributes.ts';
import { parseTraceparent, type Span, type Tracer } from '../lib/traces/tracer.ts';
import { AcknowledgedBytes } from './acknowledged-bytes.ts';
import { authenticate } from './authenticate.ts';
import type { RouteContext, ServerOptions } from './context.ts';
import { HttpError, httpErrorOf, invalidField, refuseUnreadable, sendError } from './errors.ts';
import { watchEventLoop } from './event-loop.ts';
import { OpenBodies, OpenReplies, RateLimit } from './key-limits.ts';
import { readJsonOnly } from './request-body.ts';
import { hookRoutes } from './routes/hooks.ts';
import { longReplyRoutes } from './routes/long-replies.ts';
import { operationRoutes } from './routes/operations.ts';
import { pageRoutes, sendUnknownPage } from './routes/pages.ts';
import { providerRoutes } from './routes/providers.ts';
import { signInRoutes } from './routes/sign-in.ts';
import { systemRoutes } from './routes/system.ts';
import { unsubscribeRoutes } from './routes/unsubscribe.ts';
import { uploadRoutes } from './routes/uploads.ts';

/** The HTTP server: it authenticates, checks the shape of requests, calls control, and sends every error in one form. */
export function buildServer(options: ServerOptions): FastifyInstance {
  const { metrics, workers, keepAliveMs } = options;
  // Below /v1 a caller without a key gets 401 for every path, so it can't find out which paths exist.
  const authenticateBelowV1 = async (request: FastifyRequest): Promise<void> => {
    if (isBelowV1(request.url)) await authenticateCaller(request);
  };
  const app = newApp(options, authenticateBelowV1);
  observeRequests(app, options);
  app.setErrorHandler((error, request, reply) =>
    sendError(reply, httpErrorOf(error, options, request.routeOptions.bodyLimit)),
  );
  refuseUnknown(app);

  const context: RouteContext = {
    ...options,
    app,
    limiter: new RateLimit(options.rateLimit, workers),
    acknowledgedBytes: new AcknowledgedBytes(keepAliveMs / 20),
    openReplies: new OpenReplies(metrics, options.closing, workers),
    openBodies: new OpenBodies(),
  };
  const authenticateCaller = authenticate(context, { takesCookies: true });
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.is404) authenticateBelowV1(request).then(() => done(), done);
    else done();
  });
  operationRoutes(context);
  longReplyRoutes(context);
  signInRoutes(context);
  providerRoutes(context);
  hookRoutes(context);
  unsubscribeRoutes(context);
  uploadRoutes(context);
  systemRoutes(context);
  pageRoutes(context);
  return app;
}

function newApp(
  options: ServerOptions,
  authenticateBelowV1: (request: FastifyRequest) => Promise<void>,
): FastifyInstance {
  const app = Fastify({
    logger: false,
    bodyLimit: limits.bodyBytes,
    routerOptions: { maxParamLength: 1024, ignoreTrailingSlash: false },
    forceCloseConnections: 'idle',
    keepAliveTimeout: 72_000,
    requestTimeout: 300_000,
    trustProxy: options.trustedProxies.length > 0 && [...options.trustedProxies],
    // The kernel's probes detect a client that vanishes while its request waits for a reply.
    // A request without Host is refused here, because Node's own refusal has no error body.
    http: { keepAlive: true, keepAliveInitialDelay: options.keepAliveMs, requireHostHeader: false },
    // That of the caller's proxy, or a new one.
    genReqId: ({ headers }) => requestIdIn(headers) ?? randomUUID(),
    frameworkErrors: (error, request, reply) =>
      void authenticateBelowV1(request)
        .catch((refused: unknown) => refused)
        .then((refused) => sendError(reply, httpErrorOf(refused ?? error, options))),
    clientErrorHandler: refuseUnreadable,
  });
  app.server.on('request', refuseSmallParts);
  // Node's own refusal of an expectation has no error body.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  readJsonOnly(app);
  // Each route's serializer is compiled with its first reply: compiling all of them takes a tenth of a start.
  app.setSerializerCompiler(({ schema }) => {
    let serialize: ((value: unknown) => string) | undefined;
    return (value) => {
      serialize ??= fastJson(schema as fastJson.Schema);
      return serialize(value);
    };
  });
  return app;
}

/** Names, measures, traces and logs each request. */
function observeRequests(
  app: FastifyInstance,
  { log, metrics, keepAliveMs, tracer }: Pick<ServerOptions, 'log' | 'metrics' | 'keepAliveMs' | 'tracer'>,
): void {
  app.decorateRequest('caller');
  app.decorateRequest('startedMs', 0);
  app.decorateRequest('route', '');
  app.decorateRequest('trace');
  app.decorateRequest('span');
  app.decorateRequest('about');
  const noteActive = watchEventLoop(app, metrics, log);
  app.addHook('onRequest', (request, reply, done) => {
    request.startedMs = performance.now();
    reply.header('x-request-id', request.id);
    request.route = request.routeOptions.url ?? 'unknown';
    noteActive(request);
    const { httpVersion, headers } = request.raw;
    if (headers.traceparent !== undefined) request.trace = parseTraceparent(headers.traceparent);
    if (tracer) startSpan(tracer, request);
    if (httpVersion === '1.1' && headers.host === undefined) return done(invalidField('Host', 'is required'));
    done(/100-continue/i.test(headers.expect ?? '100-continue') ? undefined : unknownExpectation);
  });
  app.addHook('preHandler', (request, _reply, done) => {
    noteActive(request);
    done();
  });
  app.addHook('onSend', (request, reply, _payload, done) => {
    noteActive(request);
    // A reply of which the client takes nothing for this long is dropped, to free its memory.
    reply.raw.setTimeout(2 * keepAliveMs);
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const seconds = (performance.now() - request.startedMs) / 1000;
    const { method, route } = request;
    metrics.observe('muster_http_request_seconds', { method, route, status: reply.statusCode }, seconds);
    if (request.span) endSpan(request.span, reply.statusCode);
    if (log.isLevelEnabled('info')) logRequest(log, request, reply.statusCode, seconds);
    done();
  });
}

function logRequest(
  log: ServerOptions['log'],
  request: FastifyRequest,
  status: number,
  seconds: number,
): void {
  log.info(
    {
      method: request.method,
      route: request.route,
      status,
      ms: Math.round(seconds * 1e4) / 10,
      request: request.id,
      client: request.ip,
      forwardedFor: request.headers['x-forwarded-for']?.slice(0, largestHeaderLength),
      ...callerFields(request),
      trace: request.trace?.traceId,
    },
    'request',
  );
}

/** Refuses a known path with another method as UNIMPLEMENTED, an unknown one as NOT_FOUND. To be called before routes are added. */
function refuseUnknown(app: FastifyInstance): void {
  const routes: { readonly methods: readonly string[]; readonly path: RegExp }[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    routes.push({ methods: [method].flat(), path: pathPattern(url) });
  });
  app.setNotFoundHandler((request, reply) => {
    const { method, url } = request;
    const path = url.split('?')[0] ?? '';
    const atPath = routes.filter((route) => route.path.test(path));
    const isOtherMethod = atPath.length > 0 && !atPath.some(({ methods }) => methods.includes(method));
    if (atPath.length === 0 && isForBrowser(request, path)) return sendUnknownPage(reply);
    return sendError(reply, isOtherMethod ? unknownMethod(method, path) : unknownPath(path));
  });
}

/** Whether a person has opened the address. The API and files answer a browser as any other client. */
const isForBrowser = ({ method, headers }: FastifyRequest, path: string): boolean =>
  method === 'GET' &&
  /\btext\/html\b/.test(headers.accept ?? '') &&
  !/^\/(v1|hooks|mcp|assets|docs)(\/|$)/.test(path);

/** Of what people and agents ask for. Polls and reports of runners are many, and are measured by the metrics. */
function startSpan(tracer: Tracer, request: FastifyRequest): void {
  const { method, route, trace: parent } = request;
  if (!/^\/(?:v1\/(?!runner)|mcp$)/.test(route)) return;
  request.span = tracer.start(`${method} ${route}`, {
    kind: 'server',
    parent,
    attributes: { [http.method]: method, [http.route]: route },
  });
  request.trace = request.span.context;
}

function endSpan(span: Span, status: number): void {
  span.set({ [http.status]: status });
  span.end(status >= 500 ? String(status) : undefined);
}

/** Of a header, in the log. */
const largestHeaderLength = 200;

function requestIdIn(headers: IncomingHttpHeaders): string | undefined {
  const id = headers['x-request-id'];
  // A key in the wrong header must not get into the log.
  return typeof id === 'string' && !id.includes('mst_') && /^[\w.:/+=-]{1,128}$/.test(id) ? id : undefined;
}

/** Who sent the request, and about which agent. */
function callerFields({ caller, about }: FastifyRequest): Readonly<Record<string, unknown>> {
  if (!caller) return {};
  const { keyId, role, account, tenant, agent, run } = caller;
  const own = role === 'agent' && agent ? { agent: agent.id ?? agent.path.join('/'), run } : {};
  return {
    key: keyId,
    role,
    account,
    ...(tenant.id > 0 && { tenant: tenantName(tenant) }),
    ...own,
    ...about,
  };
}

/** Signing in needs no key. */
function isBelowV1(url: string): boolean {
  const path = url.split('?')[0] ?? '';
  return /^\/v1(\/|$)/.test(path) && !/^\/v1\/sign-in(\/|$)/.test(path);
}

const pathPattern = (url: string): RegExp =>
  new RegExp(
    `^${url
      .replace(/\./g, '\\.')
      .replace(/\*$/, '.*')
      .replace(/:\w+(\([^)]*\))?/g, '[^/]+')}$`,
  );

const unknownExpectation = new HttpError('INVALID_ARGUMENT', 'Expect: only 100-continue is known', [], {
  connection: 'close',
});
const unknownMethod = (method: string, path: string): HttpError =>
  new HttpError('UNIMPLEMENTED', `${path} has no method ${method}`);
const unknownPath = (path: string): HttpError =>
  new HttpError('NOT_FOUND', `unknown path: ${path.slice(0, 200)}`);
