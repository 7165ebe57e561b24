import type { FastifyRequest } from 'fastify';
import { EdgeError } from './errors.ts';

const loopbackNames = new Set(['localhost', '127.0.0.1', '[::1]']);
const hostForm = /^[\w.:[\]-]+$/;

/**
 * What has no key may be asked by the service's own pages alone. `Host` tells whether the page was loaded under a name
 * that is ours, and not one that somebody else's name server leads here (DNS rebinding); `Origin` tells that the page
 * which asks is that one. A browser lets no page choose either.
 */
export function refuseForeignPage(
  { headers: { host = '', origin } }: FastifyRequest,
  publicUrl: string,
): void {
  const place = placeOf(host, publicUrl);
  if (!place || (!place.isPublic && !loopbackNames.has(place.local.hostname)))
    throw denied('Host', 'is neither a loopback name nor the host of the public URL', 'set');
  refuseForeignOrigin(origin, host, publicUrl);
}

/**
 * A cookie is sent by the browser, whichever page asks; so its request must come from the page that the cookie is for.
 * That page has the name in `Host`, whatever the name is: a cookie goes only to the name that set it, so there is none
 * for a page of another name that leads here.
 */
export function refuseForeignOrigin(origin: string | undefined, host: string, publicUrl: string): void {
  const origins = ownOrigins(host, publicUrl);
  if (origin === undefined || !origins.includes(origin))
    throw denied(
      'Origin',
      `is ${origin === undefined ? 'missing' : `not ${origins.join(' or ')}`}`,
      'behind a proxy, let it pass Host on, and set',
    );
}

const denied = (header: string, what: string, remedy: string): EdgeError =>
  new EdgeError(
    'PERMISSION_DENIED',
    `the header ${header} ${what}, and only a page of this service may do this: ${remedy} MUSTER_PUBLIC_URL to the address of the page`,
  );

interface Place {
  readonly local: URL;
  readonly known: URL | null;
  /** Whether the host is that of the public URL. */
  readonly isPublic: boolean;
}

function placeOf(host: string, publicUrl: string): Place | null {
  if (!hostForm.test(host) || !URL.canParse(`http://${host}`)) return null;
  const local = new URL(`http://${host}`);
  const known = URL.canParse(publicUrl) ? new URL(publicUrl) : null;
  return {
    local,
    known,
    isPublic: known !== null && new URL(`${known.protocol}//${host}`).host === known.host,
  };
}

/** Which origins a page has that was loaded from this host. */
function ownOrigins(host: string, publicUrl: string): string[] {
  const place = placeOf(host, publicUrl);
  if (!place) return [];
  const { local, known, isPublic } = place;
  const isLocal = !isPublic || loopbackNames.has(local.hostname);
  return [...new Set([...(isLocal ? [local.origin] : []), ...(isPublic && known ? [known.origin] : [])])];
}

/** The host that a request was sent to, if that is a loopback name. */
export const isLoopbackHost = (host: string): boolean =>
  loopbackNames.has(placeOf(host, '')?.local.hostname ?? '');

/** Whether pages of this host are loaded over HTTPS, and at which port over HTTP. */
export function schemeOf(
  host: string,
  publicUrl: string,
): { readonly isSecure: boolean; readonly port: string } {
  const place = placeOf(host, publicUrl);
  return {
    isSecure: place?.isPublic === true && place.known?.protocol === 'https:',
    port: place?.local.port || '80',
  };
}
