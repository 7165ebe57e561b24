import type { ClientRequest } from 'node:http';
import {
  Agent as HttpAgent,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as requestHttp,
} from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';

/** One hop only (RFC 9110, 7.6.1); `expect` is answered by the server here. */
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

/** The headers of a message that go on to the next hop. */
export function onward(
  message: IncomingMessage,
  isDropped: (name: string, value: string) => boolean,
): OutgoingHttpHeaders {
  const named = (message.headers.connection ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  const kept = Object.entries(message.headers).filter(
    ([name, value]) =>
      value !== undefined && !hopByHop.has(name) && !named.includes(name) && !isDropped(name, String(value)),
  );
  return Object.fromEntries(kept);
}

/**
 * How a request's body ends: as it came, whatever `connection` says of it. Without either framing a body behind a GET
 * would stand on a shared connection as if it were the next request.
 */
export function framing({ headers }: IncomingMessage): OutgoingHttpHeaders {
  if (headers['transfer-encoding'] !== undefined) return { 'transfer-encoding': 'chunked' };
  return headers['content-length'] === undefined ? {} : { 'content-length': headers['content-length'] };
}

/** A host may answer with a status that there is not, and to pass that on would throw. */
export const statusOf = ({ statusCode = 0 }: IncomingMessage): number =>
  statusCode < 200 ? 502 : statusCode;

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

/** The base with a path and query behind it, wherever the base itself ends. */
export function below(base: string, path: string, query: string): URL {
  const url = new URL(base);
  url.pathname = url.pathname.replace(/\/+$/, '') + path;
  url.search = query;
  return url;
}
