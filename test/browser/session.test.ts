/// <reference lib="dom" />
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { until } from '../support/async.ts';
import { phone, storedIn } from '../support/browser.ts';
import { createKey, createShareLink, uniqueName, writeResource } from '../support/catalog.ts';
import { type Server, startServer } from '../support/server.ts';
import { browserOf, codeOf } from '../support/sign-in.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

describeInBrowser('sign-in', () => {
  const fixture = browserFixture(() => startServer({ env: { MUSTER_WORKERS: '2' } }));
  let server: Server;
  let api: Api;

  beforeAll(() => {
    ({ server, api } = fixture);
  });

  /** Opens the page without a key. */
  const arrive = (options: Parameters<typeof fixture.visit>[0] = {}) =>
    fixture.visit({ key: '', ...options });
  const signInPage = (page: Page) => page.getByRole('heading', { name: 'Sign in to Muster' });
  const paste = async (page: Page, key: string) => {
    await page.getByLabel('Key', { exact: true }).fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
  };
  const account = (page: Page) => page.getByRole('button', { name: 'Account' });
  /** Everything on the page and in its storage that could contain a secret. */
  const traces = async (page: Page): Promise<string> => {
    const shown = await page.evaluate(() =>
      [
        location.href,
        document.documentElement.outerHTML,
        ...Array.from(document.querySelectorAll('input'), ({ value }) => value),
        JSON.stringify(history.state),
        document.cookie,
        window.name,
      ].join('\n'),
    );
    return `${shown}\n${await storedIn(page)}`;
  };
  const secretOf = (key: string): string => key.split('.')[1] ?? '';

  test('accepts the key of a person, and says why it rejects another key or the secret of a share link', async () => {
    const visitor = await arrive();
    const { page } = visitor;
    await signInPage(page).waitFor();
    await expect
      .poll(() =>
        page.getByLabel('Key', { exact: true }).evaluate((field) => field === document.activeElement),
      )
      .toBe(true);
    await expect.poll(() => page.getByLabel('Key', { exact: true }).getAttribute('type')).toBe('password');
    await expect.poll(() => page.getByRole('button', { name: 'Sign in' }).isDisabled()).toBe(true);

    await paste(page, `mst_nobody.${'0'.repeat(48)}`);
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('Unknown key.');
    await paste(page, 'mst_with a space and ü');
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('character');
    const { key: runnerKey } = await createKey(api, { role: 'runner', pool: 'default' });
    await paste(page, runnerKey);
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('the key of a machine (runner)');
    await api.post('/v1/agent/spawn', { agentId: { agent: ['shown'] }, description: '!say hello' });
    await paste(page, (await createShareLink(api, { agent: ['shown'] })).api.key);
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('the key of a machine (share)');
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await visitor.expectNoSidewaysScroll();

    await paste(page, `  ${server.key}\n`);
    await account(page).waitFor();
    await account(page).click();
    await page.getByText('local').first().waitFor();
    expect(await traces(page)).not.toContain(secretOf(server.key));
    await page.reload();
    await account(page).waitFor();
    expect(await traces(page)).not.toContain(secretOf(server.key));
    await visitor.leave();
  });

  test('a reload and another tab stay signed in, scripts cannot read the session, and signing out ends it in every tab', async () => {
    const visitor = await arrive();
    const { page } = visitor;
    await paste(page, server.key);
    await account(page).waitFor();
    await page.reload();
    await account(page).waitFor();
    const tab = await page.context().newPage();
    await tab.goto(server.url);
    await account(tab).waitFor();
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Lax', path: '/' });
    for (const one of [page, tab]) expect(await traces(one)).not.toContain(cookie?.value);

    await tab.getByText('Live').waitFor();
    await account(page).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signInPage(page).waitFor();
    await tab.getByText('Your session has ended. Sign in again.').waitFor();
    expect(await page.context().cookies()).toEqual([]);
    // A sign-in in one tab is one in all.
    await paste(page, server.key);
    await account(page).waitFor();
    await account(tab).waitFor();
    await visitor.leave();
  });

  test('a tab continues as the person who signed in last and never acts for the other; revoking the key signs it out and says why', async () => {
    const { name, key } = await createKey(api, { role: 'member', account: 'nina' });
    const visitor = await arrive({ key: server.key });
    const { page } = visitor;
    await page.getByText('Live').waitFor();
    // The page may ask before the browser has the new cookie.
    const refused = { status: 401, body: await (await fetch(`${server.url}/v1/session`)).text() };
    await page.route('**/v1/session', (route) => route.fulfill(refused), { times: 1 });
    await visitor.page.context().request.post(`${server.url}/v1/sign-in`, {
      headers: { authorization: `Bearer ${key}`, origin: server.url },
      data: {},
    });
    await account(page).getByText('nina').waitFor();
    await page.getByText('Live').waitFor();
    expect((await api.del(`/v1/catalog/token/${name}`)).status).toBe(200);
    await page.getByText('Your session has ended. Sign in again.').waitFor();
    await visitor.leave();
  });

  test('sessions are listed, and a session of another browser can be ended', async () => {
    const { key } = await createKey(api, { role: 'member', account: uniqueName('sam') });
    const elsewhere = await browserOf(server.url, key);
    const visitor = await arrive({ key });
    const { page } = visitor;
    await account(page).click();
    await page.getByRole('button', { name: 'Sessions and keys' }).click();
    const rows = page.getByRole('list', { name: 'Sessions' }).getByRole('listitem');
    await expect.poll(() => rows.count()).toBe(2);
    await page.getByText('This browser').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await rows
      .filter({ hasText: 'Unknown browser' })
      .getByRole('button', { name: /Sign out/ })
      .click();
    await expect.poll(() => rows.count()).toBe(1);
    expect((await elsewhere.send('/v1/whoami')).status).toBe(401);
    await page
      .getByRole('dialog')
      .getByRole('button', { name: /^Sign out/ })
      .click();
    await signInPage(page).waitFor();
    await visitor.leave();
  });

  test('a link with a code of another account asks first', async () => {
    const { api: other } = await createKey(api, { role: 'member', account: 'nina' });
    const visitor = await arrive({ key: server.key, path: `/#code=${await codeOf(other)}` });
    const { page } = visitor;
    await page.getByRole('dialog', { name: 'Switch account?' }).waitFor();
    await page.getByText('codehost_oauth/nina').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.getByRole('button', { name: 'Stay signed in as admin' }).click();
    await account(page).getByText('admin').waitFor();
    await visitor.goto('/catalog');
    await visitor.goto(`/#code=${await codeOf(other)}`);
    await page.getByRole('button', { name: 'Switch account' }).click();
    await account(page).getByText('nina').waitFor();
    await visitor.leave();
  });

  test('after signing out and in again, the requested page is shown', async () => {
    const visitor = await arrive({ path: '/catalog' });
    const { page } = visitor;
    await paste(page, server.key);
    await page.getByRole('navigation', { name: 'Main' }).waitFor();
    await expect.poll(() => new URL(page.url()).pathname).toBe('/catalog');
    await account(page).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signInPage(page).waitFor();
    await expect.poll(() => page.title()).toBe('Sign in · Muster');
    expect(await traces(page)).not.toContain(secretOf(server.key));
    await page.reload();
    await signInPage(page).waitFor();
    await visitor.goto('/sign-in');
    await paste(page, server.key);
    await page.waitForURL(`${server.url}/`);
    await visitor.leave();
  });

  test('the code that the service prints works once; a URL with a code also works in a tab where the page is open', async () => {
    const printed = await until(
      'the printed address',
      async () => /open\s+(http:\S+#code=\S+)/.exec(server.output.join(''))?.[1],
      (link) => link !== undefined,
    );
    const link = String(printed);
    const visitor = await arrive({ path: link });
    const { page } = visitor;
    await account(page).waitFor();
    await expect.poll(() => page.url()).toBe(`${server.url}/`);
    const code = link.split('#code=')[1] ?? '';
    const left = await traces(page);
    expect(left).not.toContain(code);
    expect(left).not.toContain(secretOf(server.key));
    await page.goBack();
    expect(page.url()).not.toContain(code);
    await visitor.leave();

    // A reload before the answer neither loses the code nor uses it up: whether the service has received it or not.
    for (const isReceived of [false, true]) {
      const { body } = await api.post<{ code: string }>('/v1/sign-in/code');
      const interrupted = await arrive();
      await signInPage(interrupted.page).waitFor();
      let isFirst = true;
      const begun = new Promise<void>((resolve) => {
        void interrupted.page.route('**/v1/sign-in', async (route) => {
          if (!isFirst) return route.continue();
          isFirst = false;
          // The browser takes the cookie from the reply, although the page is gone.
          if (isReceived) await route.fetch();
          resolve();
        });
      });
      await interrupted.goto(`/#code=${body.code}`);
      await begun;
      await interrupted.page.reload();
      await account(interrupted.page).waitFor();
      expect(await traces(interrupted.page)).not.toContain(body.code);
      await interrupted.page.unroute('**/v1/sign-in');
      await interrupted.leave();
    }

    const late = await arrive({ path: link });
    await signInPage(late.page).waitFor();
    await late.page
      .getByText(/^This code has been used or has expired\. Run .*muster\.js open for a new one\.$/)
      .waitFor();
    await expect.poll(() => late.page.url()).toBe(`${server.url}/`);

    const { body } = await api.post<{ code: string }>('/v1/sign-in/code');
    await late.page.evaluate((code) => {
      location.hash = `code=${code}`;
    }, body.code);
    await account(late.page).waitFor();
    expect(late.page.url()).not.toContain(body.code);
    await late.page.evaluate(() => {
      location.hash = 'code=nonsense';
    });
    await expect.poll(() => late.page.url()).toBe(`${server.url}/`);
    await account(late.page).waitFor();
    await late.leave();
  });

  test('unsaved input continues after a key has ended, for the same person only', async () => {
    const name = uniqueName('persona');
    await writeResource(api, 'persona', name, { instructions: 'Be brief.' });
    const agents = new Agents(api, 'default');
    await agents.spawn('told', { description: '!say hello' });
    await agents.wait('told');
    const [first, second] = await Promise.all(
      ['first', 'second'].map(() => createKey(api, { role: 'admin', account: 'ida' })),
    );
    const visitor = await arrive();
    const { page } = visitor;
    const editor = page.getByRole('textbox', { name: `${name} as Markdown` });
    const message = page.getByLabel('Message to the agent');
    const openPersona = async () => {
      await page.getByRole('link', { name: 'Catalog' }).click();
      await page.getByRole('link', { name: 'Personas' }).click();
      await page.getByRole('link', { name: new RegExp(`^${name}`) }).click();
    };
    await paste(page, first?.key ?? '');
    await page.getByRole('link', { name: 'told' }).click();
    await message.fill('Half a sentence');
    await openPersona();
    await expect.poll(() => editor.inputValue()).toContain('Be brief.');
    await editor.press('ControlOrMeta+End');
    await page.keyboard.type(' And kind.');
    await api.del(`/v1/catalog/token/${first?.name}`);
    await signInPage(page).waitFor();

    await paste(page, server.key);
    await expect.poll(() => editor.inputValue()).toContain('Be brief.');
    expect(await editor.inputValue()).not.toContain('And kind.');
    await page.getByRole('link', { name: 'Agents' }).click();
    await page.getByRole('link', { name: 'told' }).click();
    expect(await message.inputValue()).toBe('');
    await openPersona();
    await account(page).click();
    await page.getByRole('button', { name: 'Sign out' }).click();

    await paste(page, second?.key ?? '');
    await expect.poll(() => editor.inputValue()).toContain('And kind.');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved as generation 2.').waitFor();
    await page.getByRole('link', { name: 'Agents' }).click();
    await page.getByRole('link', { name: 'told' }).click();
    await expect.poll(() => message.inputValue()).toBe('Half a sentence');
    await visitor.leave();
  });

  if (onEveryScreen)
    test('everybody can use it on a phone', async () => {
      const visitor = await arrive(phone);
      await paste(visitor.page, 'mst_wrong.wrong');
      await visitor.page.getByRole('alert').waitFor();
      expect(await visitor.accessibilityProblems()).toEqual([]);
      await visitor.expectNoSidewaysScroll();
      await visitor.leave();
    });
});
