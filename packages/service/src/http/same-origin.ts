import type { FastifyRequest } from 'fastify';
import { HttpError } from './errors.ts';

const loopbackNames = new Set(['localhost', '127.0.0.1', '[::1]']);
const hostForm = /^[\w.:[\]-]+$/;

/**
 * A request without a key must come from one of the service's own pages. `Host` shows that the page was loaded under
 * the service's own name, and not under a name that someone else's DNS points here (DNS rebinding). `Origin` shows that
 * this page sent the request. No page can set either header.
 */
export function refuseOtherPage({ headers: { host = '', origin } }: FastifyRequest, publicUrl: string): void {
  const address = addressOf(host, publicUrl);
  if (!address?.isPublic && !address?.isLoopback)
    throw denied('Host', 'is neither a loopback name nor the host of the public URL', 'set');
  refuseOtherOrigin(origin, host, publicUrl);
}

/**
 * A browser adds the cookie to requests of any page, so the request must come from the page that the cookie is for.
 * That page's name is the one in `Host`, whatever it is: a browser sends a cookie only to the name that set it.
 */
export function refuseOtherOrigin(origin: string | undefined, host: string, publicUrl: string): void {
  const origins = addressOf(host, publicUrl)?.origins ?? [];
  if (origin === undefined || !origins.includes(origin))
    throw denied(
      'Origin',
      origin === undefined ? 'is missing' : `is not ${origins.join(' or ')}`,
      'behind a proxy, let it forward Host, and set',
    );
}

const denied = (header: string, problem: string, remedy: string): HttpError =>
  new HttpError(
    'PERMISSION_DENIED',
    `the header ${header} ${problem}, and only a page of this service may do this: ${remedy} MUSTER_PUBLIC_URL to the address of the page`,
  );

interface Address {
  readonly isLoopback: boolean;
  /** Whether the host is that of the public URL. */
  readonly isPublic: boolean;
  /** Whether pages of this host are loaded over HTTPS. */
  readonly isSecure: boolean;
  readonly port: string;
  /** The origins that a page loaded from this host can have. */
  readonly origins: readonly string[];
}

/** What a `Host` header says about the page that sends it. */
export function addressOf(host: string, configuredUrl: string): Address | null {
  if (!hostForm.test(host) || !URL.canParse(`http://${host}`)) return null;
  const local = new URL(`http://${host}`);
  const configured = URL.canParse(configuredUrl) ? new URL(configuredUrl) : null;
  const publicUrl =
    configured && new URL(`${configured.protocol}//${host}`).host === configured.host ? configured : null;
  const isLoopback = loopbackNames.has(local.hostname);
  const origins = [!publicUrl || isLoopback ? local.origin : [], publicUrl?.origin ?? []].flat();
  return {
    isLoopback,
    isPublic: publicUrl !== null,
    isSecure: publicUrl?.protocol === 'https:',
    port: local.port || '80',
    origins: [...new Set(origins)],
  };
}
