import { type Tenant, tenantNamed } from '@muster/sdk/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { flowCookie, personSecret, setFlowCookie, setSessionCookie } from '../authenticate.ts';
import type { RouteContext } from '../context.ts';
import { HttpError } from '../errors.ts';
import { serve } from '../route.ts';
import { addressOf } from '../same-origin.ts';
import { securityHeaders } from './pages.ts';

interface StepRequest {
  Params: { readonly provider: string; readonly org: string; readonly name: string };
  Querystring: { readonly return?: unknown; readonly at?: unknown };
}

const steps = '/:provider/:org/:name';
const mostReturnLength = 2_048;

/**
 * Signing in with a provider: pages of the browser, without a key. What lies between start and callback is in a sealed
 * cookie, so any node can complete a sign-in, and only in the browser that started it.
 */
export function providerRoutes(context: RouteContext): void {
  const { app, signIns, publicUrl, installation } = context;

  serve(context, 'signInProviders', async ({ body }) => {
    const { provider, org } = body.tenant ?? {};
    const tenant = provider && org ? { provider, org } : null;
    return { ...(await signIns.providers(tenant, body.refusal ?? '')), installation };
  });

  app.get<StepRequest>(`/sign-in/start${steps}`, async (request, reply) => {
    const elsewhere = otherAddress(request, publicUrl());
    if (elsewhere) return redirect(reply, elsewhere);
    // Another site may lead here, but not sign anybody in: the person decides on the page.
    if (request.headers['sec-fetch-site'] === 'cross-site')
      return redirect(reply, pageOf(request, publicUrl()));
    const returnPath = dashboardPath(request.query.return);
    const started = await signIns.start(tenantOf(request), request.params.name, returnPath);
    if ('refused' in started) return redirect(reply, pageOf(request, publicUrl(), started.refused));
    setFlowCookie(request, reply, publicUrl(), started.cookie);
    return redirect(reply, started.url);
  });

  app.get<StepRequest>(`/sign-in/callback${steps}`, async (request, reply) => {
    const cookie = flowCookie(request, publicUrl()) ?? '';
    setFlowCookie(request, reply, publicUrl(), '');
    const { search } = new URL(request.url, 'http://callback');
    const finished = await signIns.finish(tenantOf(request), request.params.name, search, cookie);
    if ('refused' in finished) return redirect(reply, pageOf(request, publicUrl(), finished.refused));
    await openSession(context, request, reply, finished.keyId);
    return redirect(reply, `${publicUrl()}${finished.returnPath}`);
  });
}

async function openSession(
  { control, publicUrl }: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  keyId: string,
): Promise<void> {
  const caller = await control.keys.find(keyId);
  const before = personSecret(request, publicUrl());
  const opened =
    caller && (await control.browserSessions.open(caller, request.headers['user-agent'] ?? '', before));
  if (!opened) throw new HttpError('UNAUTHENTICATED', 'the account was disabled meanwhile');
  const { secret, session } = opened;
  setSessionCookie(request, reply, publicUrl(), { role: caller.role, session: session.id, secret });
}

/** The provider's answer goes to the public address, so the cookie must be set there. */
function otherAddress(request: FastifyRequest<StepRequest>, publicUrl: string): string | null {
  if (addressOf(request.headers.host ?? '', publicUrl)?.isPublic) return null;
  if (request.query.at === 'public')
    throw new HttpError(
      'FAILED_PRECONDITION',
      `the host of this page is not that of the public URL, ${publicUrl}: behind a proxy, let it forward Host, and set MUSTER_PUBLIC_URL to the address of the page`,
    );
  const url = new URL(request.url, publicUrl);
  url.searchParams.set('at', 'public');
  return `${publicUrl}${url.pathname}${url.search}`;
}

function tenantOf({ params }: FastifyRequest<StepRequest>): Tenant {
  return tenantNamed(`${params.provider}/${params.org}`) ?? { provider: 'PROVIDER_UNSPECIFIED', org: '' };
}

/** The sign-in page of the tenant, which shows why a sign-in was refused. */
function pageOf(request: FastifyRequest<StepRequest>, publicUrl: string, refusal = ''): string {
  const { provider, org } = request.params;
  const query = new URLSearchParams({ tenant: `${provider}/${org}` });
  return `${publicUrl}/sign-in?${query}${refusal && `#refusal=${refusal}`}`;
}

/** A path of this service; anything else leads to the first page. */
export function dashboardPath(wanted: unknown): string {
  if (typeof wanted !== 'string' || wanted.length > mostReturnLength || !URL.canParse(wanted, 'http://page'))
    return '/';
  const { origin, pathname, search, hash } = new URL(wanted, 'http://page');
  const isOwn = wanted.startsWith('/') && origin === 'http://page' && !pathname.startsWith('//');
  return isOwn && !pathname.startsWith('/sign-in') ? `${pathname}${search}${hash}` : '/';
}

const redirect = (reply: FastifyReply, address: string): FastifyReply =>
  reply.headers({ ...securityHeaders, 'cache-control': 'no-store' }).redirect(address, 303);
