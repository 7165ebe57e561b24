import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import type { Invocation } from '../invocation.ts';

/** The service's MCP over standard input and output: every message goes on as it is, in both directions. */
export async function run({ connection, signal, output }: Invocation): Promise<void> {
  const { url, apiKey } = connection();
  const service = new StreamableHTTPClientTransport(new URL('/mcp', url), {
    requestInit: { headers: { authorization: `Bearer ${apiKey}` } },
  });
  const client = new StdioServerTransport();
  const underWay = new Set<Promise<void>>();
  const ended = new Promise<void>((resolve) => {
    process.stdin.once('end', resolve);
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  const complain = (error: Error): void => output.note(`muster: ${error.message}`);
  client.onmessage = (message) => {
    const passed: Promise<void> = service
      .send(message)
      .catch(async (error: Error) => {
        complain(error);
        if (!('id' in message) || !('method' in message)) return;
        const failure = { code: -32_000, message: error.message };
        await client.send({ jsonrpc: '2.0', id: message.id, error: failure });
      })
      .finally(() => underWay.delete(passed));
    underWay.add(passed);
  };
  service.onmessage = (message) => {
    client.send(message).catch(complain);
  };
  await service.start();
  await client.start();
  await ended;
  // Whoever pipes its questions in and is done with asking still wants the answers.
  if (!signal.aborted) await Promise.all(underWay);
  await service.close();
}
