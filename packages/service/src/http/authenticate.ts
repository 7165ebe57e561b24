import { limits } from '@muster/sdk/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Principal } from '../control/access/principal.ts';
import type { RouteContext } from './context.ts';
import { HttpError } from './errors.ts';
import { addressOf, refuseOtherOrigin } from './same-origin.ts';

/** The bearer key of a request, or an empty text. A key has no spaces, so nothing may follow it. */
export function bearerOf({ headers }: FastifyRequest): string {
  return /^bearer ([^ ]*) *$/i.exec(headers.authorization ?? '')?.[1] ?? '';
}

/**
 * Sets the caller of a request, or fails with 401, or 429 when the key exceeds its rate limit. A cookie counts only
 * without an Authorization header, and never on routes for machines.
 */
export const authenticate =
  (context: RouteContext, { takesCookies }: { readonly takesCookies: boolean }) =>
  async (request: FastifyRequest): Promise<void> => {
    const hasKey = request.headers.authorization !== undefined || !takesCookies;
    const caller = hasKey
      ? await context.control.keys.authenticate(bearerOf(request))
      : await callerByCookie(context, request);
    if (!caller) {
      throw new HttpError(
        'UNAUTHENTICATED',
        'send a valid key: Authorization: Bearer mst_<key_id>.<secret>',
        [],
        { 'www-authenticate': 'Bearer' },
      );
    }
    request.caller = caller;
    limitRate(context, caller);
  };

/** After the caller is known, and before the body is read. */
export const countBody =
  ({ openBodies }: RouteContext) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<void> =>
    openBodies.open(request, reply);

export function limitRate({ limiter }: RouteContext, { keyId }: Principal): void {
  const waitSeconds = limiter.take(keyId);
  if (waitSeconds <= 0) return;
  throw new HttpError('RESOURCE_EXHAUSTED', 'this key sends too many requests', [], {
    'retry-after': String(Math.max(1, Math.ceil(waitSeconds))),
  });
}

/**
 * The names of the session cookies.
 *
 * A person has one cookie per browser. A share link has one per session, so that opening a link neither signs the
 * person out nor shows the agent of another link. A page can name its session in the header `Muster-Session`: then only
 * the cookie of that session counts, even after another person signed in in another tab.
 *
 * Cookies are shared by all ports of a host, so over HTTP their names include the port. Over HTTPS the prefix `__Host-`
 * makes the browser reject one that another host, or a page without TLS, has set.
 */
const cookieNames = (host: string, publicUrl: string) => {
  const { isSecure = false, port = '80' } = addressOf(host, publicUrl) ?? {};
  const named = (kind: string) => (isSecure ? `__Host-muster-${kind}` : `muster-${kind}-${port}`);
  return { isSecure, person: named('session'), share: named('share'), flow: named('sign-in') };
};

/** The most share links that a browser keeps; a new one replaces the oldest. */
const maxShareCookies = 20;
const maxAgeSeconds = limits.sessionDays * 24 * 3600;
const flowSeconds = limits.signInMinutes * 60;

/** The secret of the person's session in this browser. */
export const personSecret = (request: FastifyRequest, publicUrl: string): string | null =>
  cookiesOf(request).get(cookieNames(request.headers.host ?? '', publicUrl).person) ?? null;

/**
 * The caller of a request with a session cookie, or null. Everything but a read must come from the service's own page,
 * because a browser adds the cookie to requests of any page.
 */
async function callerByCookie(
  { control, publicUrl }: RouteContext,
  request: FastifyRequest,
): Promise<Principal | null> {
  const { host = '', origin } = request.headers;
  const names = cookieNames(host, publicUrl());
  const cookies = cookiesOf(request);
  const pinned = request.headers['muster-session'];
  const secret = cookies.get(`${names.share}-${pinned}`) ?? cookies.get(names.person);
  const caller = secret ? await control.browserSessions.authenticate(secret) : null;
  if (!caller || (pinned !== undefined && caller.session !== pinned)) return null;
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (!isRead || origin !== undefined) refuseOtherOrigin(origin, host, publicUrl());
  return caller;
}

export function setSessionCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
  { role, session, secret }: { readonly role: string; readonly session: string; readonly secret: string },
): void {
  const names = cookieNames(request.headers.host ?? '', publicUrl);
  if (role !== 'share') return setCookie(reply, names.isSecure, names.person, secret);
  const shares = [...cookiesOf(request).keys()].filter((name) => name.startsWith(`${names.share}-`));
  // Browsers send the oldest cookie first.
  for (const name of shares.slice(0, Math.max(0, shares.length - maxShareCookies + 1)))
    setCookie(reply, names.isSecure, name, '');
  setCookie(reply, names.isSecure, `${names.share}-${session}`, secret);
}

export function clearSessionCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
  { role, session }: Pick<Principal, 'role' | 'session'>,
): void {
  const names = cookieNames(request.headers.host ?? '', publicUrl);
  setCookie(reply, names.isSecure, role === 'share' ? `${names.share}-${session}` : names.person, '');
}

/** What the browser keeps while it is at a provider to sign in. */
export const flowCookie = (request: FastifyRequest, publicUrl: string): string | null =>
  cookiesOf(request).get(cookieNames(request.headers.host ?? '', publicUrl).flow) ?? null;

export function setFlowCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
  value: string,
): void {
  const { isSecure, flow } = cookieNames(request.headers.host ?? '', publicUrl);
  setCookie(reply, isSecure, flow, value, flowSeconds);
}

/** An empty value deletes the cookie. */
function setCookie(
  reply: FastifyReply,
  isSecure: boolean,
  name: string,
  value: string,
  lastsSeconds = maxAgeSeconds,
): void {
  const maxAge = value ? lastsSeconds : 0;
  const attributes = `Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
  reply.header('set-cookie', `${name}=${value}; ${attributes}`);
}

/** A cookie that is sent twice is ignored: another page of this host may have added one of the two. */
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
