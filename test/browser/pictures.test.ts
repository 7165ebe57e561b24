import { join } from 'node:path';
import { type AgentStatus, agentPage } from '@muster/sdk/contract';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { beforeAll, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { type Server, startServer } from '../support/server.ts';
import { sharedServer } from '../support/shared-server.ts';
import { inMs } from '../support/test-tenant.ts';
import { readText } from '../tidy/sources.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';
import { openShowcase, type Showcase } from './showcase.ts';

/**
 * Opens every page on a phone, and checks for errors and sideways scrolling; `npm run test:deep` also on a desktop, in both
 * themes. `npm run pictures` writes the pictures that the documentation shows to docs/images.
 */
const folder = process.env.MUSTER_PICTURES;
const documentation = ['README.md', 'docs/dashboard.md'].map(readText).join();

const desktop: BrowserContextOptions = { viewport: { width: 1440, height: 900 } };

interface Picture {
  readonly name: string;
  readonly path: () => string;
  readonly ready: (page: Page) => Promise<unknown>;
}

describeInBrowser('pictures of the pages', () => {
  // The tenant of a new server has a name for pictures.
  const fixture = browserFixture<Pick<Server, 'url' | 'key' | 'databaseUrl' | 'close'>>(() =>
    folder ? startServer({ runner: false }) : sharedServer({ runner: false }),
  );
  let showcase: Showcase;
  let pages: { hero: string; asker: string; share: string };

  beforeAll(async () => {
    const { api, server } = fixture;
    showcase = await openShowcase(api, server.databaseUrl);
    // A team that has set up everything.
    expectOk(await api.post('/v1/setup', { dismissed: true }));
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

  const message = 'I change the test and name the paragraph';
  /** The list comes first: a visit to an agent marks it as seen. */
  const signedIn: readonly Picture[] = [
    { name: 'home', path: () => '/', ready: (page) => page.getByText('nightly-e2e').waitFor() },
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
      name: 'agent',
      path: () => pages.hero,
      ready: async (page) => {
        await page.getByText(message).waitFor();
        await page.getByText('Edit', { exact: true }).click();
        await page.getByText('Money.zero(cart.currency)').first().waitFor();
        await page.getByRole('button', { name: 'Jump to latest' }).click();
        await page.getByText(message).waitFor();
      },
    },
    {
      name: 'question',
      path: () => pages.asker,
      ready: (page) => page.getByText(/^Run 1 completed .* \$0\.61$/).waitFor(),
    },
    {
      name: 'review',
      path: () => `${pages.hero}/review`,
      ready: (page) => page.locator('.code-keyword').first().waitFor(),
    },
    {
      name: 'inbox',
      path: () => `/inbox?${new URLSearchParams({ agent: pages.asker })}`,
      ready: (page) => page.getByRole('form', { name: 'Answer' }).waitFor(),
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
      name: 'spend',
      path: () => '/spend?by=model',
      ready: (page) => page.getByRole('region', { name: 'Top agents' }).waitFor(),
    },
  ];
  const signedOut: readonly Picture[] = [
    {
      name: 'share',
      path: () => pages.share,
      ready: (page) => page.getByText(message).waitFor(),
    },
    {
      name: 'sign-in',
      path: () => '/sign-in',
      ready: (page) => page.getByLabel('Key', { exact: true }).waitFor(),
    },
  ];

  const take = async (visitor: Visitor, name: string, looks: readonly string[]) => {
    for (const look of looks) {
      await visitor.page.emulateMedia({ colorScheme: look === 'dark' ? 'dark' : 'light' });
      const file = `${name}-${look}.png`;
      if (folder && documentation.includes(`images/${file}`))
        await visitor.page.screenshot({ path: join(folder, file), animations: 'disabled' });
      await visitor.expectNoSidewaysScroll();
    }
  };

  test.each([
    ...(folder || onEveryScreen ? [[['light', 'dark'], desktop] as const] : []),
    [['phone'], folder ? { ...phone, deviceScaleFactor: 2 } : phone],
  ] as const)('every page, %j', async (looks, options) => {
    const visitor = await fixture.visit(options);
    for (const { name, path, ready } of signedIn) {
      await visitor.follow(path());
      await ready(visitor.page);
      await take(visitor, name, looks);
      // Closes the dialog.
      await visitor.page.keyboard.press('Escape');
    }
    await visitor.leave();
    const guest = await fixture.visit({ ...options, key: '', path: '/healthz' });
    for (const { name, path, ready } of signedOut) {
      await guest.goto(path());
      await ready(guest.page);
      await take(guest, name, looks);
    }
    await guest.leave();
  });
});
