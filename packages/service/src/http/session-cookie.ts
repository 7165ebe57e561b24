import { limits } from '@muster/sdk/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Principal } from '../control/principal.ts';
import type { RouteContext } from './context.ts';
import { refuseForeignOrigin, schemeOf } from './own-page.ts';

/**
 * The cookie of a browser session.
 *
 * A person has one per browser. A share link has one of its own per session, so that a link neither signs the person
 * out nor shows another link's agent. A page that wants to be sure for whom it acts names its session in the header
 * `Muster-Session`: then only that session's cookie counts, also after somebody else signed in in another tab.
 *
 * Cookies are the same for all ports of a host, so over HTTP their names hold the port. Over HTTPS `__Host-` makes the
 * browser refuse one that another host, or a page without TLS, has set.
 */
const namesAt = (host: string, publicUrl: string) => {
  const { isSecure, port } = schemeOf(host, publicUrl);
  const named = (what: string) => (isSecure ? `__Host-muster-${what}` : `muster-${what}-${port}`);
  return { isSecure, person: named('session'), share: named('share') };
};

/** A browser keeps so many share links; the one that was opened first goes. */
const maxShareCookies = 20;
const maxAgeSeconds = limits.sessionDays * 24 * 3600;

/** The person's session secret in this browser, whoever it belongs to. */
export const personSecret = (request: FastifyRequest, publicUrl: string): string | null =>
  cookiesOf(request).get(namesAt(request.headers.host ?? '', publicUrl).person) ?? null;

/**
 * Who calls by cookie, or null. Everything but a read must come from a page of the service itself: a browser adds a
 * cookie to what any page sends.
 */
export async function callerByCookie(
  { control, publicUrl }: RouteContext,
  request: FastifyRequest,
): Promise<Principal | null> {
  const { host = '', origin } = request.headers;
  const names = namesAt(host, publicUrl());
  const cookies = cookiesOf(request);
  const pinned = request.headers['muster-session'];
  const secret = cookies.get(`${names.share}-${pinned}`) ?? cookies.get(names.person);
  const caller = secret ? await control.browserSessions.authenticate(secret) : null;
  if (!caller || (pinned !== undefined && caller.session !== pinned)) return null;
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (!isRead || origin !== undefined) refuseForeignOrigin(origin, host, publicUrl());
  return caller;
}

export function setSessionCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
  { role, session, secret }: { readonly role: string; readonly session: string; readonly secret: string },
): void {
  const names = namesAt(request.headers.host ?? '', publicUrl);
  if (role !== 'share') return setCookie(reply, names.person, secret, maxAgeSeconds, names.isSecure);
  const shares = [...cookiesOf(request).keys()].filter((name) => name.startsWith(`${names.share}-`));
  // A browser sends the oldest first.
  for (const name of shares.slice(0, Math.max(0, shares.length - maxShareCookies + 1)))
    setCookie(reply, name, '', 0, names.isSecure);
  setCookie(reply, `${names.share}-${session}`, secret, maxAgeSeconds, names.isSecure);
}

export function clearSessionCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
  { role, session }: Pick<Principal, 'role' | 'session'>,
): void {
  const names = namesAt(request.headers.host ?? '', publicUrl);
  setCookie(reply, role === 'share' ? `${names.share}-${session}` : names.person, '', 0, names.isSecure);
}

function setCookie(
  reply: FastifyReply,
  name: string,
  value: string,
  maxAge: number,
  isSecure: boolean,
): void {
  const attributes = [
    'Path=/',
    `Max-Age=${maxAge}`,
    'HttpOnly',
    'SameSite=Lax',
    ...(isSecure ? ['Secure'] : []),
  ];
  reply.header('set-cookie', [`${name}=${value}`, ...attributes].join('; '));
}

/** A name that is sent twice counts for nothing: another page of this host may have added one of them. */
function cookiesOf({ headers: { cookie = '' } }: FastifyRequest): ReadonlyMap<string, string> {
  const cookies = new Map<string, string>();
  const repeated = new Set<string>();
  for (const part of cookie.split(';')) {
    const at = part.indexOf('=');
    const name = part.slice(0, at).trim();
    if (at < 0 || !name.includes('muster-')) continue;
    if (cookies.has(name)) repeated.add(name);
    cookies.set(name, part.slice(at + 1).trim());
  }
  for (const name of repeated) cookies.delete(name);
  return cookies;
}
