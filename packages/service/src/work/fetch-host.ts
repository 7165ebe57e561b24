import type { IncomingMessage } from 'node:http';
import { type HostRequestOptions, requestHost } from './host-request.ts';

export interface FetchHostOptions extends HostRequestOptions {
  readonly mostBytes: number;
}

export interface FetchRequest {
  readonly method?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
}

/** The statuses that a `Response` may not have a body with. */
const withoutBody = [101, 204, 205, 304];

/** `fetch` for a host that somebody has chosen. The size of the reply is bounded, and every failure is a `HostError`. */
export const fetchHost = (
  address: string | URL,
  { method = 'GET', headers = {}, body }: FetchRequest,
  options: FetchHostOptions,
): Promise<Response> =>
  requestHost({ url: new URL(address), method, headers, body }, options, async (reply) => {
    const bytes = await bytesOf(reply, options.mostBytes);
    const status = reply.statusCode ?? 502;
    const shownHeaders = new Headers();
    for (const [name, value] of Object.entries(reply.headers))
      if (value !== undefined) shownHeaders.set(name, [value].flat().join(', '));
    return new Response(withoutBody.includes(status) ? null : bytes, { status, headers: shownHeaders });
  });

async function bytesOf(reply: IncomingMessage, mostBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of reply as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw new Error(`the reply has more than ${mostBytes} bytes`);
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}
