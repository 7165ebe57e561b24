import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { messageOf } from '../lib/errors.ts';
import type { HostRule } from '../lib/host-rules.ts';
import { refuseSmallParts } from '../lib/small-parts.ts';
import { checkedLookup, refuseInnerAddress } from './checked-lookup.ts';
import { HostError } from './host-error.ts';

export interface HostRequestOptions {
  /** Hosts that may have an address of an internal network. */
  readonly innerHosts: readonly HostRule[];
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface HostRequest {
  readonly url: URL;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | string | undefined;
}

/**
 * Sends one request to a host that somebody has chosen, and returns what `read` makes of the reply: inner addresses are
 * refused, redirects are not followed, and the time is bounded. A failure is a `HostError`, whose text names only the host:
 * the rest of the address may be a secret.
 */
export async function requestHost<R>(
  { url, method, headers, body }: HostRequest,
  options: HostRequestOptions,
  read: (reply: IncomingMessage) => Promise<R>,
): Promise<R> {
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
          ...(body !== undefined && { 'content-length': String(Buffer.byteLength(body)) }),
          ...headers,
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
    return await read(reply);
  } catch (error) {
    if (error instanceof HostError) throw error;
    const why = timeout.aborted ? `no complete reply within ${options.timeoutMs / 1000} s` : causeOf(error);
    throw new HostError('unknown', 0, `${url.host}: ${why}`);
  }
}

const causes: Readonly<Record<string, string>> = {
  ENOTFOUND: "the name can't be resolved",
  EAI_AGAIN: "the name can't be resolved now",
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection broke',
  EHOSTUNREACH: 'the host is unreachable',
  ENETUNREACH: 'the network is unreachable',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not trusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not trusted',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
};

function causeOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  const cause = causes[code ?? ''];
  return cause ? `${cause} (${code})` : (code ?? messageOf(error));
}
