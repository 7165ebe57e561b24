/// <reference lib="dom" />
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core';
import { expect } from 'vitest';
import type { Server } from './server.ts';

// The headless shell is the same engine and needs two thirds of the time.
const browsers = ['chromium-headless-shell', 'chromium', 'google-chrome'];
const found = spawnSync('/bin/sh', ['-c', browsers.map((name) => `command -v ${name}`).join(' || ')]);
const executablePath = found.stdout.toString().trim();
export const hasChromium = executablePath !== '';
if (!hasChromium) process.stderr.write('\n*** Chromium is not installed: the browser tests are skipped\n\n');

const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
      '--renderer-process-limit=1',
      '--font-render-hinting=none',
    ],
  });

let launched: Promise<Browser> | undefined;

/** The browser of this worker. It ends with the worker. */
export function sharedChromium(): Promise<Browser> {
  launched ??= launch();
  return launched;
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

type VisitedServer = Pick<Server, 'url' | 'key'>;

interface VisitOptions extends BrowserContextOptions {
  readonly path?: string;
  readonly key?: string;
  /** Prepares the context before the page is opened, for example its clock or its routes. */
  readonly prepare?: (context: BrowserContext) => Promise<unknown>;
}

/**
 * Browser contexts that the next visitor with the same settings can use. A new context costs a second of processor time,
 * most of it for a renderer process that has to compile the page. So each context keeps one page open, and with it its
 * process. Cookies, storage and pages of the previous visitor are removed.
 */
const freeContexts = new Map<string, ReusableContext[]>();

interface ReusableContext {
  readonly context: BrowserContext;
  /** Stays open. */
  readonly anchor: Page;
}

async function openContext(browser: Browser, options: BrowserContextOptions): Promise<ReusableContext> {
  const context = await browser.newContext({
    ...options,
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  return { context, anchor: await context.newPage() };
}

/** Closes the contexts of visitors that did not leave. */
export async function closeContexts(browser: Browser | undefined): Promise<void> {
  const free = new Set([...freeContexts.values()].flat().map(({ context }) => context));
  for (const context of browser?.contexts() ?? []) if (!free.has(context)) await context.close();
}

/** The cookie is valid for all pages of the context. */
async function signIn(context: BrowserContext, { url, key }: VisitedServer): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, origin: url };
  const answer = await context.request.post(`${url}/v1/sign-in`, { headers, data: {} });
  expect(answer.status(), await answer.text()).toBe(200);
}

async function clear({ context, anchor }: ReusableContext): Promise<void> {
  for (const page of context.pages()) if (page !== anchor) await page.close();
  await anchor.evaluate(() => localStorage.clear());
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
      if (!request.url().startsWith(`${server.url}/`)) this.errors.push(`request to ${request.url()}`);
    });
  }

  /** Signed in with the key, if it is not empty; with empty storage. */
  static async arrive(
    browser: Browser,
    server: VisitedServer,
    { path = '/', key = server.key, prepare, ...options }: VisitOptions = {},
  ): Promise<Visitor> {
    // Endless animations would keep a processor busy.
    const settings = { viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options } as const;
    const visited = { url: server.url, key };
    const contextKey = JSON.stringify(settings);
    const free = freeContexts.get(contextKey) ?? [];
    freeContexts.set(contextKey, free);
    const reusable = free.pop() ?? (await openContext(browser, settings));
    const anchorUrl = `${server.url}/healthz`;
    if (reusable.anchor.url() !== anchorUrl) await reusable.anchor.goto(anchorUrl);
    if (key !== '') await signIn(reusable.context, visited);
    await prepare?.(reusable.context);
    const page = await reusable.context.newPage();
    page.setDefaultTimeout(40_000);
    const visitor = new Visitor(page, server, async () => {
      await clear(reusable);
      // A prepared context can't be reused.
      if (prepare) await reusable.context.close();
      else free.push(reusable);
    });
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

  /** Serious and critical problems that axe finds: all rules in the light theme, colors in the dark one. */
  async accessibilityProblems(): Promise<string[]> {
    const wasDark = await this.page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches);
    await this.page.emulateMedia({ colorScheme: 'light' });
    const light = await this.#axe(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']);
    await this.page.emulateMedia({ colorScheme: 'dark' });
    const dark = await this.#axe(['color-contrast']);
    await this.page.emulateMedia({ colorScheme: wasDark ? 'dark' : 'light' });
    return [...light, ...dark.map((found) => `dark: ${found}`)];
  }

  async #axe(runOnly: string[]): Promise<string[]> {
    // The page's policy forbids foreign scripts; evaluate() bypasses it.
    if (!(await this.page.evaluate(() => 'axe' in window))) await this.page.evaluate(axe);
    return this.page.evaluate(async (only) => {
      type Axe = {
        run: (
          context: Document,
          options: unknown,
        ) => Promise<{
          violations: { id: string; impact: string; nodes: { target: string[]; failureSummary: string }[] }[];
        }>;
      };
      const { axe } = window as unknown as { axe: Axe };
      const { violations } = await axe.run(document, {
        runOnly: only,
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
  deviceScaleFactor: 2,
};
