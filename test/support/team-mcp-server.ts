import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { png } from './images.ts';

export interface TeamMcpServer {
  readonly url: string;
  /** Method and headers of every request. */
  readonly seen: readonly Pick<IncomingMessage, 'method' | 'headers' | 'url'>[];
  close(): void;
}

/**
 * A remote MCP server of a team, with sessions and event streams. It accepts only this authorization. Its tool `lookup`
 * repeats the headers that it got; `remove` has to be approved in a client that asks for approvals.
 */
export async function startTeamMcpServer(authorization: string): Promise<TeamMcpServer> {
  const seen: Pick<IncomingMessage, 'method' | 'headers' | 'url'>[] = [];
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const server = createServer(async (request, response) => {
    seen.push({ method: request.method, headers: request.headers, url: request.url });
    if (request.headers.authorization !== authorization)
      return void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end('wrong key');
    const session = sessions.get(String(request.headers['mcp-session-id']));
    await (session ?? (await newSession())).handleRequest(request, response);
  });

  async function newSession(): Promise<StreamableHTTPServerTransport> {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    const tools = new Server({ name: 'team', version: '1' }, { capabilities: { tools: {} } });
    const inputSchema = { type: 'object', properties: { word: { type: 'string' } } } as const;
    tools.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: [
        { name: 'lookup', inputSchema },
        { name: 'remove', inputSchema, annotations: { destructiveHint: true, openWorldHint: true } },
      ],
    }));
    tools.setRequestHandler(CallToolRequestSchema, ({ params }, { requestInfo }) => {
      const { authorization: given, 'x-team': team } = requestInfo?.headers ?? {};
      const text = `${params.name} ${params.arguments?.word}: got ${given} of ${team}`;
      return { content: [{ type: 'text', text }] };
    });
    await tools.connect(transport as Transport);
    return transport;
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/team/mcp?tenant=7`,
    seen,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** A local server, as a file of a repository: its tool reports what it was started with, and two images. */
export const localMcpServer = `
import { createInterface } from 'node:readline';
const pixel = Buffer.from('${png().toString('base64')}', 'base64');
const reply = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  const { TOKEN, MODE, TEAM, HTTPS_PROXY } = process.env;
  // The second image contains the secret.
  const images = ['', TOKEN].map((end) => Buffer.concat([pixel, Buffer.from(end)]).toString('base64'));
  const given = { args: process.argv.slice(2), TOKEN, MODE, TEAM, proxied: HTTPS_PROXY !== undefined, cwd: process.cwd() };
  if (method === 'initialize')
    reply(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'local', version: '1' } });
  else if (method === 'tools/list')
    reply(id, { tools: [{ name: 'measure', description: 'Measures.', inputSchema: { type: 'object' } }] });
  else if (method === 'tools/call') reply(id, { content: [{ type: 'text', text: JSON.stringify(given) }, ...images.map((data) => ({ type: 'image', mimeType: 'image/png', data }))] });
  else if (id !== undefined) reply(id, {});
});`;
