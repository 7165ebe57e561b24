import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AgentStatus, agentPage } from '@muster/sdk/contract';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { closeContexts, hasChromium, phone, sharedChromium, Visitor } from '../support/browser.ts';
import { writeResource } from '../support/catalog.ts';
import { type Server, startServer } from '../support/server.ts';
import { inMs } from '../support/test-tenant.ts';
import { openShowcase, type Showcase } from './showcase.ts';

/**
 * Every page with a fleet on it, in both themes and on a phone: nothing complains, and nothing is cut off. The pictures
 * go to a folder that is thrown away; `npm run pictures` keeps them in docs/images.
 */
const kept = process.env.MUSTER_PICTURES;
const folder = kept ?? mkdtempSync(join(tmpdir(), 'muster-pictures-'));

const desk: BrowserContextOptions = { viewport: { width: 1440, height: 900 } };

interface Scene {
  readonly name: string;
  readonly path: () => string;
  /** Signed in, unless the page is for those who are not. */
  readonly isPublic?: true;
  readonly ready: (page: Page) => Promise<unknown>;
}

describe.skipIf(!hasChromium)('the pages, as one sees them', () => {
  let server: Server;
  let browser: Browser;
  let showcase: Showcase;
  let pages: { hero: string; asker: string; share: string };

  beforeAll(async () => {
    mkdirSync(folder, { recursive: true });
    [server, browser] = await Promise.all([startServer({ runner: false }), sharedChromium()]);
    const api = apiOf(server);
    showcase = await openShowcase(api, server.databaseUrl);
    const agents = new Agents(api, 'shop');
    const pageOf = ({ agentId }: AgentStatus) => agentPage(agentId);
    const hero = await agents.status(showcase.hero);
    const link = await writeResource(api, 'share-link', 'for-finance', {
      agentId: hero.agentId,
      expiresAt: inMs(7 * 86_400_000),
    });
    pages = {
      hero: pageOf(hero),
      asker: pageOf(await agents.status(showcase.asker)),
      share: String(link.url),
    };
  }, 120_000);
  afterAll(async () => {
    await closeContexts(browser);
    await server?.close();
    if (!kept) rmSync(folder, { recursive: true });
  });

  const said = 'I change the test and name the paragraph';
  const scenes: readonly Scene[] = [
    { name: 'home', path: () => '/', ready: (page) => page.getByText('nightly-e2e').waitFor() },
    {
      name: 'agent',
      path: () => pages.hero,
      ready: async (page) => {
        await page.getByText(said).waitFor();
        await page.getByText('Edit', { exact: true }).click();
        await page.getByText('Money.zero(cart.currency)').first().waitFor();
        await page.getByRole('button', { name: 'Jump to latest' }).click();
        await page.getByText(said).waitFor();
      },
    },
    {
      name: 'question',
      path: () => pages.asker,
      ready: (page) => page.getByText(/^Run 1 completed .* \$0\.61$/).waitFor(),
    },
    {
      name: 'spawn',
      path: () => '/',
      ready: async (page) => {
        await page.getByText('nightly-e2e').waitFor();
        await page.keyboard.press('n');
        await page.getByRole('dialog').getByText('New agent').waitFor();
      },
    },
    {
      name: 'catalog',
      path: () => '/catalog/persona/careful-reviewer',
      ready: (page) => page.getByText('reasoningEffort', { exact: true }).first().waitFor(),
    },
    {
      name: 'history',
      path: () => '/catalog/persona/careful-reviewer?view=history',
      ready: (page) => page.getByText('Use the larger model').waitFor(),
    },
    {
      name: 'share',
      path: () => pages.share,
      isPublic: true,
      ready: (page) => page.getByText(said).waitFor(),
    },
    {
      name: 'sign-in',
      path: () => '/sign-in',
      isPublic: true,
      ready: (page) => page.getByLabel('Key', { exact: true }).waitFor(),
    },
  ];

  const looks: readonly (readonly [string, BrowserContextOptions])[] = [
    ['light', { ...desk, colorScheme: 'light' }],
    ['dark', { ...desk, colorScheme: 'dark' }],
    ['phone', { ...phone, colorScheme: 'light' }],
  ];

  describe.each(scenes)('$name', ({ name, path, isPublic, ready }) => {
    test.each(looks)('%s', async (look, options) => {
      const visitor = await Visitor.arrive(browser, server, {
        ...options,
        path: path(),
        ...(isPublic && { key: '' }),
      });
      await ready(visitor.page);
      await visitor.page.screenshot({ path: join(folder, `${name}-${look}.png`), animations: 'disabled' });
      await visitor.fits();
      await visitor.leave();
    });
  });
});
