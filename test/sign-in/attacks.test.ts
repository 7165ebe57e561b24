import { describe, expect, test } from 'vitest';
import { BrowserLike } from './browser-like.ts';
import { useCompany } from './company.ts';
import { callerOf, newTeam, outcomeOf } from './team.ts';

const { idp, server, team, document } = await useCompany();
const isCallback = (url: string): boolean => url.includes('/sign-in/callback/');

describe('attacks', () => {
  /** As far as the answer of the provider. */
  const answered = async (browser: BrowserLike, from = team): Promise<string> =>
    (await browser.visit(from.startUrl, isCallback)).url;
  const comeBack = async (browser: BrowserLike, url: string) =>
    outcomeOf(browser, (await browser.visit(url)).url);

  test('login CSRF: the answer for another browser signs nobody in', async () => {
    const url = await answered(new BrowserLike());
    const { refusal, caller } = await comeBack(new BrowserLike(), url);
    expect(caller).toBeUndefined();
    expect(refusal).toContain('not started in this browser');
    const victim = new BrowserLike();
    await answered(victim);
    expect((await comeBack(victim, url)).refusal).toContain('not started in this browser');
  });

  test('a repeated answer signs in once', async () => {
    const browser = new BrowserLike();
    const url = await answered(browser);
    const cookies = new Map(browser.cookies(server.url));
    expect((await comeBack(browser, url)).caller).toBeDefined();
    const thief = new BrowserLike();
    for (const [name, value] of cookies) thief.cookies(server.url).set(name, value);
    const again = await comeBack(thief, url);
    expect(again.caller).toBeUndefined();
    expect(again.refusal).toContain('completed before');
  });

  test('a stolen cookie without the answer of the provider is worth nothing', async () => {
    const browser = new BrowserLike();
    const url = new URL(await answered(browser));
    url.searchParams.set('code', 'another-code');
    const { caller, refusal } = await comeBack(browser, url.href);
    expect(caller).toBeUndefined();
    expect(refusal).toContain('did not confirm');
    expect((await team.attempts())[0]).toMatchObject({ outcome: 'FAILED', account: '' });
  });

  test('a changed cookie is no cookie', async () => {
    const browser = new BrowserLike();
    const url = await answered(browser);
    const jar = browser.cookies(server.url);
    for (const [name, value] of jar) if (name.includes('sign-in')) jar.set(name, `${value.slice(0, -4)}AAAA`);
    expect((await comeBack(browser, url)).refusal).toContain('not started in this browser');
  });

  test('mix-up: the answer for one provider is not taken by another, of this tenant or another one', async () => {
    await team.write({ ...document(), title: 'Other' }, 'other');
    const other = await newTeam(server, document());
    for (const target of [team.callbackUrl.replace(/company$/, 'other'), other.callbackUrl]) {
      const browser = new BrowserLike();
      const { search } = new URL(await answered(browser));
      const { caller, refusal } = await comeBack(browser, `${target}${search}`);
      expect(caller).toBeUndefined();
      expect(refusal).toContain('not started in this browser');
    }
  });

  test('mix-up: an answer that names another issuer is refused', async () => {
    const browser = new BrowserLike();
    const url = new URL(await answered(browser));
    expect(url.searchParams.get('iss')).toBe(idp.issuer);
    url.searchParams.set('iss', 'https://evil.example');
    expect((await comeBack(browser, url.href)).caller).toBeUndefined();
  });

  test.each([
    'https://evil.example/',
    '//evil.example/',
    '/\\evil.example/',
    '/.//evil.example/',
    '\\\\evil.example',
    '.evil.example/',
    '@evil.example/',
    'javascript:alert(1)',
    '/%0d%0aLocation:https://evil.example',
    '/sign-in/start/x/y/z',
    'x'.repeat(5_000),
  ])('open redirect: %s leads nowhere else', async (target) => {
    const browser = new BrowserLike();
    const { url } = await browser.visit(`${team.startUrl}?return=${encodeURIComponent(target)}`);
    const { origin, pathname } = new URL(url);
    expect(origin).toBe(server.url);
    expect(pathname.startsWith('//')).toBe(false);
    expect(await callerOf(browser, server.url)).not.toBeNull();
  });

  test('another site only leads to the sign-in page', async () => {
    const response = await new BrowserLike().fetch(team.startUrl, {
      headers: { 'sec-fetch-site': 'cross-site' },
    });
    expect(response.headers.get('location')).toContain('/sign-in?tenant=');
  });

  test('another host name is not a way around the public address', async () => {
    const { port } = new URL(server.url);
    const response = await new BrowserLike().fetch(team.startUrl.replace('127.0.0.1', 'localhost'));
    expect(response.headers.get('location')).toContain(`http://127.0.0.1:${port}/sign-in/start/`);
  });

  test('a tenant without providers and one that does not exist look the same', async () => {
    const browser = new BrowserLike();
    const ask = (org: string) =>
      browser.post(`${server.url}/v1/sign-in/providers`, {
        tenant: { provider: 'PROVIDER_CODEHOST_APP', org },
      });
    const nothing = { providers: [], refusal: '', installation: expect.anything() };
    expect(await ask('nobody')).toEqual({ status: 200, body: nothing });
    expect((await ask(team.tenant.org)).body).toMatchObject({
      providers: [{ name: 'company' }, { name: 'other' }],
    });
  });

  test('an unreachable provider is a clear refusal, and no secret is in the log', async () => {
    await team.write({ ...document(), issuer: 'https://10.0.0.1' }, 'inner');
    const { url } = await new BrowserLike().visit(team.startUrl.replace(/company$/, 'inner'));
    expect((await outcomeOf(new BrowserLike(), url)).refusal).toContain("can't be reached");
    expect(server.output.join('')).not.toContain('a-client-secret-of-the-tests');
  });
});
