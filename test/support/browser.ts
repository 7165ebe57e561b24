/// <reference lib="dom" />
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core';
import { expect } from 'vitest';
import type { Desktop } from './desktop.ts';
import type { Server } from './server.ts';

// The headless shell is the same engine and needs two thirds of the time.
const browsers = ['chromium-headless-shell', 'chromium', 'google-chrome'];
const firstOf = (names: readonly string[]): string =>
  spawnSync('/bin/sh', ['-c', names.map((name) => `command -v ${name}`).join(' || ')])
    .stdout.toString()
    .trim();
const executablePath = firstOf(browsers);
export const hasChromium = executablePath !== '';
/** The shell shows no notifications. */
const wholePath = firstOf(browsers.slice(1));
export const hasWholeChromium = wholePath !== '';
if (!hasChromium) process.stderr.write('\n*** Chromium is not installed: the browser tests are skipped\n\n');

const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--renderer-process-limit=1',
  '--font-render-hinting=none',
  // Pages are left before the code of these compilers pays: they take up to a fifth of the time of a renderer.
  '--js-flags=--no-maglev --no-opt',
];
const launch = (): Promise<Browser> => chromium.launch({ executablePath, args });

let launched: Promise<Browser> | undefined;

/** The browser of this worker. It ends with the worker. */
export function sharedChromium(): Promise<Browser> {
  launched ??= launch();
  return launched;
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const allRules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

type VisitedServer = Pick<Server, 'url' | 'key'>;

interface VisitOptions extends BrowserContextOptions {
  readonly path?: string;
  readonly key?: string;
  /** Prepares the context before the page is opened, for example its clock or its routes. */
  readonly prepare?: (context: BrowserContext) => Promise<unknown>;
}

/**
 * Contexts that the next visitor with the same kind of screen can use, each with one page that stays open. A new context
 * costs a second of processor time, most of it for a renderer process that has to compile the page; a new page costs
 * half as much again as a navigation. What the previous visitor left behind is removed.
 */
const freePages = new Map<string, Page[]>();

const openPage = async (browser: Browser, options: BrowserContextOptions): Promise<Page> => {
  const context = await browser.newContext({
    ...options,
    permissions: ['clipboard-read', 'clipboard-write'],
    // Endless animations would keep a processor busy.
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  page.setDefaultTimeout(40_000);
  return page;
};

/** Ends what free pages still do, and closes the contexts of visitors that did not leave. */
export async function closeContexts(browser: Browser | undefined): Promise<void> {
  const free = [...freePages.values()].flat();
  const contexts = new Set(free.map((page) => page.context()));
  for (const context of browser?.contexts() ?? []) if (!contexts.has(context)) await context.close();
  for (const page of free) await page.goto('about:blank');
}

/** The cookie is valid for all pages of the context. */
async function signIn(context: BrowserContext, { url, key }: VisitedServer): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, origin: url };
  const answer = await context.request.post(`${url}/v1/sign-in`, { headers, data: {} });
  expect(answer.status(), await answer.text()).toBe(200);
}

/** Removes what a visitor left. The page itself stays until the next navigation, but stores nothing any more. */
async function clear(page: Page, { url }: VisitedServer): Promise<void> {
  const context = page.context();
  for (const event of ['console', 'pageerror', 'request', 'response'] as const)
    page.removeAllListeners(event);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  for (const other of context.pages()) if (other !== page) await other.close();
  if (!page.url().startsWith(url)) await page.goto(`${url}/healthz`);
  await page.mouse.move(0, 0);
  await page.evaluate(() => {
    localStorage.clear();
    sessionStorage.clear();
    Storage.prototype.setItem = () => {};
    // A navigation to the same URL would be a reload, or none if the URL has a fragment.
    History.prototype.replaceState.call(history, null, '', '/left');
  });
  await context.clearCookies();
}

/** The local and session storage of the page as text. */
export const storedIn = (page: Page): Promise<string> =>
  page.evaluate(() =>
    [localStorage, sessionStorage]
      .flatMap((storage) => Object.keys(storage).map((name) => `${name}: ${storage.getItem(name)}`))
      .join('\n'),
  );

/** A page of the dashboard, with the errors that occurred on it. */
export class Visitor {
  readonly page: Page;
  readonly server: VisitedServer;
  /** Errors of the console and of scripts, policy violations, and requests to other servers. */
  readonly errors: string[] = [];
  readonly #close: () => Promise<void>;

  constructor(page: Page, server: VisitedServer, close: () => Promise<void>) {
    this.page = page;
    this.server = server;
    this.#close = close;
    page.on('console', (message) => {
      // Chromium logs 4xx replies and broken connections itself; the pages show them.
      const isNetwork = /^Failed to load resource/.test(message.text());
      if (['error', 'warning'].includes(message.type()) && !isNetwork) this.errors.push(message.text());
    });
    page.on('pageerror', (error) => this.errors.push(error.message));
    page.on('request', (request) => {
      // An object URL is of the page itself.
      const url = request.url().replace(/^blob:/, '');
      if (!url.startsWith(`${server.url}/`)) this.errors.push(`request to ${request.url()}`);
    });
  }

  /** Signed in with the key, if it is not empty; with empty storage. */
  static async arrive(
    browser: Browser,
    server: VisitedServer,
    { path = '/', key = server.key, prepare, ...options }: VisitOptions = {},
  ): Promise<Visitor> {
    const { viewport = { width: 1280, height: 800 }, colorScheme = 'light', ...screen } = options;
    const screenKey = JSON.stringify(screen);
    const free = freePages.get(screenKey) ?? [];
    freePages.set(screenKey, free);
    const page = free.pop() ?? (await openPage(browser, screen));
    await page.emulateMedia({ colorScheme });
    if (viewport) await page.setViewportSize(viewport);
    if (key !== '') await signIn(page.context(), { url: server.url, key });
    await prepare?.(page.context());
    const visitor = new Visitor(page, server, async () => {
      // What a context was prepared with can't be undone.
      if (prepare) return page.context().close();
      await clear(page, server);
      free.push(page);
    });
    await visitor.goto(path);
    return visitor;
  }

  /** In a browser of its own, which shows notifications on this desktop. */
  static async arriveOnDesktop(
    desktop: Desktop,
    server: VisitedServer,
    { path = '/', prepare }: Pick<VisitOptions, 'path' | 'prepare'>,
  ): Promise<Visitor> {
    const context = await chromium.launchPersistentContext('', {
      executablePath: wholePath,
      args: [...args, '--headless=new'],
      // Playwright's own headless mode is that of the shell.
      headless: false,
      env: { ...process.env, ...desktop.env },
      reducedMotion: 'reduce',
    });
    await context.grantPermissions(['notifications'], { origin: server.url });
    await signIn(context, server);
    await prepare?.(context);
    const visitor = new Visitor(await context.newPage(), server, () => context.close());
    await visitor.goto(path);
    return visitor;
  }

  async goto(path: string): Promise<void> {
    await this.page.goto(path.startsWith('http') ? path : `${this.server.url}${path}`);
  }

  /** Navigates within the page, without a reload. */
  async follow(path: string): Promise<void> {
    await this.page.evaluate((to) => history.pushState(null, '', to), path);
  }

  /**
   * Serious and critical problems that axe finds: all rules in the light theme, colors in the dark one. Only in a part of
   * the page, if another test checks the rest. A phone shows the colors of a desk, so the dark ones are not checked again.
   */
  async accessibilityProblems(part?: Locator): Promise<string[]> {
    if (this.page.viewportSize()?.width === phone.viewport?.width) return this.#axe(allRules, part);
    const wasDark = await this.page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches);
    await this.page.emulateMedia({ colorScheme: 'light' });
    const light = await this.#axe(allRules, part);
    await this.page.emulateMedia({ colorScheme: 'dark' });
    const dark = await this.#axe(['color-contrast'], part);
    await this.page.emulateMedia({ colorScheme: wasDark ? 'dark' : 'light' });
    return [...light, ...dark.map((found) => `dark: ${found}`)];
  }

  /** The page's policy forbids foreign scripts; this bypasses it, and compiles the script once per process of Chromium. */
  async #loadAxe(): Promise<void> {
    const session = await this.page.context().newCDPSession(this.page);
    await session.send('Runtime.evaluate', { expression: axe });
    await session.detach();
  }

  async #axe(runOnly: string[], part: Locator | undefined): Promise<string[]> {
    if (!(await this.page.evaluate(() => 'axe' in window))) await this.#loadAxe();
    // The page behind a modal dialog can't be reached.
    const modal = this.page.locator('dialog:modal');
    const checked = part ?? ((await modal.count()) > 0 ? modal.first() : this.page.locator(':root'));
    return checked.evaluate(async (root, only) => {
      type Axe = {
        run: (
          context: Element,
          options: unknown,
        ) => Promise<{
          violations: { id: string; impact: string; nodes: { target: string[]; failureSummary: string }[] }[];
        }>;
      };
      const { axe } = window as unknown as { axe: Axe };
      const { violations } = await axe.run(root, {
        runOnly: only,
        // Only a rule about sounds, whose problems are moderate, needs the parsed style sheets.
        preload: false,
        // Listing the elements of passed rules would take a fifth of the time.
        resultTypes: ['violations'],
      });
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .flatMap(({ id, nodes }) =>
          nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
        );
    }, runOnly);
  }

  /** The clipboard, read by pasting it. */
  async copied(): Promise<string> {
    await this.page.evaluate(() => {
      const field = document.createElement('textarea');
      field.id = 'pasted';
      document.body.append(field);
      field.focus();
    });
    await this.page.keyboard.press('Control+V');
    return this.page.evaluate(() => {
      const field = document.querySelector<HTMLTextAreaElement>('#pasted');
      field?.remove();
      return field?.value ?? '';
    });
  }

  /** Expects that the page does not scroll sideways. */
  async expectNoSidewaysScroll(): Promise<void> {
    const { scroll, client } = await this.page.evaluate(() => ({
      scroll: document.documentElement.scrollWidth,
      client: document.documentElement.clientWidth,
    }));
    expect(scroll).toBeLessThanOrEqual(client);
  }

  /** Closes the page, and fails if errors occurred on it. */
  async leave(): Promise<void> {
    await this.#close();
    expect(this.errors).toEqual([]);
  }
}

export const phone: BrowserContextOptions = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
};
