import { limits, routes } from '@muster/sdk/contract';
import fastJson from 'fast-json-stringify';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { Acknowledged } from './acknowledged.ts';
import type { RouteContext, ServerOptions } from './context.ts';
import { EdgeError, edgeErrorOf, invalidField, sendEdgeError, sendError } from './errors.ts';
import { watchEventLoop } from './event-loop-watch.ts';
import { readJsonOnly } from './json-body.ts';
import { mcpRoutes } from './mcp/routes.ts';
import { OpenReplies } from './open-replies.ts';
import { RateLimit } from './rate-limit.ts';
import { authenticate } from './route.ts';
import { agentRoutes } from './routes/agents.ts';
import { catalogRoutes } from './routes/catalog.ts';
import { dashboardPages, dashboardRoutes, readDashboard } from './routes/dashboard.ts';
import { docsPaths, docsRoutes } from './routes/docs.ts';
import { followUpRoutes } from './routes/follow-ups.ts';
import { ownRunRoutes } from './routes/own-runs.ts';
import { runnerRoutes } from './routes/runners.ts';
import { signInRoutes } from './routes/sign-in.ts';
import { systemRoutes } from './routes/system.ts';
import { taskRoutes } from './routes/tasks.ts';
import { timelineRoutes } from './routes/timeline.ts';
import { refuseExpectation, refuseUnreadable } from './unreadable.ts';

/** The HTTP edge: it authenticates, checks shapes, asks the control room, and puts every failure into one envelope. */
export function buildServer(options: ServerOptions): FastifyInstance {
  const { log, metrics, keepAliveMs } = options;
  const app = Fastify({
    logger: false,
    bodyLimit: limits.bodyBytes,
    routerOptions: { maxParamLength: 1024, ignoreTrailingSlash: false },
    forceCloseConnections: 'idle',
    keepAliveTimeout: 72_000,
    requestTimeout: 300_000,
    // A client that vanishes while a request waits for its reply is noticed by the kernel's probes.
    // Node itself would refuse a request without Host, and with a body that is no envelope.
    http: { keepAlive: true, keepAliveInitialDelay: keepAliveMs, requireHostHeader: false },
    frameworkErrors: (error, request, reply) =>
      void authenticateBelowV1(request)
        .catch((refused: unknown) => refused)
        .then((refused) => sendEdgeError(reply, edgeErrorOf(refused ?? error, log))),
    clientErrorHandler: refuseUnreadable,
  });
  app.server.on('checkExpectation', refuseExpectation);
  app.decorateRequest('caller');
  app.decorateRequest('startedMs', 0);
  readJsonOnly(app);
  // Compiled with a route's first reply: those of all routes take a tenth of a start.
  app.setSerializerCompiler(({ schema }) => {
    let serialize: ((value: unknown) => string) | undefined;
    return (value) => {
      serialize ??= fastJson(schema as fastJson.Schema);
      return serialize(value);
    };
  });

  app.addHook('onRequest', (request, _reply, done) => {
    request.startedMs = performance.now();
    const needsHost = request.raw.httpVersion === '1.1' && request.raw.headers.host === undefined;
    done(needsHost ? invalidField('Host', 'is required') : undefined);
  });
  // A reply of which the client takes nothing for this long is given up, and its memory with it.
  app.addHook('onSend', (_request, reply, _payload, done) => {
    reply.raw.setTimeout(2 * keepAliveMs);
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const seconds = (performance.now() - request.startedMs) / 1000;
    const route = request.routeOptions.url ?? 'unknown';
    metrics.observeRequest(request.method, route, reply.statusCode, seconds);
    if (log.isLevelEnabled('info'))
      log.info(
        {
          method: request.method,
          route,
          status: reply.statusCode,
          ms: Math.round(seconds * 1e4) / 10,
          key: request.caller?.keyId,
        },
        'request',
      );
    done();
  });
  watchEventLoop(app, metrics, log);
  app.setErrorHandler((error, request, reply) => {
    return sendEdgeError(reply, edgeErrorOf(error, log, request.routeOptions.bodyLimit));
  });
  const dashboard = readDashboard();
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0] ?? '';
    const isKnown = dashboard.files.has(path) || knownPaths.some((known) => known.test(path));
    return sendError(reply, isKnown ? noSuchMethod(path) : nothingAt(path));
  });

  const context: RouteContext = {
    ...options,
    app,
    limiter: new RateLimit(options.rateLimit),
    acknowledged: new Acknowledged(keepAliveMs / 20),
    openReplies: new OpenReplies(metrics, options.closing),
  };
  // Who calls is asked before whether there is anything to call.
  const authenticateCaller = authenticate(context, { takesCookies: true });
  const authenticateBelowV1 = async (request: FastifyRequest): Promise<void> => {
    if (isBelowV1(request.url)) await authenticateCaller(request);
  };
  app.addHook('onRequest', async (request) => {
    if (request.is404) await authenticateBelowV1(request);
  });
  agentRoutes(context);
  followUpRoutes(context);
  taskRoutes(context);
  timelineRoutes(context);
  catalogRoutes(context);
  runnerRoutes(context);
  ownRunRoutes(context);
  mcpRoutes(context);
  signInRoutes(context);
  systemRoutes(context);
  docsRoutes(context);
  dashboardRoutes(context, dashboard);
  return app;
}

/** Paths that only a caller with a key may learn about. Signing in is for those who have none yet. */
function isBelowV1(url: string): boolean {
  const path = url.split('?')[0] ?? '';
  return /^\/v1(\/|$)/.test(path) && !/^\/v1\/sign-in(\/|$)/.test(path);
}

const knownPaths = [
  ...Object.values(routes).map((route) => route.path),
  '/openapi.json',
  '/healthz',
  '/readyz',
  '/metrics',
  '/mcp',
  ...docsPaths,
  ...dashboardPages,
].map(patternOf);

function patternOf(path: string): RegExp {
  const pattern = path
    .replace(/\./g, '\\.')
    .replace(/\*$/, '.*')
    .replace(/\{[^}]+\}/g, '[^/]+');
  return new RegExp(`^${pattern}$`);
}

const noSuchMethod = (path: string): EdgeError =>
  new EdgeError('UNIMPLEMENTED', `${path} has no such method`);
const nothingAt = (path: string): EdgeError =>
  new EdgeError('NOT_FOUND', `there is nothing at ${path.slice(0, 200)}`);
