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

// The one without windows is the same engine, and takes two thirds of the time.
const browsers = ['chromium-headless-shell', 'chromium', 'google-chrome'];
const found = spawnSync('/bin/sh', ['-c', browsers.map((name) => `command -v ${name}`).join(' || ')]);
const executablePath = found.stdout.toString().trim();
export const hasChromium = executablePath !== '';
if (!hasChromium)
  process.stderr.write('\n*** Chromium is not installed: nothing is looked at in a browser\n\n');

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

/** The one browser of this worker. It ends with the worker. */
export function sharedChromium(): Promise<Browser> {
  launched ??= launch();
  return launched;
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

type Visited = Pick<Server, 'url' | 'key'>;

interface Arrival extends BrowserContextOptions {
  readonly path?: string;
  readonly key?: string;
  /** What is to be done before the page is asked for. What is done to the context stays in it: its clock, its routes. */
  readonly prepare?: (context: BrowserContext) => Promise<unknown>;
}

/**
 * Browser contexts that the next visitor with the same settings can use. A new context costs a second of processor
 * time, most of it for a new renderer process that has to compile the page; so each context keeps one page open, and
 * with it its process. Cookies, storage and pages of the previous visitor are removed.
 */
const freePlaces = new Map<string, Place[]>();

interface Place {
  readonly context: BrowserContext;
  readonly anchor: Page;
}

async function openPlace(browser: Browser, options: BrowserContextOptions): Promise<Place> {
  const context = await browser.newContext({
    ...options,
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  return { context, anchor: await context.newPage() };
}

/** Closes what a visitor did not leave. */
export async function closeContexts(browser: Browser | undefined): Promise<void> {
  const free = new Set([...freePlaces.values()].flat().map(({ context }) => context));
  for (const context of browser?.contexts() ?? []) if (!free.has(context)) await context.close();
}

/** The cookie goes to every page of the context. */
async function signIn(context: BrowserContext, { url, key }: Visited): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, origin: url };
  const answer = await context.request.post(`${url}/v1/sign-in`, { headers, data: {} });
  expect(answer.status(), await answer.text()).toBe(200);
}

async function tidy({ context, anchor }: Place): Promise<void> {
  for (const page of context.pages()) if (page !== anchor) await page.close();
  await anchor.evaluate(() => localStorage.clear());
  await context.clearCookies();
}

/** What pages of this origin have stored. As JSON a storage is empty, whatever it holds. */
export const storedIn = (page: Page): Promise<string> =>
  page.evaluate(() =>
    [localStorage, sessionStorage]
      .flatMap((storage) => Object.keys(storage).map((name) => `${name}: ${storage.getItem(name)}`))
      .join('\n'),
  );

/** Somebody in front of the dashboard: a page of their own, and everything that went wrong on it. */
export class Visitor {
  readonly page: Page;
  readonly server: Visited;
  /** Errors on the console and in scripts, broken policies, requests to anybody else. */
  readonly complaints: string[] = [];
  readonly #goAway: () => Promise<void>;

  constructor(page: Page, server: Visited, goAway: () => Promise<void>) {
    this.page = page;
    this.server = server;
    this.#goAway = goAway;
    page.on('console', (message) => {
      // A reply of 4xx and a connection that broke are logged by Chromium itself; pages show them in words.
      const isNetwork = /^Failed to load resource/.test(message.text());
      if (['error', 'warning'].includes(message.type()) && !isNetwork) this.complaints.push(message.text());
    });
    page.on('pageerror', (error) => this.complaints.push(error.message));
    page.on('request', (request) => {
      if (!request.url().startsWith(`${server.url}/`)) this.complaints.push(`asked for ${request.url()}`);
    });
  }

  /** Signed in with the key, if there is one. Nothing else is remembered yet. */
  static async arrive(
    browser: Browser,
    server: Visited,
    { path = '/', key = server.key, prepare, ...options }: Arrival = {},
  ): Promise<Visitor> {
    // What turns without end on a page would keep a processor busy that draws it by itself.
    const settings = { viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options } as const;
    const visited = { url: server.url, key };
    const kind = JSON.stringify(settings);
    const free = freePlaces.get(kind) ?? [];
    freePlaces.set(kind, free);
    const place = free.pop() ?? (await openPlace(browser, settings));
    const known = `${server.url}/healthz`;
    if (place.anchor.url() !== known) await place.anchor.goto(known);
    if (key !== '') await signIn(place.context, visited);
    await prepare?.(place.context);
    const page = await place.context.newPage();
    page.setDefaultTimeout(40_000);
    const visitor = new Visitor(page, server, async () => {
      await tidy(place);
      // What was prepared stays in it.
      if (prepare) await place.context.close();
      else free.push(place);
    });
    await visitor.goto(path);
    return visitor;
  }

  async goto(path: string): Promise<void> {
    await this.page.goto(path.startsWith('http') ? path : `${this.server.url}${path}`);
  }

  /** As a link of the page does it, without loading everything again. */
  async follow(path: string): Promise<void> {
    await this.page.evaluate((to) => history.pushState(null, '', to), path);
  }

  /** What axe finds that is serious or worse, one line each: in light everything, in dark the colors. */
  async barriers(): Promise<string[]> {
    const wasDark = await this.page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches);
    await this.page.emulateMedia({ colorScheme: 'light' });
    const light = await this.#axe(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']);
    await this.page.emulateMedia({ colorScheme: 'dark' });
    const dark = await this.#axe(['color-contrast']);
    await this.page.emulateMedia({ colorScheme: wasDark ? 'dark' : 'light' });
    return [...light, ...dark.map((found) => `dark: ${found}`)];
  }

  async #axe(runOnly: string[]): Promise<string[]> {
    // The page's policy lets no script in from outside; this one comes through the debugger's door.
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
        // Of everything else it would name each element, which takes a fifth of the time.
        resultTypes: ['violations'],
      });
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .flatMap(({ id, nodes }) =>
          nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
        );
    }, runOnly);
  }

  /** What was copied last, found out as a person would: by pasting it. */
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

  /** Nothing scrolls sideways. */
  async fits(): Promise<void> {
    const { scroll, client } = await this.page.evaluate(() => ({
      scroll: document.documentElement.scrollWidth,
      client: document.documentElement.clientWidth,
    }));
    expect(scroll).toBeLessThanOrEqual(client);
  }

  /** Leaves, and fails if anything went wrong on the page meanwhile. */
  async leave(): Promise<void> {
    await this.#goAway();
    expect(this.complaints).toEqual([]);
  }
}

export const phone: BrowserContextOptions = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
  deviceScaleFactor: 2,
};
