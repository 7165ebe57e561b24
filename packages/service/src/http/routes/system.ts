import { openApiDocument } from '@muster/sdk/contract';
import type { FastifyRequest } from 'fastify';
import type { RouteContext } from '../context.ts';
import { EdgeError } from '../errors.ts';

const loopback = new Set(['127.0.0.1', '::1', '::ffff:127.0.0.1']);

/** What operators and machines ask beside the interface. */
export function systemRoutes(context: RouteContext): void {
  const { app, control, metrics, closing, publicUrl } = context;

  app.get('/healthz', async () => ({ status: 'ok' }));

  app.get('/readyz', async () => {
    if (closing.aborted) throw new EdgeError('UNAVAILABLE', 'the service is shutting down');
    if (!(await control.isReady())) throw new EdgeError('UNAVAILABLE', 'the store does not answer');
    return { status: 'ok' };
  });

  app.get('/openapi.json', async () => openApiDocument(publicUrl()));

  app.get('/metrics', async (request, reply) => {
    if (!isLocal(request)) {
      const [, key = ''] = (request.headers.authorization ?? '').split(' ');
      const caller = await control.keys.authenticate(key);
      if (!caller)
        throw new EdgeError('UNAUTHENTICATED', "metrics are for this machine or an operator's key");
      if (caller.role !== 'operator')
        throw new EdgeError('PERMISSION_DENIED', "metrics need an operator's key");
    }
    return reply.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });
}

/** From this machine and not through a proxy on it. */
const isLocal = (request: FastifyRequest): boolean =>
  loopback.has(request.ip) && !request.headers['x-forwarded-for'] && !request.headers.forwarded;
