/// <reference lib="dom" />
import { spawnSync } from 'node:child_process';
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

const found = spawnSync('/bin/sh', ['-c', 'command -v chromium || command -v google-chrome']);
const executablePath = found.stdout.toString().trim();
export const hasChromium = executablePath !== '';
if (!hasChromium)
  process.stderr.write('\n*** Chromium is not installed: nothing is looked at in a browser\n\n');

export const launchChromium = (): Promise<Browser> =>
  chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
    ],
  });

const axeSource = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

type Visited = Pick<Server, 'url' | 'key'>;

interface Arrival extends BrowserContextOptions {
  readonly path?: string;
  readonly key?: string;
  /** What is to be done before the page is asked for. */
  readonly prepare?: (context: BrowserContext) => Promise<unknown>;
}

/** Somebody in front of the dashboard: a page in a context of its own, and everything that went wrong on it. */
export class Visitor {
  readonly page: Page;
  readonly server: Visited;
  /** Errors on the console and in scripts, broken policies, requests to anybody else. */
  readonly complaints: string[] = [];

  constructor(page: Page, server: Visited) {
    this.page = page;
    this.server = server;
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

  /** In a fresh context, signed in with the key, which stays in the tab: a reload and `goto` keep it. */
  static async arrive(
    browser: Browser,
    server: Visited,
    { path = '/', key = server.key, prepare, ...options }: Arrival = {},
  ): Promise<Visitor> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    await context.addInitScript((given) => {
      if (given && location.pathname !== '/share' && !sessionStorage.getItem('muster.key'))
        sessionStorage.setItem('muster.key', given);
    }, key);
    await prepare?.(context);
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    const visitor = new Visitor(page, server);
    await visitor.goto(path);
    return visitor;
  }

  async goto(path: string): Promise<void> {
    await this.page.goto(path.startsWith('http') ? path : `${this.server.url}${path}`);
  }

  /** What axe finds that is serious or worse, one line each. */
  async barriers(): Promise<string[]> {
    // The page's policy lets no script in from outside; this one comes through the debugger's door.
    const { readFileSync } = await import('node:fs');
    await this.page.evaluate(readFileSync(axeSource, 'utf8'));
    return this.page.evaluate(async () => {
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
        runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'],
      });
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .flatMap(({ id, nodes }) =>
          nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
        );
    });
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
    await this.page.context().close();
    expect(this.complaints).toEqual([]);
  }
}

export const phone: BrowserContextOptions = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
  deviceScaleFactor: 2,
};
