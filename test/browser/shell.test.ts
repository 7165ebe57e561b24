/// <reference lib="dom" />
import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { type Server, startServer } from '../support/server.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { addressOf, rowWith, say, talker, transcriptIn } from './agent-page.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

const maxScriptBytes = 180 * 1000;

describeInBrowser('the header and the keyboard shortcuts', () => {
  const fixture = browserFixture(sharedServer);
  const arrive = fixture.visit;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    const agents = new Agents(fixture.api, 'default');
    await agents.spawn('first', { description: '!ask Which database?' });
    await agents.spawn('second', { description: '!say done' });
    await Promise.all(['first', 'second'].map((name) => agents.wait(name)));
    visitor = await arrive({ path: '/catalog/a/b/c' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const help = (page: Page) => page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  const account = (page: Page) => page.getByRole('button', { name: 'Account' });
  const row = (page: Page, name: string) => page.getByRole('main').getByRole('link', { name });
  const focused = (page: Page): Promise<string> =>
    page.evaluate(() => document.activeElement?.textContent ?? '');

  test('an unknown URL shows that the page was not found; a load fetches only what the service serves, within the size limit', async () => {
    await visitor.follow('/catalog/a/b/c');
    await page.getByRole('heading', { name: 'Page not found' }).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.getByRole('link', { name: 'Go to agents' }).click();
    await row(page, 'first').waitFor();
    const scripts: Promise<Buffer>[] = [];
    page.on('response', (response) => {
      if (response.request().resourceType() === 'script') scripts.push(response.body());
    });
    const response = await page.goto(fixture.server.url);
    await row(page, 'first').waitFor();
    const policy = response?.headers()['content-security-policy'] ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toMatch(/unsafe|\*|data:|http/);
    page.removeAllListeners('response');
    const bytes = (await Promise.all(scripts)).reduce((sum, body) => sum + gzipSync(body).length, 0);
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThanOrEqual(maxScriptBytes);
  });

  test('shortcuts open every page', async () => {
    await visitor.follow('/');
    await row(page, 'first').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('ncg?');
    const search = page.getByRole('searchbox');
    await expect.poll(() => search.inputValue()).toBe('ncg?');
    await search.fill('');
    await page.keyboard.press('Escape');
    await expect.poll(() => search.evaluate((field) => field === document.activeElement)).toBe(false);

    await page.keyboard.press('j');
    await expect.poll(() => focused(page)).toContain('first');
    await page.keyboard.press('j');
    await expect.poll(() => focused(page)).toContain('second');
    await page.keyboard.press('k');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/agents/**/first');
    await expect.poll(() => page.title()).toBe('(1) first · needs input · Muster');
    await page.keyboard.press('c');
    await page.waitForURL('**/catalog**');
    await expect.poll(() => page.title()).toBe('(1) Catalog · Muster');
    await page.keyboard.press('g');
    await page.waitForURL(`${fixture.server.url}/`);
    await expect.poll(() => page.title()).toBe('(1) Muster');

    await page.keyboard.press('?');
    await help(page).getByText('Next and previous agent that needs you').waitFor();
    await page.keyboard.press('n');
    await expect.poll(() => page.getByRole('dialog').count()).toBe(1);
    await page.keyboard.press('Escape');
    await help(page).waitFor({ state: 'detached' });
    await page.keyboard.press('Control+c');
    await expect.poll(() => new URL(page.url()).pathname).toBe('/');
    await page.keyboard.press('n');
    await page.getByRole('dialog', { name: 'New agent' }).waitFor();
    await page.keyboard.press('Escape');
  });

  test('the first Tab skips the header; the account menu shows who is signed in, and Escape returns the focus', async () => {
    await visitor.goto('/');
    await row(page, 'first').waitFor();
    await page.keyboard.press('Tab');
    await expect.poll(() => focused(page)).toBe('Skip to content');
    const { y } = (await page.getByText('Skip to content').boundingBox()) ?? { y: -1 };
    expect(y).toBeGreaterThanOrEqual(0);
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('main');
    await page.keyboard.press('Tab');
    await expect.poll(() => page.evaluate(() => document.activeElement?.closest('main') !== null)).toBe(true);

    await account(page).click();
    const panel = page.getByRole('definition');
    await expect.poll(() => panel.allTextContents()).toContain('admin');
    expect((await panel.allTextContents()).join(' ')).toContain(fixture.server.key.split('.')[0]?.slice(4));
    await page.getByRole('button', { name: 'Sign out' }).focus();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Sign out' }).waitFor({ state: 'detached' });
    await expect.poll(() => account(page).evaluate((it) => it === document.activeElement)).toBe(true);
    await account(page).click();
    await page.getByRole('heading', { name: 'Agents' }).click();
    await page.getByRole('button', { name: 'Sign out' }).waitFor({ state: 'detached' });
  });

  test('the theme follows the system or the choice of the user, which is remembered', async () => {
    await visitor.follow('/');
    await page.emulateMedia({ colorScheme: 'dark' });
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    await row(page, 'first').waitFor();
    const dark = await ground();
    await page.emulateMedia({ colorScheme: 'light' });
    const light = await ground();
    expect(light).not.toBe(dark);
    await account(page).click();
    await page.getByLabel('dark').check();
    await expect.poll(() => ground()).toBe(dark);
    expect(await visitor.accessibilityProblems(page.getByRole('banner'))).toEqual([]);
    await page.reload();
    await row(page, 'first').waitFor();
    await expect.poll(() => ground()).toBe(dark);
    await account(page).click();
    await expect.poll(() => page.getByLabel('dark').isChecked()).toBe(true);
    await page.getByLabel('light').check();
    await page.emulateMedia({ colorScheme: 'dark' });
    await expect.poll(() => ground()).toBe(light);
    if (onEveryScreen) expect(await visitor.accessibilityProblems(page.getByRole('banner'))).toEqual([]);
    await page.getByLabel('auto').check();
    await expect.poll(() => ground()).toBe(dark);
  });

  test('on a phone the header is complete and nothing scrolls sideways', async () => {
    const visitor = await arrive({ ...phone, colorScheme: 'light' });
    const { page } = visitor;
    await row(page, 'first').waitFor();
    await visitor.expectNoSidewaysScroll();
    await account(page).tap();
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    await visitor.expectNoSidewaysScroll();
    expect(await visitor.accessibilityProblems(page.getByRole('banner'))).toEqual([]);
    const { x, width } = (await page.locator('.account-panel').boundingBox()) ?? { x: -1, width: 0 };
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + width).toBeLessThanOrEqual(390);
    await page.getByRole('button', { name: 'Pages: Agents' }).tap();
    await page.getByRole('button', { name: 'Sign out' }).waitFor({ state: 'detached' });
    const links = page.getByRole('navigation', { name: 'Main' }).getByRole('link');
    for (const link of await links.all()) {
      const box = (await link.boundingBox()) ?? { x: -1, width: 0, height: 0 };
      expect([box.x >= 0, box.x + box.width <= 390, box.height >= 36]).toEqual([true, true, true]);
    }
    await visitor.expectNoSidewaysScroll();
    expect(await visitor.accessibilityProblems(page.getByRole('banner'))).toEqual([]);
    await links.filter({ hasText: 'Catalog' }).tap();
    await page.waitForURL('**/catalog**');
    await page.getByRole('button', { name: 'Pages: Catalog' }).waitFor();
    await expect.poll(() => links.count()).toBe(0);
    await visitor.expectNoSidewaysScroll();
    await page.getByRole('button', { name: 'New agent' }).first().tap();
    await page.getByRole('dialog', { name: 'New agent' }).waitFor();
    await visitor.leave();
  });

  test('in a window of any width the header is complete', async () => {
    await visitor.goto('/');
    await row(page, 'first').waitFor();
    for (const width of [720, 1000, 1090, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      const { x = 0, width: wide = 0 } = (await account(page).boundingBox()) ?? {};
      expect(x + wide, `in ${width} pixels`).toBeLessThanOrEqual(width);
      await visitor.expectNoSidewaysScroll();
    }
  });
});

describeInBrowser('while the service is unavailable', () => {
  const fixture = browserFixture(() => startServer({ runner: false }));
  /** Closed before the fixture's server, which drops the database. */
  const restarted: Server[] = [];

  afterAll(() => Promise.all(restarted.map((each) => each.close())));

  const banner = (page: Page) => page.getByText('The service is unavailable.');
  const names = async (page: Page, ending: string) =>
    (await page.getByRole('list').getByRole('link').allTextContents())
      .map((text) => text.replace(', unseen', ''))
      .filter((text) => text.endsWith(ending));

  test('the list and the transcript say so, and catch up after a shutdown and a crash, without gaps, duplicates or a reload', async () => {
    const tenant = await newTestTenant(fixture.api);
    const claim = await talker(tenant, 'lasting', 5);
    /** No runner is connected for these. */
    const waiting = new Agents(fixture.api, 'default');
    const list = await fixture.visit();
    const detail = await fixture.visit({ path: await addressOf(tenant, 'lasting') });
    const pages = [list.page, detail.page];
    await rowWith(detail.page, 'word 5').waitFor();
    for (const page of pages)
      await page.evaluate(() => {
        document.documentElement.dataset.visit = 'same document';
      });

    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      for (const name of ['stays', 'ends']) await waiting.spawn(`${name}-${signal}`);
      await say(tenant, claim, `before ${signal}`);
      await rowWith(detail.page, `before ${signal}`).waitFor();
      await expect.poll(() => names(list.page, signal)).toEqual([`stays-${signal}`, `ends-${signal}`]);
      for (const page of pages) await page.getByText('Live', { exact: true }).waitFor();

      const server = restarted.at(-1) ?? fixture.server;
      await server.end(signal);
      for (const page of pages) {
        await banner(page).waitFor();
        await page.getByText('Offline', { exact: true }).waitFor();
      }
      await expect.poll(() => names(list.page, signal)).toEqual([`stays-${signal}`, `ends-${signal}`]);
      await rowWith(detail.page, `before ${signal}`).waitFor();
      if (signal === 'SIGTERM') expect(await list.accessibilityProblems()).toEqual([]);
      const form = detail.page.getByRole('form', { name: 'Message' });
      const problem = form.getByText('The service is unavailable.');
      if (signal === 'SIGKILL') {
        await form.getByRole('textbox').fill('still here');
        await form.getByRole('button', { name: 'Send' }).click();
        await problem.waitFor();
      }

      const env = { ...server.env, MUSTER_PORT: new URL(server.url).port };
      restarted.push(await startServer({ databaseUrl: server.databaseUrl, runner: false, env }));
      await waiting.kill(`ends-${signal}`);
      await waiting.spawn(`new-${signal}`);
      await say(tenant, claim, `after ${signal}`, `${signal} is over`);
      await expect
        .poll(() => names(list.page, signal))
        .toEqual([`stays-${signal}`, `new-${signal}`, `ends-${signal}`]);
      await rowWith(detail.page, `${signal} is over`).waitFor();
      await problem.waitFor({ state: 'detached' });
      if (signal === 'SIGKILL')
        await expect.poll(() => form.getByRole('textbox').inputValue()).toBe('still here');
      for (const page of pages) {
        await banner(page).waitFor({ state: 'detached' });
        await page.getByText('Live', { exact: true }).waitFor();
        expect(await page.evaluate(() => document.documentElement.dataset.visit)).toBe('same document');
      }
    }
    const said = (await tenant.timeline('lasting', 'MESSAGE')).map(({ text }) => text);
    await detail.page.keyboard.press('Home');
    await rowWith(detail.page, 'word 1').waitFor();
    await detail.page.setViewportSize({ width: 1280, height: 2000 });
    const shown = transcriptIn(detail.page).getByText(/^(word|before|after|SIG)/);
    await expect.poll(() => shown.allTextContents()).toEqual(said);
    await list.leave();
    await detail.leave();
  });
});
