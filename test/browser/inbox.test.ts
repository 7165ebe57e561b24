import { agentPage } from '@muster/sdk/contract';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { phone } from '../support/browser.ts';
import { apiWithNewKey } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the inbox', () => {
  const fixture = browserFixture(sharedServer);

  /** A tenant with two members, dana and priya. */
  async function team() {
    const { admin } = await newTenant(fixture.server.operator);
    const member = (account: string) =>
      apiWithNewKey(admin, { role: 'member', ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account });
    const [dana, priya] = await Promise.all([member('dana'), member('priya')]);
    return { admin, dana, mine: new Agents(dana, 'default'), hers: new Agents(priya, 'default') };
  }

  const ask = async (agents: Agents, ...names: string[]) => {
    for (const name of names) {
      await agents.spawn(name, { description: `!ask Which colour for ${name}?` });
      await agents.wait(name);
    }
  };
  const shown = (page: Page) => page.locator('.inbox-agent').getAttribute('aria-label');
  const rows = (page: Page) => page.locator('.inbox-row-name').allTextContents();
  const sections = (page: Page) => page.locator('.inbox-section').allTextContents();
  const answer = (page: Page) => page.getByRole('textbox', { name: 'Your answer' });
  const message = (page: Page) => page.getByRole('textbox', { name: /^(Your answer|Message to the agent)$/ });
  const isFocused = (page: Page) =>
    message(page).evaluate((element) => element === document.activeElement, { timeout: 5_000 });
  const received = async (agents: Agents, name: string) =>
    (await agents.timeline(name, 'FOLLOW_UP_QUEUED')).map(({ text }) => text);

  test('ten questions of ten agents are answered with the keyboard alone, in one page', async () => {
    const { dana, mine } = await team();
    const names = Array.from({ length: 10 }, (_, at) => `q${at}`);
    await ask(mine, ...names);
    const visitor = await fixture.visit({ key: dana.key });
    const { page } = visitor;
    await page.getByText('Which colour for q9?', { exact: true }).waitFor();
    let keys = 0;
    const press = (key: string) => {
      keys += 1;
      return page.keyboard.press(key);
    };
    await press('i');
    await expect.poll(() => rows(page)).toEqual(names);
    await page.getByRole('region', { name: 'Question' }).getByText('Which colour for q0?').waitFor();
    const loaded = await page.evaluate(() => performance.timeOrigin);
    await press('m');
    for (const name of names) {
      await expect.poll(() => shown(page)).toBe(name);
      await expect.poll(() => isFocused(page)).toBe(true);
      await page.keyboard.type(`!say Blue for ${name}.`);
      await press('Control+Enter');
    }
    // Besides the text of the answers.
    expect(keys).toBe(12);
    for (const name of names) {
      await mine.wait(name);
      expect(await received(mine, name)).toEqual([`!say Blue for ${name}.`]);
    }
    expect(await page.evaluate(() => performance.timeOrigin)).toBe(loaded);
    // What they answered is in the inbox in turn, and leaves it with a key each.
    await expect.poll(() => sections(page)).toEqual(['Finished']);
    await page.keyboard.press('Escape');
    for (let left = 10; left > 0; left -= 1) {
      await expect.poll(async () => (await rows(page)).length).toBe(left);
      await page.keyboard.press('e');
    }
    await page.getByRole('heading', { name: 'Nothing needs you' }).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await visitor.leave();
  });

  test('keeps what was typed and the order of the list, whatever happens meanwhile', async () => {
    const { dana, mine } = await team();
    await ask(mine, 'a', 'b', 'c');
    const visitor = await fixture.visit({ key: dana.key, path: '/inbox' });
    const { page } = visitor;
    await expect.poll(() => rows(page)).toEqual(['a', 'b', 'c']);
    await page.keyboard.press('j');
    await expect.poll(() => shown(page)).toBe('b');
    await page.keyboard.press('m');
    await answer(page).pressSequentially('Green');
    // While somebody types, another asks and one above is answered.
    await ask(mine, 'd');
    await mine.queue('a', '!sleep 600');
    await page.locator('.inbox-row[data-over="true"]').getByText('a', { exact: true }).waitFor();
    expect(await rows(page)).toEqual(['a', 'b', 'c']);
    await page.keyboard.press('Alt+ArrowDown');
    await expect.poll(() => shown(page)).toBe('c');
    await expect.poll(() => rows(page)).toEqual(['b', 'c', 'd']);
    await page.locator('.inbox-row', { hasText: 'Draft' }).getByText('b', { exact: true }).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('k');
    await expect.poll(() => answer(page).inputValue()).toBe('Green');
    // The address has the agent; "o" opens the whole page, and "back" leads here again.
    await page.keyboard.press('o');
    await page.getByRole('region', { name: 'Transcript' }).waitFor();
    expect(await answer(page).inputValue()).toBe('Green');
    await page.goBack();
    await expect.poll(() => shown(page)).toBe('b');

    // A colleague answers first.
    await mine.queue('b', '!sleep 600');
    await page.getByRole('alert').getByText('Somebody else has answered this question.').waitFor();
    await message(page).focus();
    await page.keyboard.press('Control+Enter');
    expect(await message(page).inputValue()).toBe('Green');
    expect(await received(mine, 'b')).toEqual(['!sleep 600']);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await expect.poll(() => received(mine, 'b')).toEqual(['!sleep 600', 'Green']);
    await visitor.leave();
  });

  test('shows failures, results and open tasks, and takes "seen" back', async () => {
    const { dana, mine } = await team();
    await mine.spawn('failed', { description: '!fail The disk is full' });
    await mine.spawn('half', { description: '!task add Sweep\n!say Half **done**.' });
    await mine.spawn('done', { description: 'Tidy the shed\n!finish It is tidy.' });
    for (const name of ['failed', 'half', 'done']) await mine.wait(name);
    const visitor = await fixture.visit({ key: dana.key, path: '/inbox' });
    const { page } = visitor;
    const agent = page.locator('.inbox-agent');
    await expect.poll(() => rows(page)).toEqual(['failed', 'half', 'done']);
    await agent.getByText('The disk is full').first().waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.keyboard.press('e');
    await expect.poll(() => sections(page)).toEqual(['Unfinished tasks', 'Finished']);
    await page.getByText('failed is marked seen.').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await expect.poll(() => shown(page)).toBe('failed');
    await expect.poll(() => rows(page)).toEqual(['failed', 'half', 'done']);
    await page.keyboard.press('j');
    await agent.locator('.task-subject', { hasText: 'Sweep' }).waitFor();
    await agent.getByRole('region', { name: 'Response' }).getByText('done').waitFor();
    // What still needs the person stays, last.
    await page.keyboard.press('e');
    await expect.poll(() => sections(page)).toEqual(['Failed', 'Finished', 'Seen, still open']);
    await expect.poll(() => shown(page)).toBe('done');
    await page.keyboard.press('e');
    await page.keyboard.press('g');
    await page.getByRole('region', { name: 'Failed 1' }).waitFor();
    // On the page of an agent, the same keys lead to the next one.
    await page.getByRole('link', { name: 'done' }).click();
    await page.getByRole('button', { name: 'Next 2' }).waitFor();
    await page.keyboard.press(']');
    await page.getByRole('heading', { level: 1, name: 'failed' }).waitFor();
    await page.keyboard.press(']');
    await page.getByRole('heading', { level: 1, name: 'half' }).waitFor();
    await page.keyboard.press('g');
    await page.getByRole('region', { name: 'Failed, seen 1' }).waitFor();
    await visitor.leave();
  });

  test('has the agents of everyone for those who may answer them', async () => {
    const { admin, dana, mine, hers } = await team();
    await ask(mine, 'mine');
    await ask(hers, 'hers');
    const all = await fixture.visit({ key: admin.key, path: '/inbox' });
    await all.page.getByRole('heading', { name: 'Nothing needs you' }).waitFor();
    await all.page.getByRole('button', { name: 'Show everyone’s (2)' }).click();
    await expect.poll(() => rows(all.page)).toEqual(['mine', 'hers']);
    await all.page.locator('.inbox-agent').getByText('of dana').waitFor();
    await all.page.reload();
    await expect.poll(() => rows(all.page)).toEqual(['mine', 'hers']);
    await all.leave();
    const own = await fixture.visit({ key: dana.key, path: '/inbox' });
    await expect.poll(() => rows(own.page)).toEqual(['mine']);
    expect(await own.page.getByRole('group', { name: 'Whose agents' }).count()).toBe(0);
    // An address that names an agent which needs nobody shows it all the same.
    const other = agentPage((await hers.status('hers')).agentId);
    await own.goto(`/inbox?${new URLSearchParams({ agent: other })}`);
    await own.page.getByText('Ask priya to answer or change it.').waitFor();
    await own.leave();
  });

  test('on a phone the question fills the screen, and a swipe or a button shows the next one', async () => {
    const { dana, mine } = await team();
    await ask(mine, 'a', 'b');
    const pocket = await fixture.visit({ key: dana.key, path: '/inbox', ...phone });
    const { page } = pocket;
    await page.getByRole('region', { name: 'Question' }).getByText('Which colour for a?').waitFor();
    await pocket.expectNoSidewaysScroll();
    expect(await pocket.accessibilityProblems()).toEqual([]);
    await page.getByRole('button', { name: 'Next' }).tap();
    await expect.poll(() => shown(page)).toBe('b');
    const question = page.getByRole('region', { name: 'Question' });
    const swipe = async (from: number, to: number) => {
      await question.dispatchEvent('touchstart', {
        touches: [{ identifier: 0, clientX: from, clientY: 300 }],
      });
      await question.dispatchEvent('touchend', {
        changedTouches: [{ identifier: 0, clientX: to, clientY: 310 }],
      });
    };
    await swipe(100, 300);
    await expect.poll(() => shown(page)).toBe('a');
    await page.getByRole('button', { name: 'List' }).tap();
    await page.getByRole('link', { name: /^b/ }).tap();
    await expect.poll(() => shown(page)).toBe('b');
    await answer(page).fill('!say Red.');
    await page.getByRole('button', { name: 'Send answer' }).tap();
    await expect.poll(() => shown(page)).toBe('a');
    await pocket.leave();
  });

  test('Ctrl+K finds pages, agents, resources and actions, and asks before it ends an agent', async () => {
    const { dana, mine } = await team();
    await ask(mine, 'checkout', 'billing');
    const visitor = await fixture.visit({ key: dana.key });
    const { page } = visitor;
    await page.getByRole('link', { name: 'checkout' }).waitFor();
    const field = page.getByRole('combobox', { name: 'Search agents, resources and commands' });
    const chosen = () => page.locator('.palette [aria-selected="true"]').innerText();
    const search = async (text: string) => {
      await page.keyboard.press('Control+k');
      await field.waitFor();
      await page.keyboard.type(text);
    };
    await search('inbx');
    expect(await chosen()).toContain('Inbox');
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.keyboard.press('Enter');
    await expect.poll(() => shown(page)).toBe('checkout');
    // From a field, too: what is typed there stays, also what is typed before the field is there.
    await page.keyboard.press('m');
    await page.keyboard.type('Red');
    await search('bill');
    await expect.poll(chosen).toContain('billing');
    await page.keyboard.press('Escape');
    await expect.poll(() => field.count()).toBe(0);
    expect(await answer(page).inputValue()).toBe('Red');
    expect(await isFocused(page)).toBe(true);
    // The agent at hand.
    await search('kill checkout');
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Kill 1 agent' });
    await dialog.getByRole('button', { name: 'Kill 1 agent' }).click();
    await dialog.getByText('All 1 done.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    expect((await mine.status('checkout')).phase).toBe('PHASE_CANCELED');
    await search('theme dark');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark');
    await search('careful');
    await page.getByText('Nothing found.').waitFor();
    await page.keyboard.press('Escape');
    await search('default workspace');
    await page.getByRole('option', { name: /^default workspace/ }).click();
    await page.getByRole('heading', { level: 1, name: 'default' }).waitFor();
    await page.getByRole('button', { name: 'Commands and search' }).click();
    await field.fill('new schedule');
    await expect.poll(chosen).toMatch(/^New schedule/);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'New schedule' }).waitFor();
    await page.keyboard.press('Escape');
    await expect.poll(() => new URL(page.url()).search).toBe('');
    await visitor.leave();
  });
});
