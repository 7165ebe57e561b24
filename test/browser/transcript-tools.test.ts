import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Fields } from '../support/agents.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { expectOk } from '../support/expect-reply.ts';
import { png } from '../support/images.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { addressOf, message, rowWith, say, topOf, transcriptIn } from './agent-page.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

const timelineRoute = '**/v1/agent/timeline';
const longOutput = `${Array.from({ length: 300 }, (_, at) => `line ${at}`).join('\n')}\nthe buried Needle\n`;

describeInBrowser('the tools of the transcript', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let tenant: TestTenant;
  let visitor: Visitor;
  let page: Page;
  let path: string;

  beforeAll(async () => {
    tenant = await newTestTenant(fixture.api);
    await tenant.spawn('sought', { description: 'Look for a needle' });
    for (let run = 1; run <= 3; run++) {
      if (run > 1) await tenant.queue('sought', { description: `Turn ${run}` });
      const claim = await tenant.start('sought');
      await say(tenant, claim, ...Array.from({ length: 200 }, (_, at) => `word ${run}-${at}`));
      const items: Fields[] = [
        { type: 'TOOL_CALL', text: 'cat hay', data: { tool: 'shell', id: `c${run}` } },
        { type: 'TOOL_RESULT', text: run === 1 ? longOutput : 'hay', data: { tool: 'shell', id: `c${run}` } },
        { type: 'WARNING', text: `Careful in ${run}` },
        message(run === 2 ? 'a NEEDLE in **bold** hay' : 'hay'),
      ];
      await tenant.report(claim, { items });
      if (run < 3) await tenant.end(claim);
    }
    path = await addressOf(tenant, 'sought');
    visitor = await fixture.visit({ path });
    page = visitor.page;
    await rowWith(page, 'word 3-199').waitFor();
  });
  afterAll(() => visitor?.leave());

  const field = (at = page) => at.getByRole('searchbox', { name: 'Search in the transcript' });
  const count = (at = page) => at.getByRole('search').getByRole('status');
  /** The text that is marked as the current match, and whether it is on the screen. */
  const currentMark = () =>
    page.evaluate(() => {
      const [range] = [...(CSS.highlights.get('transcript-current-match') ?? [])] as Range[];
      const view = document.querySelector('.transcript-scroller')?.getBoundingClientRect();
      const box = range?.getBoundingClientRect();
      const isShown = view && box && box.top >= view.top && box.bottom <= view.bottom;
      return isShown ? range?.toString() : undefined;
    });

  it('searches everything from the newest on, also what is not loaded, and marks the matches', async () => {
    await page.keyboard.press('/');
    await field().fill('needle');
    await expect.poll(() => count().textContent()).toBe('1 of 3');
    await expect.poll(currentMark).toBe('NEEDLE');
    await field().press('Enter');
    await expect.poll(() => count().textContent()).toBe('2 of 3');
    // In the middle of an output that is collapsed and shortened.
    await expect.poll(currentMark).toBe('Needle');
    await page.getByRole('button', { name: 'Previous match' }).click();
    await expect.poll(() => count().textContent()).toBe('3 of 3');
    await expect.poll(currentMark).toBe('needle');
    await expect.poll(() => page.getByText('line 299').count()).toBe(0);
    await field().press('Enter');
    await expect.poll(() => count().textContent()).toBe('1 of 3');
    await field().press('Shift+Enter');
    await expect.poll(() => count().textContent()).toBe('3 of 3');
    await field().fill('nowhere to be found');
    await expect.poll(() => count().textContent()).toBe('No matches');
    // A mark may begin in one element and end in another.
    await field().fill('in bold');
    await expect.poll(() => count().textContent()).toBe('No matches');
    await field().fill('IN **bold');
    await expect.poll(() => count().textContent()).toBe('1 of 1');
    await field().press('Escape');
    await expect.poll(() => field().count()).toBe(0);
    await expect.poll(() => page.locator('[data-target="true"]').count()).toBe(0);
  });

  it('counts new matches as they come, and finds all warnings without a text', async () => {
    await page.keyboard.press('/');
    await page.getByRole('combobox', { name: 'Search in' }).selectOption('Errors and warnings');
    await expect.poll(() => count().textContent()).toBe('1 of 3');
    await expect.poll(() => page.locator('[data-target="true"]').textContent()).toContain('Careful in 3');
    await page.getByRole('combobox', { name: 'Search in' }).selectOption('Messages');
    await field().fill('late straw');
    await expect.poll(() => count().textContent()).toBe('No matches');
    await tenant.send('agent/queue', 'sought', { description: 'one late straw' });
    await expect.poll(() => count().textContent()).toMatch(/of 1$/);
    await field().press('Escape');
  });

  it('says when a search fails, and retries on request', async () => {
    let isCut = true;
    await page.route(timelineRoute, (route) =>
      isCut && route.request().postDataJSON().text
        ? route.fulfill({ status: 500, json: { message: 'incident 9' } })
        : route.continue(),
    );
    await page.keyboard.press('/');
    await field().fill('careful');
    await page.getByRole('search').getByRole('alert').getByText('incident 9').waitFor();
    isCut = false;
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect.poll(() => count().textContent()).toBe('1 of 3');
    await field().press('Escape');
    await page.unroute(timelineRoute);
  });

  it('lists the runs beside the transcript; a link leads to the start of its run', async () => {
    const runs = page.getByRole('navigation', { name: 'Runs' });
    await page.keyboard.press('End');
    await expect.poll(() => runs.getByRole('link').count()).toBe(3);
    await expect.poll(() => runs.locator('[aria-current]').textContent()).toContain('Run 3');
    await runs.getByRole('link', { name: /Run 1/ }).click();
    const target = page.locator('[data-target="true"]');
    // A page may not read the clipboard.
    await page.evaluate(() => {
      navigator.clipboard.writeText = async (text) => void Reflect.set(window, 'copied', text);
    });
    await expect.poll(() => target.textContent()).toContain('Run 1 started');
    await expect.poll(() => runs.locator('[aria-current]').textContent()).toContain('Run 1');
    await target
      .getByRole('link', { name: /Entry \d+/ })
      .first()
      .click();
    await page.getByText('Link copied').waitFor();
    expect(await page.evaluate(() => Reflect.get(window, 'copied'))).toBe(page.url());
    expect(page.url()).toMatch(/#e\d+$/);
  });

  it('says that the entry of an address does not exist', async () => {
    await visitor.goto(`${path}#e99999`);
    await page
      .getByRole('alert')
      .getByText(/There is no entry 99,999: the newest is \d+\./)
      .waitFor();
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await expect.poll(() => page.getByRole('alert').count()).toBe(0);
    expect(new URL(page.url()).hash).toBe('');
    await page.evaluate(() => (location.hash = 'e88888'));
    await page.getByText(/There is no entry 88,888/).waitFor();
    await page.evaluate(() => (location.hash = 'e2'));
    await expect.poll(() => page.getByRole('alert').count()).toBe(0);
  });

  it.each(['Web page', 'Markdown', 'JSON'])('exports all entries as %s', async (format) => {
    await page.getByRole('button', { name: 'Export transcript' }).click();
    await page.getByRole('radio', { name: format }).check();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export', exact: true }).click(),
    ]);
    expect(download.suggestedFilename()).toMatch(/^sought\.(html|md|json)$/);
    const text = readFileSync(await download.path(), 'utf8');
    for (const word of ['word 1-0', 'word 3-199', 'the buried Needle']) expect(text).toContain(word);
    if (format === 'JSON')
      expect(JSON.parse(text).agents[0].entries).toEqual(await tenant.timeline('sought'));
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0);
  });

  it('shows images in a viewer, with the arrow keys', async () => {
    await tenant.spawn('pictured');
    const claim = await tenant.start('pictured');
    const ids: string[] = [];
    for (const name of ['one', 'two'])
      ids.push(expectOk(await tenant.runner.saveAttachment(claim, png(name))).attachmentId);
    await tenant.report(claim, {
      items: [{ type: 'TOOL_RESULT', text: 'seen', data: { tool: 'Read', attachmentIds: ids } }],
    });
    await visitor.follow(await addressOf(tenant, 'pictured'));
    const first = page.getByRole('button', { name: /^Image 1/ });
    await first.focus();
    await page.keyboard.press('Enter');
    const viewer = page.getByRole('dialog');
    await viewer.getByRole('img', { name: /^Image 1/ }).waitFor();
    await page.keyboard.press('ArrowRight');
    await viewer.getByRole('img', { name: /^Image 2/ }).waitFor();
    await viewer.getByText('2 of 2').waitFor();
    await page.keyboard.press('ArrowLeft');
    await viewer.getByRole('img', { name: /^Image 1/ }).waitFor();
    expect(await visitor.accessibilityProblems(viewer)).toEqual([]);
    await page.keyboard.press('Escape');
    await expect.poll(() => viewer.count()).toBe(0);
    await expect.poll(() => first.evaluate((button) => button === document.activeElement)).toBe(true);
  });

  it('shows text from right to left in its direction', async () => {
    await tenant.spawn('rtl', { description: 'שלום, עולם!' });
    await visitor.follow(await addressOf(tenant, 'rtl'));
    const text = transcriptIn(page).getByText('שלום, עולם!');
    await expect.poll(() => text.evaluate((element) => getComputedStyle(element).direction)).toBe('rtl');
  });

  it('fits a phone, where the runs are a menu', async () => {
    const reader = await fixture.visit({ ...phone, path });
    await reader.page.getByRole('button', { name: 'Runs', exact: true }).first().click();
    const menu = reader.page.getByRole('navigation', { name: 'Runs' });
    await menu.getByRole('link', { name: /Run 2/ }).click();
    const target = reader.page.locator('[data-target="true"]');
    await expect.poll(() => target.textContent()).toContain('Run 2 started');
    await expect.poll(() => menu.count()).toBe(0);
    await reader.page.getByRole('button', { name: 'Search in the transcript' }).click();
    await field(reader.page).fill('word 3-19');
    await expect.poll(() => count(reader.page).textContent()).toBe('1 of 11');
    if (onEveryScreen) expect(await reader.accessibilityProblems()).toEqual([]);
    await reader.expectNoSidewaysScroll();
    await reader.leave();
  });

  it('is accessible in both themes', async () => {
    await visitor.goto(path);
    await rowWith(page, 'word 3-199').waitFor();
    await page.getByRole('button', { name: 'Search in the transcript' }).click();
    await field().fill('word 3-19');
    await expect.poll(() => count().textContent()).toBe('1 of 11');
    const transcript = page.locator('.transcript');
    expect(await visitor.accessibilityProblems(transcript)).toEqual([]);
    await page.getByRole('button', { name: 'Export transcript' }).click();
    expect(await visitor.accessibilityProblems(page.getByRole('dialog'))).toEqual([]);
    await page.keyboard.press('Escape');
    await field().press('Escape');
    await visitor.expectNoSidewaysScroll();
  });

  it('keeps its place when the search opens and closes', async () => {
    await visitor.goto(`${path}#e100`);
    const target = page.locator('[data-target="true"]');
    await target.waitFor();
    const before = await topOf(target);
    await page.keyboard.press('/');
    await field().waitFor();
    expect(Math.abs((await topOf(target)) - before)).toBeLessThan(80);
  });
});
