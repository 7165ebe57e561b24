import { once } from 'node:events';
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';

const agent = new Agent({ keepAlive: true });

interface Asked {
  readonly method: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | undefined;
  readonly signal?: AbortSignal;
}

/** A request as `fetch` would send it, for thousands of them: it takes half of the processor time. */
export async function ask(url: string, { method, headers, body, signal }: Asked): Promise<IncomingMessage> {
  const length = body !== undefined && { 'content-length': Buffer.byteLength(body) };
  const asking = request(url, {
    method,
    headers: { ...headers, ...length },
    agent,
    ...(signal && { signal }),
  });
  // Of an error behind the head of the reply its reader hears.
  asking.on('error', () => {});
  asking.end(body);
  const [response] = (await once(asking, 'response')) as [IncomingMessage];
  return response;
}
