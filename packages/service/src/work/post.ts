import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { messageOf } from '../lib/errors.ts';
import type { HostRule } from '../lib/host-rules.ts';
import { refuseSmallParts } from '../lib/small-parts.ts';
import { checkedLookup, refuseInnerAddress } from './checked-lookup.ts';
import { type Headers, HostError } from './host-error.ts';
import { retryAfterMs } from './http-client.ts';

export interface PostOptions {
  /** Hosts that may have an address of an internal network. */
  readonly innerHosts: readonly HostRule[];
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface Post {
  readonly url: URL;
  readonly headers: Record<string, string>;
  readonly body: Buffer | string;
}

/** Of a reply, more is not read. */
const mostReplyBytes = 4 * 1024;
const mostSaidLength = 200;

/**
 * Sends a body to an address that somebody has chosen, once. Redirects are not followed. Every failure is a `HostError`;
 * its text names the host only, because the rest of the address may be a secret.
 */
export async function post({ url, headers, body }: Post, options: PostOptions): Promise<void> {
  const isSecure = url.protocol === 'https:';
  const target = { host: url.hostname, port: Number(url.port || (isSecure ? 443 : 80)) };
  refuseInnerAddress(target, options.innerHosts);
  const timeout = AbortSignal.timeout(options.timeoutMs);
  try {
    const reply = await new Promise<IncomingMessage>((resolve, reject) => {
      const sending = (isSecure ? requestHttps : requestHttp)(url, {
        method: 'POST',
        agent: false,
        headers: { 'user-agent': 'muster', 'content-length': String(Buffer.byteLength(body)), ...headers },
        lookup: checkedLookup(target, options.innerHosts),
        signal: AbortSignal.any([options.signal, timeout]),
      });
      // Later errors end the read of the reply.
      sending.on('error', reject);
      sending.on('response', resolve);
      sending.end(body);
    });
    refuseSmallParts(reply);
    const text = await beginningOf(reply);
    const { statusCode: status = 0 } = reply;
    if (status < 200 || status >= 300) throw failure(url, status, reply.headers as Headers, text);
  } catch (error) {
    if (error instanceof HostError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    const why = timeout.aborted
      ? `no complete reply within ${options.timeoutMs / 1000} s`
      : (code ?? messageOf(error));
    throw new HostError('unknown', 0, `${url.host}: ${why}`);
  }
}

async function beginningOf(reply: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of reply as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= mostReplyBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, mostReplyBytes).toString();
}

/** A redirect stays one. All else may be different the next time. */
function failure({ host }: URL, status: number, headers: Headers, said: string): HostError {
  if (status >= 300 && status < 400)
    return new HostError('refused', status, `${host} answered ${status}: redirects are not followed`);
  const waitMs = retryAfterMs(headers);

  const line = said
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .slice(0, mostSaidLength);
  const text = `${host} answered ${status}${line && `: ${line}`}`;
  return new HostError(waitMs > 0 ? 'limited' : 'unknown', status, text, waitMs);
}
