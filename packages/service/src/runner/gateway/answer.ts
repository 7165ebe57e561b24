import type { ServerResponse } from 'node:http';

export function answer(
  response: ServerResponse,
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = JSON.stringify({ error: { message } });
  response.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(body);
}
