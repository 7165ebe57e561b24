import { MusterClient, NotFoundError, signIn, UnauthenticatedError } from '@muster/sdk';
import { expect, test } from 'vitest';
import { PushedBrowser } from '../support/push-service.ts';
import type { SharedServer } from '../support/shared-server.ts';

/** The methods of pages that sign in, with a fetch that records which routes they call. */
export function testSessionMethods(
  server: Pick<SharedServer, 'url' | 'key'>,
  client: MusterClient,
  recordingFetch: typeof fetch,
): void {
  test('signInCode, and signIn with it from a page that has no key', async () => {
    const { code } = await client.signInCode();
    const asked: RequestInit[] = [];
    const asPage: typeof fetch = (input, init) => {
      asked.push(init ?? {});
      const headers = new Headers(init?.headers);
      headers.set('origin', server.url);
      return recordingFetch(input, { ...init, headers });
    };
    const { caller } = await signIn(`${server.url}/`, { code }, { fetch: asPage });
    expect(caller).toEqual(await client.whoami());
    expect(asked.map(({ headers }) => new Headers(headers).has('authorization'))).toEqual([false]);
    const again = signIn(server.url, { code }, { fetch: asPage });
    await expect(again).rejects.toBeInstanceOf(UnauthenticatedError);
    await expect(again).rejects.not.toThrow(code);
  });

  test('a page without a key calls with its session cookie and the session id', async () => {
    let cookie = '';
    const asBrowser: typeof fetch = async (input, init) => {
      const headers = new Headers(init?.headers);
      headers.set('origin', server.url);
      if (cookie !== '') headers.set('cookie', cookie);
      const response = await recordingFetch(input, { ...init, headers });
      cookie = response.headers.get('set-cookie')?.split(';')[0] ?? cookie;
      return response;
    };
    const { session, caller } = await signIn(server.url, { key: server.key }, { fetch: asBrowser });
    const page = new MusterClient({ url: server.url, session: session.id, fetch: asBrowser });
    expect(await page.session()).toEqual({ session, caller });
    const { entries } = await page.listSessions();
    expect(entries.map(({ id }) => id)).toContain(session.id);
    const other = entries.find(({ id }) => id !== session.id);
    await page.revokeSession(other?.id ?? '');
    await expect(page.revokeSession(other?.id ?? '')).rejects.toBeInstanceOf(NotFoundError);
    const { subscription } = new PushedBrowser('https://push.example/x');
    const { id } = await page.subscribePush({ ...subscription, scope: 'ALL' });
    const { subscriptions } = await page.pushSubscriptions();
    expect(subscriptions).toMatchObject([
      { id, isCurrent: true, scope: 'ALL', quietHours: null, recent: [] },
    ]);
    await page.unsubscribePush(id);
    await expect(page.unsubscribePush(id)).rejects.toBeInstanceOf(NotFoundError);
    await expect(page.testPush(id)).rejects.toBeInstanceOf(NotFoundError);
    const stale = new MusterClient({ url: server.url, session: 'another', fetch: asBrowser });
    await expect(stale.whoami()).rejects.toBeInstanceOf(UnauthenticatedError);
    await page.signOut();
    await expect(page.whoami()).rejects.toBeInstanceOf(UnauthenticatedError);
  });
}
