import type { RouteContext } from '../context.ts';
import { authenticate } from '../route.ts';

/**
 * MCP over Streamable HTTP, without sessions: every request is complete in itself, so any node can answer it, and the
 * key is checked each time. The server never sends first, so there is no stream to open and no session to delete. The
 * protocol's library is a quarter of the time of a start: it is loaded with the first request.
 */
export function mcpRoutes(context: RouteContext): void {
  const { app } = context;

  app.route({
    method: 'POST',
    url: '/mcp',
    onRequest: authenticate(context, { takesCookies: false }),
    handler: async (request, reply) => (await import('./server.ts')).answer(context, request, reply),
  });

  app.route({
    method: ['GET', 'DELETE'],
    url: '/mcp',
    onRequest: authenticate(context, { takesCookies: false }),
    handler: async (_request, reply) => {
      const error = { code: -32000, message: 'Method not allowed: send requests with POST' };
      return reply.code(405).header('allow', 'POST').send({ jsonrpc: '2.0', error, id: null });
    },
  });
}
