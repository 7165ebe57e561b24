import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { messageOf } from '../lib/errors.ts';
import type { HostRule } from '../lib/host-rules.ts';
import { refuseSmallParts } from '../lib/small-parts.ts';
import { checkedLookup, refuseInnerAddress } from './checked-lookup.ts';
import { HostError } from './host-error.ts';

export interface FetchHostOptions {
  /** Hosts that may have an address of an internal network. */
  readonly innerHosts: readonly HostRule[];
  readonly timeoutMs: number;
  readonly mostBytes: number;
  readonly signal: AbortSignal;
}

export interface FetchRequest {
  readonly method?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
}

/** The statuses that a `Response` may not have a body with. */
const withoutBody = [101, 204, 205, 304];

/**
 * `fetch` for a host that somebody has chosen: inner addresses are refused, redirects are not followed, and the time and
 * the size of the reply are bounded. A failure is a `HostError`, whose text names only the host: the rest of the address may
 * be a secret.
 */
export async function fetchHost(
  address: string | URL,
  { method = 'GET', headers = {}, body }: FetchRequest,
  options: FetchHostOptions,
): Promise<Response> {
  const url = new URL(address);
  const isSecure = url.protocol === 'https:';
  const target = { host: url.hostname, port: Number(url.port || (isSecure ? 443 : 80)) };
  refuseInnerAddress(target, options.innerHosts);
  const timeout = AbortSignal.timeout(options.timeoutMs);
  try {
    const reply = await new Promise<IncomingMessage>((resolve, reject) => {
      const sending = (isSecure ? requestHttps : requestHttp)(url, {
        method,
        agent: false,
        headers: {
          'user-agent': 'muster',
          ...headers,
          ...(body !== undefined && { 'content-length': String(Buffer.byteLength(body)) }),
        },
        lookup: checkedLookup(target, options.innerHosts),
        signal: AbortSignal.any([options.signal, timeout]),
      });
      // Later errors end the read of the reply.
      sending.on('error', reject);
      sending.on('response', resolve);
      sending.end(body);
    });
    refuseSmallParts(reply);
    const bytes = await bytesOf(reply, options.mostBytes);
    const status = reply.statusCode ?? 502;
    const shownHeaders = new Headers();
    for (const [name, value] of Object.entries(reply.headers))
      if (value !== undefined) shownHeaders.set(name, [value].flat().join(', '));
    return new Response(withoutBody.includes(status) ? null : bytes, { status, headers: shownHeaders });
  } catch (error) {
    if (error instanceof HostError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    const why = timeout.aborted
      ? `no complete reply within ${options.timeoutMs / 1000} s`
      : (code ?? messageOf(error));
    throw new HostError('unknown', 0, `${url.host}: ${why}`);
  }
}

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
