import type { IncomingMessage } from 'node:http';
import { type Headers, HostError } from './host-error.ts';
import { type HostRequestOptions, requestHost } from './host-request.ts';
import { retryAfterMs } from './http-client.ts';

export interface Post {
  readonly url: URL;
  readonly headers: Record<string, string>;
  readonly body: Buffer | string;
}

/** Of a reply, more is not read. */
const mostReplyBytes = 4 * 1024;
const mostSaidLength = 200;

/** Sends a body to an address that somebody has chosen, once. Every failure is a `HostError`. */
export const post = ({ url, headers, body }: Post, options: HostRequestOptions): Promise<void> =>
  requestHost({ url, method: 'POST', headers, body }, options, async (reply) => {
    const text = await beginningOf(reply);
    const { statusCode: status = 0 } = reply;
    if (status < 200 || status >= 300) throw failure(url, status, reply.headers as Headers, text);
  });

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
