import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { apiWithNewKey, writeResource } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the list of a team', () => {
  const fixture = browserFixture(sharedServer);

  /** A tenant with two members, dana and priya. */
  async function team() {
    const { admin } = await newTenant(fixture.server.operator);
    const member = (account: string) =>
      apiWithNewKey(admin, { role: 'member', ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account });
    const [dana, priya] = await Promise.all([member('dana'), member('priya')]);
    return {
      admin,
      dana,
      priya,
      mine: new Agents(dana, 'default'),
      hers: new Agents(priya, 'default'),
    };
  }

  const titles = (page: Page) =>
    page.locator('.agent-list').getByRole('heading', { level: 2 }).allTextContents();
  const names = (page: Page) =>
    page
      .locator('.agent-list li a')
      .evaluateAll((links) => links.map((link) => link.textContent?.replace(', unseen', '')));
  const scope = (page: Page, name: string) =>
    page.getByRole('group', { name: 'Whose agents' }).getByRole('button', { name });
  const bar = (page: Page) => page.getByRole('region', { name: 'Selection' });
  const select = (page: Page, name: string) =>
    page.getByRole('checkbox', { name: `Select ${name}`, exact: true });
  const query = (page: Page) => decodeURIComponent(new URL(page.url()).search);
  const focused = (page: Page) =>
    page.evaluate(() => document.activeElement?.textContent?.replace(', unseen', ''));

  const expectAccessible = async (visitor: Visitor) =>
    expect(await visitor.accessibilityProblems()).toEqual([]);

  test('is the person’s own at first, and says of other agents whose they are and whom to ask', async () => {
    const { admin, dana, mine, hers } = await team();
    await hers.spawn('hers', { description: '!ask Which colour?' });
    await hers.wait('hers');
    const visitor = await fixture.visit({ key: dana.key });
    const { page } = visitor;
    await page.getByRole('heading', { name: 'You have no agents' }).waitFor();
    await mine.spawn('mine', { description: '!ask Which **size**?\nSmall?' });
    await expect.poll(() => names(page)).toEqual(['mine']);
    await page.getByText('Which size?').waitFor();
    await expect.poll(() => page.title()).toBe('(1) Muster');
    await expect.poll(() => titles(page)).toEqual(['Needs input 1']);
    await page.getByText('1 of 1').waitFor();
    await expectAccessible(visitor);

    await scope(page, 'Everyone 2').click();
    // What needs the person comes first, though the other agent has waited longer.
    await expect.poll(() => names(page)).toEqual(['mine', 'hers']);
    expect(query(page)).toBe('?scope=everyone');
    await expect.poll(() => page.title()).toBe('(1) Muster');
    await page.getByRole('link', { name: 'hers' }).click();
    await page.getByRole('region', { name: 'Status' }).getByText('waiting for priya').waitFor();
    await page.getByText('priya owns this agent. Ask priya to answer or change it.').waitFor();
    await visitor.leave();

    const all = await fixture.visit({ key: admin.key });
    await expect.poll(() => names(all.page)).toEqual(['hers', 'mine']);
    await all.page.getByLabel('Person').selectOption({ label: 'priya' });
    await expect.poll(() => names(all.page)).toEqual(['hers']);
    expect(query(all.page)).toBe('?owner=codehost_oauth/priya');
    await scope(all.page, 'Mine 0').click();
    await all.page.getByRole('button', { name: 'Show everyone’s agents' }).click();
    await expect.poll(() => names(all.page)).toEqual(['hers', 'mine']);
    await all.leave();

    const pocket = await fixture.visit({ key: dana.key, ...phone });
    await pocket.page.getByText('Which size?').waitFor();
    await pocket.expectNoSidewaysScroll();
    await expectAccessible(pocket);
    await pocket.leave();
  });

  test('says the answer, the action and the finished tasks, in the direction of the text', async () => {
    const { dana, mine } = await team();
    await mine.spawn('done', { description: 'Tidy up.\n!finish ## Result\\n**Builds** green on `Node 22`.' });
    await mine.spawn('half', {
      description: '!task add One\n!task add Two\n!task done One\n!say النتيجة جاهزة.',
    });
    await mine.spawn('works', { description: '!run sleep 600' });
    const visitor = await fixture.visit({ key: dana.key });
    const { page } = visitor;
    const rowOf = (name: string) => page.locator('.agent-row', { has: page.getByRole('link', { name }) });
    await rowOf('half').getByText('1 of 2 tasks: النتيجة جاهزة.').waitFor();
    await rowOf('done')
      .getByText(/Builds/)
      .waitFor();
    await rowOf('works').getByText('Running sleep 600').waitFor();
    await page.getByRole('searchbox').fill('builds');
    await expect.poll(() => names(page)).toEqual(['done']);
    await visitor.leave();
  });

  test('is grouped and sorted as chosen, and a view can be named, kept, shared and deleted', async () => {
    const { admin, dana, mine, hers } = await team();
    await writeResource(admin, 'workspace', 'shop', { repos: [] });
    await mine.spawn('zebra', { description: '!say A.', labels: { team: 'web' } });
    await new Agents(dana, 'shop').spawn('ant', { description: '!say B.', labels: { team: 'api' } });
    await hers.spawn('cow', { description: '!say C.' });
    for (const [agents, name] of [
      [mine, 'zebra'],
      [hers, 'cow'],
    ] as const)
      await agents.wait(name);
    const visitor = await fixture.visit({ key: dana.key, path: '/?scope=everyone' });
    const { page } = visitor;
    await page.getByText('3 of 3').waitFor();
    const group = page.getByLabel('Group', { exact: true });
    await group.selectOption('Group by person');
    await expect.poll(() => titles(page)).toEqual(['dana 2', 'priya 1']);
    await group.selectOption('Group by workspace');
    await expect.poll(() => titles(page)).toEqual(['default 2', 'shop 1']);
    await group.selectOption('Group by team');
    await expect.poll(() => titles(page)).toEqual(['api 1', 'web 1', 'No team 1']);
    await expectAccessible(visitor);
    await group.selectOption('No groups');
    await page.getByLabel('Sort').selectOption('Name, Z to A');
    expect(query(page)).toBe('?scope=everyone&group=none&sort=-name');
    await expect.poll(() => titles(page)).toEqual(['Agents 3']);
    await page.reload();
    await expect.poll(() => titles(page)).toEqual(['Agents 3']);

    await page.getByRole('button', { name: 'Save view' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('Enter a name.').waitFor();
    await dialog.getByLabel('Name').fill('Everything');
    await expectAccessible(visitor);
    await page.keyboard.press('Enter');
    const views = page.getByRole('navigation', { name: 'Saved views' });
    const view = views.getByRole('link', { name: 'Everything' });
    await expect.poll(() => view.getAttribute('aria-current')).toBe('page');
    await page.getByRole('link', { name: 'Agents', exact: true }).click();
    await expect.poll(() => titles(page)).toEqual(['Finished, unseen 2']);
    await view.click();
    await expect.poll(() => titles(page)).toEqual(['Agents 3']);
    const other = await page.context().newPage();
    await other.goto(fixture.server.url);
    await other.getByRole('link', { name: 'Everything' }).waitFor();
    await page.getByRole('button', { name: 'Edit views' }).click();
    await dialog.getByRole('button', { name: 'Delete view Everything' }).click();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await expect.poll(() => views.count()).toBe(0);
    await expect.poll(() => other.getByRole('link', { name: 'Everything' }).count()).toBe(0);
    await other.close();
    await visitor.leave();
  });

  test('agents are selected by keyboard, in ranges and by section, and a message goes to each after a confirmation', async () => {
    const { dana, mine, hers } = await team();
    for (const name of ['a', 'b', 'c']) await mine.spawn(name, { description: `!say I am ${name}.` });
    await hers.spawn('hers', { description: '!say Hers.' });
    for (const name of ['a', 'b', 'c']) await mine.wait(name);
    await hers.wait('hers');
    const visitor = await fixture.visit({ key: dana.key, path: '/?scope=everyone&sort=name' });
    const { page } = visitor;
    await expect.poll(() => names(page)).toEqual(['a', 'b', 'c', 'hers']);
    await page.keyboard.press('j');
    await page.keyboard.press('x');
    await bar(page).getByText('1 agent selected').waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('Shift+X');
    await bar(page).getByText('3 agents selected').waitFor();
    await expect.poll(() => focused(page)).toBe('c');
    await page.keyboard.press('Escape');
    await expect.poll(() => bar(page).count()).toBe(0);
    await select(page, 'a').click();
    await select(page, 'b').click({ modifiers: ['Shift'] });
    await bar(page).getByText('2 agents selected').waitFor();
    await page.getByRole('checkbox', { name: 'Select all in Finished, unseen' }).click();
    await bar(page).getByText('4 agents selected').waitFor();
    await expectAccessible(visitor);

    // The shortcut moves to the actions.
    await page.keyboard.press('.');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Message 3 agents' });
    const items = () => dialog.getByRole('listitem').allInnerTexts();
    const flat = async () => (await items()).map((text) => text.replace(/\s+/g, ' ').trim());
    await expect.poll(flat).toEqual(['a', 'b', 'c', 'hers left out: belongs to priya']);
    await dialog.getByRole('button', { name: 'Message 3 agents' }).click();
    await dialog.getByText('Enter a message.').waitFor();
    await expectAccessible(visitor);
    // One of them is gone by then.
    await mine.kill('b');
    await page.keyboard.type('!say Thanks.');
    await dialog.getByRole('button', { name: 'Message 3 agents' }).click();
    await dialog.getByText('2 done, 1 failed.').waitFor();
    await expect
      .poll(flat)
      .toEqual(['a sent', expect.stringMatching(/^b failed: ./), 'c sent', expect.stringContaining('hers')]);
    await dialog.getByRole('button', { name: 'Try the failed again' }).click();
    await dialog.getByText('2 done, 1 failed.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await bar(page).getByText('2 agents selected').waitFor();
    for (const name of ['a', 'c']) {
      await mine.wait(name);
      expect((await mine.timeline(name, 'FOLLOW_UP_QUEUED')).length).toBe(1);
    }
    await expect.poll(() => page.getByText('Thanks.').count()).toBeGreaterThan(1);
    await visitor.leave();
  });

  test('labels, stops and kills several agents, naming what ends too', async () => {
    const { dana, mine } = await team();
    await mine.spawn('build', { description: '!spawn web !sleep 600\n!sleep 600' });
    await mine.spawn('lint', { description: '!sleep 600' });
    const visitor = await fixture.visit({ key: dana.key, path: '/?group=none&sort=name' });
    const { page } = visitor;
    await expect.poll(() => names(page)).toEqual(['build', 'build / web', 'lint']);
    await page.locator('.agent-row[data-attention="working"]').nth(2).waitFor();
    const dialog = page.getByRole('dialog');
    const choose = async () => {
      for (const name of ['build', 'lint'])
        if (!(await select(page, name).isChecked())) await select(page, name).click();
    };

    await choose();
    await bar(page).getByRole('button', { name: 'Label' }).click();
    await dialog.getByLabel('Label').fill('team');
    await dialog.getByLabel('Value').fill('web');
    await page.keyboard.press('Enter');
    await dialog.getByText('All 2 done.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await expect.poll(() => page.getByText('team=web', { exact: true }).count()).toBe(3);
    await expect.poll(() => bar(page).count()).toBe(0);

    await choose();
    await bar(page).getByRole('button', { name: 'Stop turns' }).click();
    await dialog.getByRole('button', { name: 'Stop the turns of 2 agents' }).click();
    await dialog.getByText('All 2 done.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    for (const name of ['build', 'lint']) await mine.wait(name);

    await choose();
    await bar(page).getByRole('button', { name: 'Kill' }).click();
    await dialog.getByRole('heading', { name: 'Kill 2 agents' }).waitFor();
    await dialog.getByRole('listitem').filter({ hasText: 'build/web' }).getByText('ends too').waitFor();
    expect(await visitor.accessibilityProblems(dialog)).toEqual([]);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    expect((await mine.status('lint')).phase).toBe('PHASE_WAITING_FOR_INPUT');
    await bar(page).getByRole('button', { name: 'Kill' }).click();
    await dialog.getByRole('button', { name: 'Kill 2 agents' }).click();
    await dialog.getByText('All 2 done.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    for (const name of ['build', 'build/web', 'lint'])
      expect((await mine.status(name)).phase).toBe('PHASE_CANCELED');
    await visitor.leave();
  });

  test('several agents are selected on a phone too', async () => {
    const { dana, mine } = await team();
    for (const name of ['a', 'b']) await mine.spawn(name, { description: '!finish Done.' });
    for (const name of ['a', 'b']) await mine.wait(name);
    const pocket = await fixture.visit({ key: dana.key, ...phone });
    const { page } = pocket;
    await page.getByRole('checkbox', { name: 'Select all in Finished, unseen' }).tap();
    await bar(page).getByText('2 agents selected').waitFor();
    await select(page, 'b').tap();
    await bar(page).getByText('1 agent selected').waitFor();
    await bar(page).getByRole('button', { name: 'Mark seen' }).tap();
    await expect.poll(() => titles(page)).toEqual(['Finished, unseen 1', 'Idle or seen 1']);
    await pocket.expectNoSidewaysScroll();
    await pocket.leave();
  });
});
