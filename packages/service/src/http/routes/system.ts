import { openApiDocument } from '@muster/sdk/contract';
import type { FastifyRequest } from 'fastify';
import type { RouteContext } from '../context.ts';
import { EdgeError } from '../errors.ts';
import { isLoopbackHost } from '../own-page.ts';
import { bearerOf } from '../route.ts';

const loopback = new Set(['127.0.0.1', '::1', '::ffff:127.0.0.1']);

/** What operators and machines ask beside the interface. */
export function systemRoutes(context: RouteContext): void {
  const { app, control, metrics, closing, publicUrl } = context;

  app.get('/healthz', async () => ({ status: 'ok' }));

  app.get('/readyz', async () => {
    if (closing.aborted) throw new EdgeError('UNAVAILABLE', 'the service is shutting down');
    const unready = await control.unready();
    if (unready !== null) throw new EdgeError('UNAVAILABLE', unready);
    return { status: 'ok' };
  });

  app.get('/openapi.json', async () => openApiDocument(publicUrl()));

  app.get('/metrics', async (request, reply) => {
    if (!isLocal(request)) {
      const caller = await control.keys.authenticate(bearerOf(request));
      if (!caller)
        throw new EdgeError(
          'UNAUTHENTICATED',
          "/metrics needs an operator's key, unless it is read on this machine at a loopback address",
        );
      if (caller.role !== 'operator')
        throw new EdgeError('PERMISSION_DENIED', "metrics need an operator's key");
    }
    return reply.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });
}

/**
 * From this machine, not through a proxy on it, and sent to a loopback name: a page whose name another name server
 * leads to this machine (DNS rebinding) sends its own name.
 */
const isLocal = ({ ip, headers }: FastifyRequest): boolean =>
  loopback.has(ip) && !headers['x-forwarded-for'] && !headers.forwarded && isLoopbackHost(headers.host ?? '');
