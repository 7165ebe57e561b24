import type { FastifyRequest } from 'fastify';
import { EdgeError } from './errors.ts';

const loopbackNames = new Set(['localhost', '127.0.0.1', '[::1]']);
const hostForm = /^[\w.:[\]-]+$/;

/**
 * What has no key may be asked by the service's own pages alone. `Host` tells whether the page was loaded under a name
 * that is ours, and not one that somebody else's name server leads here (DNS rebinding); `Origin` tells that the page
 * which asks is that one. A browser lets no page choose either.
 */
export const refuseForeignPage =
  (publicUrl: () => string) =>
  async ({ headers: { host = '', origin } }: FastifyRequest): Promise<void> => {
    const origins = ownOrigins(host, publicUrl());
    if (origins.length === 0)
      throw denied('Host', 'is neither a loopback name nor the host of the public URL', 'set');
    if (origin === undefined || !origins.includes(origin))
      throw denied(
        'Origin',
        `is ${origin === undefined ? 'missing' : `not ${origins.join(' or ')}`}`,
        'behind a proxy, let it pass Host on, and set',
      );
  };

/** The host that a request was sent to, if that is a loopback name. */
export const isLoopbackHost = (host: string): boolean =>
  hostForm.test(host) &&
  URL.canParse(`http://${host}`) &&
  loopbackNames.has(new URL(`http://${host}`).hostname);

const denied = (header: string, what: string, remedy: string): EdgeError =>
  new EdgeError(
    'PERMISSION_DENIED',
    `the header ${header} ${what}, and only a page of this service may do this: ${remedy} MUSTER_PUBLIC_URL to the address of the page`,
  );

/** Which origins a page has that was loaded from this host; none, if the host is not ours. */
function ownOrigins(host: string, publicUrl: string): string[] {
  if (!hostForm.test(host) || !URL.canParse(`http://${host}`)) return [];
  const local = new URL(`http://${host}`);
  const known = URL.canParse(publicUrl) ? new URL(publicUrl) : null;
  const isPublic = known !== null && new URL(`${known.protocol}//${host}`).host === known.host;
  return [
    ...new Set([
      ...(loopbackNames.has(local.hostname) ? [local.origin] : []),
      ...(isPublic ? [known.origin] : []),
    ]),
  ];
}
