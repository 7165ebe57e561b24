import { openApiDocument } from '@muster/sdk/contract';
import type { FastifyRequest } from 'fastify';
import { version } from '../../lib/version.ts';
import { authenticate, bearerOf, countBody } from '../authenticate.ts';
import type { RouteContext } from '../context.ts';
import { HttpError } from '../errors.ts';
import { addressOf } from '../same-origin.ts';

const loopback = new Set(['127.0.0.1', '::1', '::ffff:127.0.0.1']);

/** Health, metrics, the OpenAPI document and MCP. */
export function systemRoutes(context: RouteContext): void {
  const { app, control, databaseDisk, metrics, workers, draining, publicUrl } = context;
  workers?.on('metrics', () => metrics.json());

  app.get('/healthz', async () => ({ status: 'ok', version }));

  app.get('/readyz', async () => {
    if (draining.aborted) throw new HttpError('UNAVAILABLE', 'the service is shutting down');
    const unready = databaseDisk.problem() ?? (await control.unready());
    if (unready !== null) throw new HttpError('UNAVAILABLE', unready);
    return { status: 'ok' };
  });

  app.get('/openapi.json', async () => openApiDocument(publicUrl()));

  app.get('/metrics', async (request, reply) => {
    if (!isLocal(request)) {
      const caller = await control.keys.authenticate(bearerOf(request));
      if (!caller)
        throw new HttpError(
          'UNAUTHENTICATED',
          '/metrics needs a key of role metrics or operator, except from this machine at a loopback address, without a proxy',
        );
      if (caller.role !== 'operator' && caller.role !== 'metrics')
        throw new HttpError(
          'PERMISSION_DENIED',
          `/metrics needs a key of role metrics or operator; this key has role ${caller.role}`,
        );
    }
    const text = await (workers ?? metrics).metrics();
    return reply.type(metrics.contentType).send(text);
  });

  /**
   * MCP over Streamable HTTP, without sessions: every request is complete in itself, so any node can answer it, and its
   * key is checked. The server never sends first, so GET and DELETE have nothing to do. Loading the MCP library takes a
   * quarter of the time of a start, so it is loaded with the first request.
   */
  const onRequest = [authenticate(context, { takesCookies: false }), countBody(context)];
  app.post('/mcp', { onRequest }, async (request, reply) =>
    (await import('../mcp/server.ts')).answer(context, request, reply),
  );
  app.route({
    method: ['GET', 'DELETE'],
    url: '/mcp',
    onRequest,
    handler: async (_request, reply) => {
      const error = { code: -32000, message: 'Method not allowed: send requests with POST' };
      return reply.code(405).header('allow', 'POST').send({ jsonrpc: '2.0', error, id: null });
    },
  });
}

/** What proxies add, with any value. */
const proxyHeader = /^(forwarded|via|x-forwarded-.*|x-real-ip)$/;

/**
 * Sent from this machine, not through a proxy on it, and to a loopback name: a page whose name points to this machine
 * (DNS rebinding) sends its own name.
 */
const isLocal = ({ ip, headers }: FastifyRequest): boolean =>
  loopback.has(ip) &&
  !Object.keys(headers).some((name) => proxyHeader.test(name)) &&
  addressOf(headers.host ?? '', '')?.isLoopback === true;
