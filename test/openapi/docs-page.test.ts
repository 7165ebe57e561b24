/// <reference lib="dom" />
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { closeContexts, hasChromium, sharedChromium } from '../support/browser.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

/** The API page at `/docs`: what is served, and what a browser makes of it. */
let server: SharedServer;
let operationIds: string[];

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { operationId: string }>>;
  };
  operationIds = Object.values(paths)
    .flatMap(Object.values)
    .map(({ operationId }) => operationId);
});
afterAll(() => server?.close());

describe('what is served', () => {
  test.each([
    ['/docs', 'text/html; charset=utf-8'],
    ['/docs/docs.css', 'text/css; charset=utf-8'],
    ['/docs/docs.js', 'text/javascript; charset=utf-8'],
    ['/docs/icon.svg', 'image/svg+xml'],
  ])('%s, without a key and under a strict policy', async (path, type) => {
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

  test('nothing else of the disk', async () => {
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

describe.skipIf(!hasChromium)('in Chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await sharedChromium();
  });
  afterAll(() => closeContexts(browser));

  /** The page once it is rendered, and everything that went wrong or out of the house. */
  async function opened(hash = '', options: Parameters<Browser['newPage']>[0] = {}) {
    const page = await browser.newPage(options);
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (message.type() !== 'log') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (request) => {
      if (!request.url().startsWith(`${server.url}/`)) complaints.push(`asked for ${request.url()}`);
    });
    await page.goto(`${server.url}/docs${hash}`);
    await page.locator('main[aria-busy=false]').waitFor();
    return { page, complaints };
  }

  const shown = (page: Page): Promise<string[]> =>
    page.locator('.operation:visible').evaluateAll((all) => all.map(({ id }) => id));

  test('shows every operation, and asks nobody but its own server', async () => {
    const { page, complaints } = await opened();
    expect((await shown(page)).sort()).toEqual([...operationIds].sort());
    expect(await page.locator('nav li').count()).toBe(operationIds.length);
    await expect
      .poll(() => page.locator('#spawn').innerText())
      .toContain(`curl ${server.url}/v1/agent/spawn`);
    expect(complaints).toEqual([]);
    await page.close();
  });

  test('unfolds schemas, down to the last field', async () => {
    const { page, complaints } = await opened('#status');
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
    expect(complaints).toEqual([]);
    await page.close();
  });

  test('is searched by path, name and field, from the keyboard', async () => {
    const { page } = await opened();
    await page.keyboard.press('/');
    await page.keyboard.type('beforeSequence');
    await expect.poll(() => shown(page)).toEqual(['timeline']);
    await expect.poll(() => page.locator('#found').innerText()).toBe('1 operation');
    await expect
      .poll(() => page.locator('nav li:visible').allInnerTexts())
      .toEqual([expect.stringContaining('timeline')]);
    await page.locator('#search').fill('CATALOG delete');
    await expect.poll(() => shown(page)).toEqual(['deleteResource']);
    await expect.poll(() => page.locator('.chapter > h2:visible').allInnerTexts()).toEqual(['Catalog']);
    await page.locator('#search').fill('no such thing');
    await expect.poll(() => shown(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await expect.poll(async () => (await shown(page)).length).toBe(operationIds.length);
    await page.close();
  });

  test('is reached by links, and walked through by the Tab key', async () => {
    const { page } = await opened('#writeResource');
    await expect.poll(() => page.locator('#writeResource').evaluate(isInView)).toBe(true);
    await expect.poll(() => page.locator('nav a[aria-current]').getAttribute('href')).toBe('#writeResource');
    await page.goto(`${server.url}/docs`);
    await page.locator('main[aria-busy=false]').waitFor();
    await page.keyboard.press('Tab');
    await expect.poll(() => page.locator(':focus').innerText()).toBe('Skip to the operations');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    await expect.poll(() => page.locator(':focus').getAttribute('href')).toBe('openapi.json');
    await page.close();
  });

  const isInView = (element: Element): boolean => {
    const { top } = element.getBoundingClientRect();
    return top >= 0 && top < innerHeight;
  };

  test.each(['light', 'dark'] as const)('has words that can be read, %s', async (colorScheme) => {
    const { page } = await opened('', { colorScheme });
    await page.locator('#status').getByText('Reply').click();
    await page.locator('#status').getByText('phaseReason', { exact: true }).waitFor();
    const ratios = await page.evaluate(contrasts);
    expect(ratios.length).toBeGreaterThan(100);
    expect(ratios.filter(({ ratio }) => ratio < 4.5)).toEqual([]);
    await page.close();
  });

  test('fits a telephone', async () => {
    const { page } = await opened('', { viewport: { width: 360, height: 740 } });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await page.close();
  });
});

/** Every element with words of its own, and how far its colour is from what is behind it (WCAG 2.2). Runs in the page. */
function contrasts(): { words: string; ratio: number }[] {
  const parse = (color: string): number[] => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (color: number[]): number => {
    const [r = 0, g = 0, b = 0] = color.map((part) => {
      const c = part / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element: Element | null): number[] => {
    if (!element) return [255, 255, 255];
    const color = parse(getComputedStyle(element).backgroundColor);
    return color[3] === 0 ? behind(element.parentElement) : color;
  };
  return [...document.querySelectorAll('body *')]
    .filter((element) => element.checkVisibility())
    .filter((element) => [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent?.trim()))
    .map((element) => {
      const [a = 0, b = 0] = [parse(getComputedStyle(element).color), behind(element)]
        .map((color) => luminance(color.slice(0, 3)))
        .sort((x, y) => y - x);
      return { words: element.textContent?.slice(0, 40) ?? '', ratio: (a + 0.05) / (b + 0.05) };
    });
}
