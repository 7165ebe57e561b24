import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Agent as HttpAgent, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { pipeline } from 'node:stream';

/** Headers of one connection only (RFC 9110, 7.6.1). The gateway's own server answers `expect`. */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'host',
]);

/** The headers of a message to forward. */
export function forwardedHeaders(
  message: IncomingMessage,
  isAllowed: (name: string, value: string) => boolean = () => true,
): OutgoingHttpHeaders {
  const ofConnection = (message.headers.connection ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  const isForwarded = ([name, value]: [string, unknown]): boolean =>
    value !== undefined &&
    !hopByHop.has(name) &&
    !ofConnection.includes(name) &&
    isAllowed(name, String(value));
  return Object.fromEntries(Object.entries(message.headers).filter(isForwarded));
}

/**
 * How a request's body is framed: as it was received, whatever `connection` says. Without either header the body of a
 * GET would be read as the next request of a shared connection.
 */
export function framingHeaders({ headers }: IncomingMessage): OutgoingHttpHeaders {
  if (headers['transfer-encoding'] !== undefined) return { 'transfer-encoding': 'chunked' };
  return headers['content-length'] === undefined ? {} : { 'content-length': headers['content-length'] };
}

/** A host may answer with an invalid status, which Node refuses to send. */
export const statusOf = ({ statusCode = 0 }: IncomingMessage): number =>
  statusCode < 200 ? 502 : statusCode;

/** Forwards the body of a request, or another one, and the answer unchanged. `refuse` answers when there is none. */
export function forward(
  request: IncomingMessage,
  outgoing: ClientRequest,
  response: ServerResponse,
  refuse: (error: NodeJS.ErrnoException) => void,
  body?: Buffer,
): void {
  response.once('close', () => outgoing.destroy());
  outgoing.on('error', (error) => {
    request.unpipe().resume();
    if (response.headersSent) response.destroy();
    else refuse(error);
  });
  outgoing.once('response', (answer) => {
    response.writeHead(statusOf(answer), forwardedHeaders(answer)).flushHeaders();
    pipeline(answer, response, () => {});
  });
  if (body) outgoing.end(body);
  else request.pipe(outgoing);
}

/** Connections to the providers and to the service are kept open between requests and shared by all runs. */
const httpAgent = new HttpAgent({ keepAlive: true });
const httpsAgent = new HttpsAgent({ keepAlive: true });

export const requestUpstream = (url: URL, method: string, headers: OutgoingHttpHeaders): ClientRequest =>
  url.protocol === 'https:'
    ? requestHttps(url, { method, headers, agent: httpsAgent })
    : requestHttp(url, { method, headers, agent: httpAgent });

/** A path and query below a base URL, which may have a path itself. */
export function joinUrl(base: string, path: string, query: string): URL {
  const url = new URL(base);
  url.pathname = url.pathname.replace(/\/+$/, '') + path;
  url.search = query;
  return url;
}
