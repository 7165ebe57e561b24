import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Answer } from './api.ts';

export interface RawRequest {
  readonly method?: string;
  /** Sent as is: neither normalized nor encoded. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** Without a Content-Length. */
  readonly chunked?: boolean;
}

export interface RawAnswer extends Answer<unknown> {
  readonly text: string;
}

/**
 * Sends one request on a new connection, exactly as written: for requests that `fetch` would normalize, and for replies
 * that arrive before the request has been sent completely.
 */
export function sendRaw(url: string, raw: RawRequest): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const body = raw.body === undefined ? undefined : Buffer.from(raw.body);
  return new Promise((resolve, reject) => {
    let answered = false;
    const outgoing = request(
      {
        hostname,
        port,
        agent: false,
        method: raw.method ?? 'POST',
        path: raw.path,
        headers: {
          ...(body && !raw.chunked && { 'content-length': String(body.length) }),
          ...raw.headers,
        },
      },
      async (incoming) => {
        answered = true;
        try {
          const chunks: Buffer[] = [];
          for await (const chunk of incoming) chunks.push(chunk as Buffer);
          const text = Buffer.concat(chunks).toString();
          const headers = new Headers();
          for (const [name, value] of Object.entries(incoming.headers)) {
            if (value !== undefined) headers.set(name, String(value));
          }
          resolve({ status: incoming.statusCode ?? 0, headers, text, body: parsed(text) });
        } catch (error) {
          reject(error);
        }
      },
    );
    // A server that refuses early may close the connection before the body is sent.
    outgoing.on('error', (error) => {
      if (!answered) reject(error);
    });
    outgoing.end(body);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Sends bytes on a socket, and returns everything that arrives until the server closes it. */
export async function sendBytes(url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  socket.on('error', () => {});
  socket.write(bytes);
  await whenClosed(socket);
  return Buffer.concat(chunks).toString();
}

/** Also after an error: `once` of node:events would reject when the server closes before it has read everything. */
export function whenClosed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}
