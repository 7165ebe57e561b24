import { type IncomingMessage, maxHeaderSize, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { envelope } from './errors.ts';

/** Requests that never become one of ours: Node can't read them, or would refuse them by itself. */

/** A reply on the bare socket. One that has already begun on it can't be followed by another. */
export function refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  const { _httpMessage: begun } = socket as Socket & { _httpMessage?: ServerResponse | null };
  if (error.code === 'ECONNRESET' || !socket.writable || begun?.headersSent) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify(envelope('INVALID_ARGUMENT', describe(error.code ?? '')));
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

function describe(code: string): string {
  if (code === 'HPE_HEADER_OVERFLOW') return `the headers must be at most ${maxHeaderSize / 1024} KiB`;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'the request did not arrive in time';
  return 'the request is not valid HTTP/1.1';
}

export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const body = JSON.stringify(envelope('INVALID_ARGUMENT', 'Expect: only 100-continue is known'));
  response
    .writeHead(400, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      connection: 'close',
    })
    .end(body);
}
