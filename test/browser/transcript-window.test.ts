import pg from 'pg';
import type { Page, Route } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Visitor } from '../support/browser.ts';
import { uniqueName } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { addressOf, distanceFromEnd, rowWith, say, talker, topOf, transcriptIn } from './agent-page.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

const timelineRoute = '**/v1/agent/timeline';

describeInBrowser('the loaded part of a long transcript', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let tenant: TestTenant;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    tenant = await newTestTenant(fixture.api);
    visitor = await fixture.visit();
    page = visitor.page;
  });
  afterEach(() => page.unroute(timelineRoute));
  afterAll(() => visitor?.leave());

  const sequenceOf = async (path: string, text: string): Promise<number> =>
    Number((await tenant.timeline(path)).find((entry) => entry.text === text)?.sequence);
  const wheelTo = async (page: Page, deltaY: number, isThere: () => Promise<boolean>): Promise<void> => {
    await transcriptIn(page).hover();
    await expect
      .poll(
        async () => {
          await page.mouse.wheel(0, deltaY);
          await page.evaluate(() => new Promise(requestAnimationFrame));
          return isThere();
        },
        { interval: 1, timeout: 20_000 },
      )
      .toBe(true);
  };
  const newestWord = async (page: Page): Promise<number> => {
    const texts = await transcriptIn(page)
      .getByText(/^word \d+$/)
      .allTextContents();
    return Math.max(0, ...texts.map((text) => Number(text.slice('word '.length))));
  };
  const scrollTop = (page: Page): Promise<number> =>
    transcriptIn(page).evaluate((element) => element.scrollTop);

  it('opens at the end with one page, and loads older pages on scroll without a jump', async () => {
    await talker(tenant, 'long', 1000);
    const held: Route[] = [];
    let asked = 0;
    await page.route(timelineRoute, async (route) => {
      // A request for one type of entry is not by the transcript.
      if (route.request().postDataJSON().types) return route.continue();
      asked += 1;
      if (asked === 1) await route.continue();
      else held.push(route);
    });
    await visitor.goto(await addressOf(tenant, 'long'));
    await rowWith(page, 'word 1000').waitFor();
    expect(asked).toBe(1);

    await wheelTo(page, -900, async () => (await scrollTop(page)) === 0);
    await page.getByText('Loading older entries').waitFor();
    expect(asked).toBe(2);
    const first = rowWith(page, 'word 803');
    const before = await topOf(first);
    await held[0]?.continue();
    await page.getByText('Loading older entries').waitFor({ state: 'detached' });
    await expect.poll(() => scrollTop(page)).toBeGreaterThan(1000);
    await expect.poll(() => topOf(first)).toBe(before);

    await page.keyboard.press('Home');
    await expect.poll(() => asked).toBe(3);
    await held[1]?.continue();
    await rowWith(page, 'Begin with long').waitFor();
    await rowWith(page, 'word 1').waitFor();
    await wheelTo(page, 900, async () => (await distanceFromEnd(page)) <= 1);
    await expect.poll(() => asked).toBe(4);
    const last = rowWith(page, 'word 195');
    const bottom = await topOf(last);
    await held[2]?.continue();
    await expect.poll(() => distanceFromEnd(page)).toBeGreaterThan(1000);
    await expect.poll(() => topOf(last)).toBe(bottom);
    await page.unroute(timelineRoute);
    await wheelTo(page, 900, async () => (await newestWord(page)) > 240);
    await page.getByRole('button', { name: 'Jump to start' }).click();
    await rowWith(page, 'word 1').waitFor();
    await page.getByRole('button', { name: /Jump to latest/ }).click();
    await rowWith(page, 'word 1000').waitFor();
    await expect.poll(() => distanceFromEnd(page)).toBeLessThanOrEqual(1);
  });

  it('opens at the entry in the address, and links every entry', async () => {
    await talker(tenant, 'linked', 600);
    const sequence = await sequenceOf('linked', 'word 100');
    await visitor.follow(`${await addressOf(tenant, 'linked')}#e${sequence}`);
    const row = rowWith(page, 'word 100');
    await row.waitFor();
    await expect.poll(() => row.getAttribute('data-target')).toBe('true');
    const view = await transcriptIn(page).boundingBox();
    await expect.poll(() => topOf(row)).toBeGreaterThan(view?.y ?? 0);
    expect(await topOf(row)).toBeLessThan((view?.y ?? 0) + (view?.height ?? 0));

    const other = rowWith(page, 'word 103');
    const place = await topOf(other);
    await other.getByRole('link', { name: /Entry \d+/ }).click();
    await expect.poll(() => other.getAttribute('data-target')).toBe('true');
    await expect.poll(() => topOf(other)).toBe(place);
    await expect.poll(() => new URL(page.url()).hash).toBe(`#e${sequence + 3}`);
    await page.keyboard.press('End');
    await rowWith(page, 'word 600').waitFor();
    await expect.poll(() => new URL(page.url()).hash).toBe('');
    await page.goBack();
    await row.waitFor();
    await expect.poll(() => row.getAttribute('data-target')).toBe('true');
  });

  it('finds the text of a message that was queued long before its delivery', async () => {
    const claim = await talker(tenant, 'patient', 10);
    await tenant.queue('patient', 'Sweep, when you have time');
    await say(tenant, claim, ...Array.from({ length: 450 }, (_, at) => `busy ${at}`));
    await tenant.end(claim);
    await tenant.turn('patient');
    await visitor.follow(await addressOf(tenant, 'patient'));
    await rowWith(page, 'Sweep, when you have time').getByText('Message', { exact: true }).waitFor();
  });

  it('shows that a page failed to load, and retries on request', async () => {
    await talker(tenant, 'cut', 450);
    // Set up before the page is loaded: the first request after a new route may still bypass it.
    let isCut = false;
    await page.route(timelineRoute, (route) =>
      isCut ? route.fulfill({ status: 500, json: { message: 'incident 7' } }) : route.continue(),
    );
    await visitor.goto(await addressOf(tenant, 'cut'));
    await rowWith(page, 'word 450').waitFor();
    isCut = true;
    await page.keyboard.press('Home');
    await page.getByRole('alert').getByText('incident 7').waitFor();
    await rowWith(page, 'word 450').waitFor();
    isCut = false;
    await page.getByRole('button', { name: 'Try again' }).click();
    await rowWith(page, 'word 1').waitFor();
    await expect.poll(() => page.getByRole('alert').count()).toBe(0);
  });

  it('shows that older entries were removed', async () => {
    const swept = uniqueName('swept');
    await talker(tenant, swept, 300);
    await visitor.follow(await addressOf(tenant, swept));
    await rowWith(page, 'word 300').waitFor();
    await forgetBefore(swept, await sequenceOf(swept, 'word 60'));
    await page.keyboard.press('Home');
    await page.getByText('Older entries were removed.').waitFor();
    await rowWith(page, 'word 60').waitFor();
  });

  /** Entries are removed after 30 days; the test removes them in the database. */
  async function forgetBefore(path: string, first: number): Promise<void> {
    const database = new pg.Client({ connectionString: fixture.server.databaseUrl });
    await database.connect();
    try {
      const agent = '(SELECT id FROM agents WHERE path = $1)';
      await database.query(`DELETE FROM timeline WHERE agent = ${agent} AND sequence < $2`, [path, first]);
    } finally {
      await database.end();
    }
  }
});
