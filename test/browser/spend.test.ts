/// <reference lib="dom" />
import { readFileSync } from 'node:fs';
import pg from 'pg';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { sharedServer } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the page for spend', () => {
  const fixture = browserFixture(sharedServer);
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    visitor = await fixture.visit({ path: '/spend' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const region = (name: string) => page.getByRole('region', { name, exact: true });
  /** The rows of a table, without its head: the first line of each cell. */
  const rowsOf = async (name: string): Promise<string[]> => {
    const rows = await region(name).locator('tbody tr, tfoot tr').all();
    return Promise.all(
      rows.map(async (row) => {
        const cells = await row.locator('th, td').allInnerTexts();
        return cells.map((cell) => cell.split('\n')[0]).join(' ');
      }),
    );
  };
  const choose = (label: string, option: string) =>
    page.getByLabel(label, { exact: true }).selectOption({ label: option });

  /** Changes what was used in this tenant. */
  const change = async (update: string) => {
    const { databaseUrl, tenant } = fixture.server;
    const database = new pg.Client({ connectionString: databaseUrl });
    await database.connect();
    const own = 'tenant = (SELECT id FROM tenants WHERE org = $1)';
    await database.query(`UPDATE usage_hours SET ${update} AND ${own}`, [tenant.org]);
    await database.end();
  };

  test('an empty period says what the page is for', async () => {
    await page.getByRole('heading', { name: 'Nothing used' }).waitFor();
    expect(await page.title()).toBe('Spend · Muster');
    expect(await visitor.accessibilityProblems()).toEqual([]);
  });

  test('the bars and tables have the numbers of the period, by what is chosen in the address', async () => {
    const [shop, docs] = [new Agents(fixture.api, 'shop'), new Agents(fixture.api, 'docs')];
    await shop.spawn('build', {
      description: '!usage 20000 5000 1000 6\n!spawn web !usage 1000 0 500 3\\n!finish ok',
      labels: { team: 'web' },
    });
    await docs.spawn('guide', { description: '!usage 4000 0 200 1', model: 'rehearsal-b' });
    await Promise.all([shop.wait('build'), docs.wait('guide')]);
    await shop.wait('build/web');
    await change("hour = hour - interval '40 days' WHERE workspace = 'docs'");

    await page.keyboard.press('g');
    await page.getByRole('heading', { name: 'Agents', level: 1 }).waitFor();
    await page.keyboard.press('u');
    await expect
      .poll(() => rowsOf('Cost by workspace'))
      .toEqual(['shop $9.00 100% 21k 5k 1.5k 2 2', 'Total $9.00 100% 21k 5k 1.5k 2 2']);
    await choose('Period', 'Last 90 days');
    await expect
      .poll(() => rowsOf('Cost by workspace'))
      .toEqual([
        'shop $9.00 90% 21k 5k 1.5k 2 2',
        'docs $1.00 10% 4k 0 200 1 1',
        'Total $10.00 100% 25k 5k 1.7k 3 3',
      ]);
    expect(await page.locator('figcaption').innerText()).toBe('Last 90 days\n$10.00');
    expect(await page.locator('.spend-bars rect[data-series]').count()).toBe(2);
    await page.getByText('Cost per day', { exact: true }).click();
    const days = await rowsOf('Cost per day');
    expect(days).toHaveLength(91);
    expect(days.filter((day) => day.includes('$')).map((day) => day.replace(/^[^$]* (?=\$)/, ''))).toEqual([
      '$9.00 $9.00 –',
      '$1.00 – $1.00',
      '$10.00 $9.00 $1.00',
    ]);
    await choose('Group by', 'Label team');
    await expect
      .poll(async () => (await rowsOf('Cost by label team')).map((row) => row.split(' $')[0]))
      .toEqual(['web', 'Without this label', 'Total']);
    expect(new URL(page.url()).search).toBe('?period=90d&by=label:team');
    await page.goBack();
    await page.reload();
    await expect.poll(() => rowsOf('Cost by workspace')).toHaveLength(3);
  });

  test('a bar that is pointed at shows its numbers in the legend', async () => {
    const legend = () => page.locator('.spend-legend').innerText();
    expect(await legend()).toBe('shop\n$9.00\ndocs\n$1.00');
    const columns = page.locator('.spend-column');
    await columns.last().hover();
    await expect.poll(legend).toBe('shop\n$9.00\ndocs\n–');
    await page.mouse.move(0, 0);
    await expect.poll(legend).toBe('shop\n$9.00\ndocs\n$1.00');
  });

  test('the agents with the highest cost link to their pages, alone or with their children', async () => {
    const names = async () => (await rowsOf('Top agents')).map((row) => row.split(' ').slice(0, 2).join(' '));
    await expect.poll(names).toEqual(['build $6.00', 'build/web $3.00', 'guide $1.00']);
    await page.getByRole('button', { name: 'With children' }).click();
    await expect.poll(names).toEqual(['build $9.00', 'guide $1.00']);
    await region('Top agents').getByRole('link', { name: 'build' }).click();
    await page.getByRole('heading', { name: 'build', level: 1 }).waitFor();
    await page.goBack();
    await expect.poll(names).toHaveLength(2);
  });

  test('what was estimated or has no price says so in words', async () => {
    await change("is_estimated = true, unpriced_tokens = 1200 WHERE workspace = 'docs'");
    await page.reload();
    await page.getByRole('rowheader', { name: 'docs estimated · 1.2k tokens unpriced' }).waitFor();
    await page.getByText('Estimated: a subscription paid for some of it').waitFor();
    await page.getByText('Unpriced: the price of the model is not known').waitFor();
  });

  test('the CSV is what the service writes', async () => {
    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download CSV' }).click();
    const file = await downloading;
    expect(file.suggestedFilename()).toBe('spend-90d-by-workspace.csv');
    const answer = await page.request.post(`${fixture.server.url}/v1/usage`, {
      headers: { accept: 'text/csv', authorization: `Bearer ${fixture.server.key}` },
      data: {
        groupBy: ['workspace'],
        interval: 'day',
        from: await page.evaluate(() => {
          const now = new Date();
          return new Date(now.getFullYear(), now.getMonth(), now.getDate() - 89).toISOString();
        }),
      },
    });
    expect(readFileSync(await file.path(), 'utf8')).toBe(await answer.text());
  });

  test('it is accessible, and a phone scrolls only its tables sideways', async () => {
    expect(await visitor.accessibilityProblems()).toEqual([]);
    const handheld = await fixture.visit({ ...phone, path: '/spend?period=90d' });
    await handheld.page.getByRole('rowheader', { name: 'guide' }).waitFor();
    await handheld.page.getByText('Cost per day', { exact: true }).click();
    await handheld.expectNoSidewaysScroll();
    await handheld.leave();
  });

  test('an error is shown, and can be tried again', async () => {
    const refusal = { code: 14, message: 'Ask for a shorter time.', details: [] };
    await page.route('**/v1/usage', (route) => route.fulfill({ status: 403, json: refusal }));
    await page.reload();
    await page.getByRole('alert').filter({ hasText: 'Ask for a shorter time.' }).first().waitFor();
    await page.unroute('**/v1/usage');
    await page.getByRole('button', { name: 'Try again' }).click();
    await region('Cost by workspace').waitFor();
    await expect.poll(() => page.getByRole('alert').count()).toBe(0);
  });
});
