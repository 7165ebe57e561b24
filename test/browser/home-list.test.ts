import pg from 'pg';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { apiWithNewKey, writeResource } from '../support/catalog.ts';
import { copyAgents } from '../support/database.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

/** Without a runner: agents do not change, except where a test changes them. */
describeInBrowser('filters, keys and order of the agent list', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let database: pg.Client;
  let admin: Api;
  let agents: Agents;

  beforeAll(async () => {
    database = new pg.Client({ connectionString: fixture.server.databaseUrl });
    await database.connect();
  });
  afterAll(() => database?.end());
  beforeEach(async () => {
    ({ admin } = await newTenant(fixture.server.operator));
    agents = new Agents(admin, 'default');
    // What is left to set up would move the list.
    await admin.post('/v1/setup', { dismissed: true });
  });

  const arrive = (path = '/') => fixture.visit({ key: admin.key, path });
  const rows = (page: Page) => page.locator('.agent-row');
  const links = (page: Page) => rows(page).getByRole('link');
  const names = (page: Page) =>
    links(page)
      .allTextContents()
      .then((texts) => texts.map((text) => text.replace(', unseen', '')));
  const focused = (page: Page) =>
    page.evaluate(() => document.activeElement?.textContent?.replace(', unseen', ''));
  const query = (page: Page) => decodeURIComponent(new URL(page.url()).search);

  /** Copies a spawned agent: `copy-0001` and so on, the newest first. */
  const copies = async (count: number) => {
    await agents.spawn('copied');
    const made = await copyAgents(
      database,
      {
        from: 'agents a CROSS JOIN generate_series(1, $1::int) n',
        where: `a.path = 'copied' AND a.tenant = $2`,
        fields: `json_build_object('id', gen_random_uuid(), 'path', 'copy-' || lpad(n::text, 5, '0'),
          'since', a.since + n * interval '1 second')`,
      },
      [count, await tenantNumber()],
    );
    expect(made).toBe(count);
    await database.query('UPDATE agents SET root = id WHERE tenant = $1', [await tenantNumber()]);
  };
  const tenantNumber = async () => {
    const { body } = await admin.get<{ tenant: { org: string } }>('/v1/whoami');
    const { rows } = await database.query<{ id: number }>('SELECT id FROM tenants WHERE org = $1', [
      body.tenant.org,
    ]);
    return rows[0]?.id;
  };

  test('the filters are in the URL: a reload, back, forward and a copied URL show the same list', async () => {
    await writeResource(admin, 'workspace', 'shop', { repos: [] });
    const grace = await apiWithNewKey(admin, {
      role: 'member',
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'grace',
    });
    await agents.spawn('build', { description: 'Ship the shop & more' });
    await agents.spawn('build/web', { description: 'Draw it' });
    await new Agents(admin, 'shop').spawn('stock', { description: 'Count the screws' });
    await new Agents(grace, 'default').spawn('lint', { description: 'Ship nothing', model: 'rehearsal-b' });
    await agents.spawn('gone');
    await agents.kill('gone');
    const visitor = await arrive();
    const { page } = visitor;
    await page.getByText('5 of 5').waitFor();

    await page.getByRole('searchbox').fill('ship');
    await expect.poll(() => names(page)).toEqual(['build', 'lint']);
    expect(query(page)).toBe('?q=ship');
    await page.getByText('2 of 5').waitFor();
    await page.getByLabel('Person').selectOption({ label: 'grace' });
    await expect.poll(() => names(page)).toEqual(['lint']);
    expect(query(page)).toBe('?q=ship&owner=codehost_oauth/grace');
    await page.reload();
    await expect.poll(() => names(page)).toEqual(['lint']);
    await expect.poll(() => page.getByRole('searchbox').inputValue()).toBe('ship');
    await page.goBack();
    await expect.poll(() => names(page)).toEqual(['build', 'lint']);
    await page.goForward();
    await expect.poll(() => names(page)).toEqual(['lint']);

    // Without matches the page names the filters and offers to clear them.
    await page.getByLabel('Workspace').selectOption('shop');
    await page.getByRole('heading', { name: 'No matching agents' }).waitFor();
    await page.getByText('No agent matches: text “ship”, person grace, workspace shop.').waitFor();
    await page.getByRole('main').getByRole('button', { name: 'Clear filters' }).first().click();
    await page.getByText('5 of 5').waitFor();
    expect(query(page)).toBe('');
    await expect.poll(() => page.getByRole('searchbox').inputValue()).toBe('');

    // Statuses can be combined, and are counted within the other filters.
    const status = (name: string) => page.getByRole('group').getByRole('button', { name });
    await status('Idle or seen 1').click();
    await expect.poll(() => names(page)).toEqual(['gone']);
    expect(query(page)).toBe('?phase=idle');
    await status('Waiting 4').click();
    await page.getByText('5 of 5').waitFor();
    expect(query(page)).toBe('?phase=waiting,idle');
    await status('Waiting 4').click();
    await expect.poll(() => names(page)).toEqual(['gone']);
    await visitor.leave();

    const copy = await arrive('/?q=REHEARSAL-B&owner=grace&phase=waiting,nonsense');
    await expect.poll(() => names(copy.page)).toEqual(['lint']);
    await copy.leave();
  });

  test('keys move to the search, out of it and through the list, and open the selected agent', async () => {
    for (const name of ['one', 'two', 'three', 'four']) await agents.spawn(name);
    const visitor = await arrive();
    const { page } = visitor;
    await page.getByText('4 of 4').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('t');
    await expect.poll(() => names(page)).toEqual(['two', 'three']);
    await page.keyboard.press('Escape');
    await expect.poll(() => page.evaluate(() => document.activeElement === document.body)).toBe(true);
    await expect.poll(() => page.getByRole('searchbox').inputValue()).toBe('t');
    // Keys in the search are no shortcuts, and Enter moves to the results.
    await page.keyboard.press('/');
    await page.keyboard.press('End');
    await page.keyboard.type('h');
    await page.keyboard.press('Enter');
    await expect.poll(() => focused(page)).toBe('three');
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.getByText('4 of 4').waitFor();
    await page.getByRole('heading', { level: 1 }).click();

    await page.keyboard.press('j');
    await expect.poll(() => focused(page)).toBe('one');
    await page.keyboard.press('j');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('j');
    await expect.poll(() => focused(page)).toBe('four');
    await page.keyboard.press('j');
    await expect.poll(() => focused(page)).toBe('four');
    await page.keyboard.press('k');
    await page.keyboard.press('ArrowUp');
    await expect.poll(() => focused(page)).toBe('two');
    await page.keyboard.press('Home');
    await expect.poll(() => focused(page)).toBe('one');
    await page.keyboard.press('End');
    await expect.poll(() => focused(page)).toBe('four');
    await page.keyboard.press('s');
    await page.getByRole('button', { name: 'Mark four unseen' }).waitFor();
    await expect.poll(() => focused(page)).toBe('four');
    // The list is one tab stop.
    await page.keyboard.press('Tab');
    await expect.poll(() => page.evaluate(() => document.activeElement?.closest('li') === null)).toBe(true);
    await page.keyboard.press('Shift+Tab');
    await expect.poll(() => focused(page)).toBe('four');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/default/four');
    await visitor.leave();
  });

  test('the selection stays on its agent when the order changes, and stays in view', async () => {
    await copies(200);
    const visitor = await arrive();
    const { page } = visitor;
    await page.getByText('201 of 201').waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await expect.poll(() => focused(page)).toBe('copy-00001');
    await agents.kill('copy-00001');
    // The agent moved to another section, below 200 others.
    const section = page.getByRole('region', { name: 'Idle or seen 1' });
    await section.getByRole('link', { name: 'copy-00001' }).waitFor();
    await expect.poll(() => focused(page)).toBe('copy-00001');
    const box = await section.getByRole('link').boundingBox();
    expect(box?.y).toBeGreaterThan(0);
    expect(box?.y).toBeLessThan(800);
    await page.keyboard.press('k');
    await expect.poll(() => focused(page)).toBe('copy-00200');
    await visitor.leave();
  });

  test('back from an agent restores the scroll position and the selection', async () => {
    await copies(500);
    const visitor = await arrive();
    const { page } = visitor;
    await page.getByText('501 of 501').waitFor();
    await page.mouse.move(600, 500);
    await page.mouse.wheel(0, 9_000);
    await expect.poll(() => page.evaluate(() => scrollY)).toBe(9_000);
    await page.getByRole('link', { name: 'copy-00180' }).click();
    await page.getByRole('heading', { level: 1, name: 'copy-00180' }).waitFor();
    await expect.poll(() => page.evaluate(() => scrollY)).toBe(0);
    await page.goBack();
    await page.getByRole('link', { name: 'copy-00180' }).waitFor();
    await expect.poll(() => page.evaluate(() => scrollY)).toBe(9_000);
    await expect.poll(() => focused(page)).toBe('copy-00180');
    await page.keyboard.press('j');
    await expect.poll(() => focused(page)).toBe('copy-00181');
    // A reload restores it as well; a new visit starts at the top.
    await page.reload();
    await expect.poll(() => page.evaluate(() => scrollY)).toBe(9_000);
    await page.getByRole('link', { name: 'Catalog' }).click();
    await page.getByRole('link', { name: 'Agents', exact: true }).click();
    await page.getByRole('link', { name: 'copy-00001' }).waitFor();
    await expect.poll(() => page.evaluate(() => scrollY)).toBe(0);
    await visitor.leave();
  });

  test('visible rows do not move when rows above them are added and removed', async () => {
    await copies(300);
    const visitor = await arrive();
    const { page } = visitor;
    await page.getByText('301 of 301').waitFor();
    await page.evaluate(() => scrollTo(0, 8_000));
    const watched = page.getByRole('link', { name: 'copy-00160' });
    const before = await watched.boundingBox();
    for (const name of ['copy-00003', 'copy-00004', 'copy-00005']) await agents.kill(name);
    await page.getByRole('heading', { name: 'Waiting 298' }).waitFor();
    expect((await watched.boundingBox())?.y).toBe(before?.y);
    await visitor.leave();
  });

  test('the order is held while the pointer is on the list, the rows still update, and a button updates the order', async () => {
    for (const name of ['one', 'two', 'three']) await agents.spawn(name);
    const visitor = await arrive();
    const { page } = visitor;
    const setTime = (ms: number) =>
      page.evaluate((fixed) => {
        Date.now = () => fixed;
      }, ms);
    await page.getByText('3 of 3').waitFor();
    const two = rows(page).filter({ hasText: 'two' });
    // With a fixed clock the pointer has always just moved.
    const now = Date.now();
    await setTime(now);
    await two.hover();
    await agents.kill('one');
    await page.getByRole('button', { name: 'Update order' }).waitFor();
    await expect.poll(() => names(page)).toEqual(['one', 'two', 'three']);
    await rows(page).filter({ hasText: 'one' }).getByText('killed').waitFor();
    await page.getByRole('button', { name: 'Update order' }).click();
    await expect.poll(() => names(page)).toEqual(['two', 'three', 'one']);
    // After the pointer has rested, the order updates.
    await two.hover();
    await agents.kill('two');
    await page.getByRole('button', { name: 'Update order' }).waitFor();
    await setTime(now + 3_000);
    await expect.poll(() => names(page)).toEqual(['three', 'two', 'one']);
    await visitor.leave();
  });

  test('of a thousand agents only a few rows are rendered, and all can be reached', async () => {
    await copies(1_000);
    const visitor = await arrive();
    const { page } = visitor;
    await page.getByText('1,001 of 1,001').waitFor();
    await page.getByRole('heading', { name: 'Waiting 1,001' }).waitFor();
    await expect.poll(() => links(page).count()).toBeLessThan(60);
    const [first] = await rows(page).all();
    await expect.poll(() => first?.getAttribute('aria-setsize')).toBe('1001');
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await page.getByRole('link', { name: 'copy-01000' }).waitFor();
    await page.getByRole('link', { name: 'Show 30 days' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('copy-00650');
    await expect.poll(() => names(page)).toEqual(['copy-00650']);
    await visitor.leave();
  });
});
