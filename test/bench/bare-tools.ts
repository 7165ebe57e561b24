import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A minimal MCP server with one tool that replies immediately, because Muster's agents have an MCP server too. */
export interface BareTools {
  readonly url: string;
  close(): void;
}

export async function startBareTools(): Promise<BareTools> {
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    const { id, method, params } = JSON.parse(await text(request)) as Call;
    if (id === undefined) return response.writeHead(202).end();
    const result = answers[method]?.(params ?? {}) ?? {};
    response.writeHead(200, { 'content-type': 'application/json' });
    return response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

interface Call {
  readonly id?: number | string;
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

const answers: Readonly<Record<string, (params: Readonly<Record<string, unknown>>) => unknown>> = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'bench', version: '1' },
  }),
  'tools/list': () => ({
    tools: [
      { name: 'ask', description: 'Asks a question.', inputSchema: { type: 'object', properties: {} } },
    ],
  }),
};
