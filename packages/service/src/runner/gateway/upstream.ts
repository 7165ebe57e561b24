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

/** Forwards an answer unchanged. */
export function forwardAnswer(answer: IncomingMessage, response: ServerResponse): void {
  response.writeHead(statusOf(answer), forwardedHeaders(answer)).flushHeaders();
  pipeline(answer, response, () => {});
}

/** Connections to the providers and to the service, kept open between requests and shared by all runs. */
export class Upstream {
  readonly #http = new HttpAgent({ keepAlive: true });
  readonly #https = new HttpsAgent({ keepAlive: true });

  request(url: URL, method: string, headers: OutgoingHttpHeaders): ClientRequest {
    return url.protocol === 'https:'
      ? requestHttps(url, { method, headers, agent: this.#https })
      : requestHttp(url, { method, headers, agent: this.#http });
  }
}

/** A path and query below a base URL, which may have a path itself. */
export function joinUrl(base: string, path: string, query: string): URL {
  const url = new URL(base);
  url.pathname = url.pathname.replace(/\/+$/, '') + path;
  url.search = query;
  return url;
}
