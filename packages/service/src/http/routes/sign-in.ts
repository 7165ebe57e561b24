import { errorInfo, preconditionFailure } from '@muster/sdk/contract';
import type { FastifyRequest } from 'fastify';
import { nameOf, type Principal } from '../../control/access/principal.ts';
import type { Control } from '../../control/control.ts';
import { isRefusal } from '../../control/refusal.ts';
import { bearerOf, clearSessionCookie, limitRate, personSecret, setSessionCookie } from '../authenticate.ts';
import type { RouteContext } from '../context.ts';
import { HttpError, invalidField } from '../errors.ts';
import { callerView, serve } from '../route.ts';
import { refuseOtherPage } from '../same-origin.ts';

/** A browser exchanges a key, a share link's secret, or a one-time code for a session. */
export function signInRoutes(context: RouteContext): void {
  const { control, publicUrl, installation } = context;
  const codeUsed = () => usedCode(installation.command);
  const { keys, signInCodes, browserSessions } = control;

  serve(context, 'signInCode', async ({ caller }) => {
    const made = await signInCodes.make(caller);
    if (!made) throw keyEnded();
    return made;
  });

  serve(context, 'signIn', async ({ body, request, reply }) => {
    const before = personSecret(request, publicUrl());
    const caller = body.code === undefined ? await byKey(request) : await byCode(body.code, request);
    if (!caller)
      throw new HttpError(
        'UNAUTHENTICATED',
        'the service does not know this key: it may have expired or been revoked',
      );
    limitRate(context, caller);
    refuseRole(caller, body.share ?? false);
    if (body.code !== undefined) {
      if (!body.switchAccount) await refuseSwitch(control, caller, before);
      if ((await signInCodes.take(body.code)) === null) throw codeUsed();
    }
    const replaced = caller.role === 'share' ? null : before;
    const opened = await browserSessions.open(caller, request.headers['user-agent'] ?? '', replaced);
    if (!opened) throw keyEnded();
    const { secret, session } = opened;
    const { userAgent } = session;
    if (caller.role !== 'share')
      await browserSessions.signedIn(caller, { with: body.code === undefined ? 'key' : 'code', userAgent });
    setSessionCookie(request, reply, publicUrl(), { role: caller.role, session: session.id, secret });
    return { session, caller: callerView(caller) };
  });

  const byKey = (request: FastifyRequest): Promise<Principal | null> => {
    if (request.headers.authorization === undefined)
      throw invalidField('code', 'is required, unless a key signs in: Authorization: Bearer <key>');
    return keys.authenticate(bearerOf(request));
  };

  const byCode = async (code: string, request: FastifyRequest): Promise<Principal | null> => {
    refuseOtherPage(request, publicUrl());
    const keyId = await signInCodes.peek(code);
    if (keyId === null) throw codeUsed();
    return keys.find(keyId);
  };

  serve(context, 'startLogin', ({ body, request }) => control.deviceLogins.start(body, request.ip));
  serve(context, 'pollLogin', ({ body }) => control.deviceLogins.poll(body));

  sessionRoutes(context);
}

function sessionRoutes(context: RouteContext): void {
  const { publicUrl } = context;
  const { browserSessions } = context.control;

  serve(context, 'session', async ({ caller }) => {
    const session = await browserSessions.current(caller);
    return isRefusal(session) ? session : { session, caller: callerView(caller) };
  });

  serve(context, 'signOut', async ({ caller, request, reply }) => {
    const refused = await browserSessions.signOut(caller);
    if (refused) return refused;
    clearSessionCookie(request, reply, publicUrl(), caller);
    return {};
  });

  serve(context, 'listSessions', ({ caller, body }) => browserSessions.list(caller, body));

  serve(
    context,
    'revokeSession',
    async ({ caller, body }) => (await browserSessions.revoke(caller, body)) ?? {},
  );
}

/**
 * A code arrives in a link, and anyone can send a link. So a signed-in person must confirm before a code switches
 * them to another account.
 */
async function refuseSwitch(
  { browserSessions }: Control,
  caller: Principal,
  before: string | null,
): Promise<void> {
  const current = before === null ? null : await browserSessions.authenticate(before);
  if (!current || (current.tenant.id === caller.tenant.id && nameOf(current) === nameOf(caller))) return;
  throw new HttpError(
    'FAILED_PRECONDITION',
    `this browser is signed in as ${nameOf(current)}, and the code is for ${nameOf(caller)}: send switchAccount to switch`,
    [
      preconditionFailure('ACCOUNT_SWITCH', nameOf(current), 'this browser is signed in as another account'),
      errorInfo('ACCOUNT_SWITCH', { account: nameOf(caller) }),
    ],
  );
}

const keyEnded = (): HttpError => new HttpError('UNAUTHENTICATED', 'the key was revoked or has expired');

const usedCode = (command: string): HttpError =>
  new HttpError(
    'UNAUTHENTICATED',
    `this code has been used or has expired. Run \`${command} open\` for a new one`,
  );

/**
 * The page of a share link sends the secret in its address. It must not accept the key of a person: with such an
 * address an attacker could make others work under the attacker's account.
 */
function refuseRole({ role }: Principal, isShare: boolean): void {
  if (isShare && role !== 'share')
    throw new HttpError('PERMISSION_DENIED', 'this key is not the secret of a share link', [
      errorInfo('NOT_A_SHARE_LINK'),
    ]);
  if (!isShare && ['runner', 'agent', 'share'].includes(role))
    throw new HttpError(
      'PERMISSION_DENIED',
      `this is the key of a machine (${role}): sign in with a person's key`,
    );
}
