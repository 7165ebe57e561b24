/// <reference lib="dom" />
import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { closeContexts, hasChromium, sharedChromium, Visitor } from '../support/browser.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useSharedServer } from '../support/shared-server.ts';

/** The API reference at `/docs`: its files, and the page in a browser. */
const server = await useSharedServer({ runner: false });
const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
  paths: Record<string, Record<string, { operationId: string }>>;
};
const operationIds = Object.values(paths)
  .flatMap(Object.values)
  .map(({ operationId }) => operationId);

describe('the files', () => {
  test.each([
    ['/docs', 'text/html; charset=utf-8'],
    ['/docs/docs.css', 'text/css; charset=utf-8'],
    ['/docs/docs.js', 'text/javascript; charset=utf-8'],
    ['/docs/icon.svg', 'image/svg+xml'],
    ['/docs/inter-latin-wght-normal.woff2', 'font/woff2'],
    ['/docs/jetbrains-mono-latin-wght-normal.woff2', 'font/woff2'],
  ])('%s needs no key and has a strict content security policy', async (path, type) => {
    const answer = await fetch(`${server.url}${path}`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe(type);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    const policy = answer.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|data:|\*/);
    expect(await answer.text()).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
  });

  test('no other file is served', async () => {
    for (const path of [
      '/docs/',
      '/docs/package.json',
      '/docs/../../package.json',
      '/docs/%2e%2e/package.json',
    ])
      expect((await sendRaw(server.url, { method: 'GET', path })).status, path).toBe(404);
    expect((await fetch(`${server.url}/docs`, { method: 'POST' })).status).toBe(501);
  });
});

describe.skipIf(!hasChromium)('the page in Chromium', () => {
  let browser: Browser;
  /** One page for the tests that leave it as they found it, or only unfold schemas; the last one removes operations. */
  let visitor: Visitor;
  beforeAll(async () => {
    browser = await sharedChromium();
    visitor = await openDocs();
  });
  afterAll(() => closeContexts(browser));

  async function openDocs(hash = ''): Promise<Visitor> {
    const arrived = await Visitor.arrive(browser, server, { path: `/docs${hash}`, key: '' });
    await arrived.page.locator('main[aria-busy=false]').waitFor();
    return arrived;
  }

  const shown = (page: Page): Promise<string[]> =>
    page.locator('.operation:visible').evaluateAll((all) => all.map(({ id }) => id));

  test('shows every operation, and requests only its own server', async () => {
    const { page, errors } = visitor;
    expect((await shown(page)).sort()).toEqual([...operationIds].sort());
    expect(await page.locator('nav li').count()).toBe(operationIds.length);
    await expect
      .poll(() => page.locator('#spawn').innerText())
      .toContain(`curl ${server.url}/v1/agent/spawn`);
    expect(errors).toEqual([]);
  });

  test('shows schemas down to the last field', async () => {
    const { page, errors } = visitor;
    const operation = page.locator('#status');
    await operation.getByText('Reply').click();
    await operation
      .locator('li', { hasText: /^followUps/ })
      .locator('summary')
      .click();
    await expect.poll(() => operation.innerText()).toMatch(/deliverAt\s*string or null \(date-time\)/);
    await expect.poll(() => operation.innerText()).toMatch(/phaseReason[\s\S]*One of NO_RUNNER, /);
    await page.locator('#schema-Task summary').first().click();
    await expect.poll(() => page.locator('#schema-Task').innerText()).toContain('blockedBy');
    expect(errors).toEqual([]);
  });

  test('can be searched by path, name and field, with the keyboard', async () => {
    const { page } = visitor;
    await page.keyboard.press('/');
    await page.keyboard.type('beforeSequence');
    await expect.poll(() => shown(page)).toEqual(['timeline']);
    await expect.poll(() => page.locator('#found').innerText()).toBe('1 operation');
    await expect
      .poll(() => page.locator('nav li:visible').allInnerTexts())
      .toEqual([expect.stringContaining('timeline')]);
    await page.locator('#search').fill('CATALOG deleteRes');
    await expect.poll(() => shown(page)).toEqual(['deleteResource']);
    await expect.poll(() => page.locator('.chapter > h2:visible').allInnerTexts()).toEqual(['Catalog']);
    await page.locator('#search').fill('no such thing');
    await expect.poll(() => shown(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await expect.poll(async () => (await shown(page)).length).toBe(operationIds.length);
  });

  test('opens at the operation of a link, and has a skip link', async () => {
    const { page } = await openDocs('#writeResource');
    await expect.poll(() => page.locator('#writeResource').evaluate(isInView)).toBe(true);
    await expect.poll(() => page.locator('nav a[aria-current]').getAttribute('href')).toBe('#writeResource');
    await page.goto(`${server.url}/docs`);
    await page.locator('main[aria-busy=false]').waitFor();
    await page.keyboard.press('Tab');
    await expect.poll(() => page.locator(':focus').innerText()).toBe('Skip to the operations');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    await expect.poll(() => page.locator(':focus').getAttribute('href')).toBe('openapi.json');
  });

  const isInView = (element: Element): boolean => {
    const { top } = element.getBoundingClientRect();
    return top >= 0 && top < innerHeight;
  };

  test('fits a phone', async () => {
    const { page } = visitor;
    const usual = page.viewportSize();
    await page.setViewportSize({ width: 360, height: 740 });
    await visitor.expectNoSidewaysScroll();
    if (usual) await page.setViewportSize(usual);
  });

  test('looks like the dashboard and leads back to it', async () => {
    const { page } = visitor;
    expect(
      await page.evaluate(() => document.fonts.ready.then(() => document.fonts.check('1rem Inter'))),
    ).toBe(true);
    const link = page.getByRole('link', { name: 'Back to the dashboard' });
    expect(await link.evaluate((a) => (a as HTMLAnchorElement).href)).toBe(`${server.url}/`);
    expect(await page.locator('#about').textContent()).not.toMatch(/pre-alpha/i);
    const icons = ['packages/dashboard/src/icon.svg', 'packages/service/static/docs/icon.svg'];
    const [icon, same] = icons.map((path) => readFileSync(path, 'utf8'));
    expect(same).toBe(icon);
    await page.evaluate(() => localStorage.setItem('muster.theme', 'dark'));
    await page.reload();
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    expect(await ground()).toBe('rgb(18, 19, 23)');
    await page.evaluate(() => localStorage.removeItem('muster.theme'));
    await page.reload();
    await page.locator('main[aria-busy=false]').waitFor();
  });

  test('has no accessibility violations, light and dark', async () => {
    const { page } = visitor;
    // All operations are rendered in the same way, and these have every method.
    await page.locator('#search').fill('resource');
    await page.locator('#listResources').getByText('Reply').click();
    await page
      .locator('#listResources li', { hasText: /^entries/ })
      .locator('summary')
      .click();
    await page.locator('#listResources').getByText('inputFormat').waitFor();
    // Axe would spend most of its time on operations that are not shown.
    await page.locator('.operation:not(:visible)').evaluateAll((hidden) => {
      for (const each of hidden) each.remove();
    });
    expect(await visitor.accessibilityProblems()).toEqual([]);
  });
});
