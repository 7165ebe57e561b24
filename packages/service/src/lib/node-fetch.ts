import { once } from 'node:events';
import { Agent, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps, Agent as SecureAgent } from 'node:https';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

/**
 * An idle connection is closed after four seconds. When a network drops connections without a word, a request on each of
 * them would time out before a new one is made.
 */
const options = { keepAlive: true, timeout: 4_000 };
const agent = new Agent(options);
const secureAgent = new SecureAgent(options);

/** The parts of a response that the SDK's client uses. */
type Reply = Pick<Response, 'ok' | 'status' | 'text' | 'body'> & { readonly headers: Pick<Headers, 'get'> };

/**
 * `fetch` for the SDK's client, with node:http: Node's own `fetch` takes twice the processor time per call. It follows no
 * redirects and supports only what that client uses.
 */
export const nodeFetch = (async (url: string, init: RequestInit): Promise<Reply> => {
  const isSecure = url.startsWith('https:');
  const body = init.body as string | undefined;
  const asking = (isSecure ? requestHttps : requestHttp)(url, {
    method: init.method ?? 'GET',
    agent: isSecure ? secureAgent : agent,
    headers: {
      ...(init.headers as Record<string, string>),
      ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
    },
    ...(init.signal && { signal: init.signal }),
  });
  // An error after the response headers rejects the read of the body.
  asking.on('error', () => {});
  asking.end(body);
  try {
    const [reply] = (await once(asking, 'response')) as [IncomingMessage];
    return replyOf(reply);
  } catch (error) {
    throw new TypeError('fetch failed', { cause: error });
  }
}) as unknown as typeof fetch;

function replyOf(incoming: IncomingMessage): Reply {
  const { statusCode: status = 0, headers } = incoming;
  return {
    ok: status >= 200 && status < 300,
    status,
    headers: { get: (name) => headers[name]?.toString() ?? null },
    text: () => text(incoming),
    get body() {
      return Readable.toWeb(incoming) as Response['body'];
    },
  };
}
