/// <reference lib="dom" />
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { phone, type Visitor } from '../support/browser.ts';
import { createKey, writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { newFakeRunner } from '../support/fake-runner.ts';
import { sharedServer } from '../support/shared-server.ts';
import { browserOf } from '../support/sign-in.ts';
import { newTenant } from '../support/tenants.ts';
import { TestTenant } from '../support/test-tenant.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the pages of a team', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let visitor: Visitor;
  let page: Page;
  let miaKey: string;

  beforeAll(async () => {
    visitor = await fixture.visit();
    page = visitor.page;
    const { key, api } = await createKey(fixture.api, { role: 'member', account: 'mia' });
    miaKey = key;
    await browserOf(fixture.server.url, key);
    expectOk(await api.post('/v1/agent/spawn', { agentId: { agent: ['hers'] }, description: 'x' }));
    await createKey(fixture.api, { role: 'viewer', account: 'vic' });
  });
  afterAll(() => visitor?.leave());

  const isAccessible = async (): Promise<void> => {
    expect(await visitor.accessibilityProblems()).toEqual([]);
    const before = page.viewportSize();
    if (phone.viewport) await page.setViewportSize(phone.viewport);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    if (before) await page.setViewportSize(before);
  };
  const press = (key: string, address: string) =>
    expect
      .poll(async () => {
        await page.keyboard.press(key);
        return new URL(page.url()).pathname;
      })
      .toBe(address);
  const row = (name: string) =>
    page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: new RegExp(`^${name}\\b`) }) });

  test('an admin sees everyone, and finds a person by name', async () => {
    await press('e', '/team');
    await page.getByRole('heading', { name: 'Team', level: 1 }).waitFor();
    expect(await page.title()).toBe('Team · Muster');
    const mia = row('mia');
    await mia.waitFor();
    const cells = await mia.getByRole('cell').allInnerTexts();
    expect(cells.slice(0, 6).map((cell) => cell.replace(/\d+s ago/, 'now'))).toEqual([
      ...['member', 'now', '1', '1', '1', '–'],
    ]);
    // On a phone each row is a card, with its actions on the screen.
    const before = page.viewportSize();
    if (phone.viewport) await page.setViewportSize(phone.viewport);
    const button = mia.getByRole('button', { name: 'Disable mia' });
    const right = await button.evaluate((element) => element.getBoundingClientRect().right);
    expect(right).toBeLessThanOrEqual(phone.viewport?.width ?? 0);
    expect(await mia.innerText()).toContain('code host account');
    if (before) await page.setViewportSize(before);
    // Its own row has no actions.
    expect(await row('admin').getByRole('button').count()).toBe(0);
    await isAccessible();
    await page.keyboard.press('/');
    await page.keyboard.type('MI');
    await row('vic').waitFor({ state: 'detached' });
    expect(await mia.count()).toBe(1);
    await page.getByRole('searchbox').fill('nobody');
    await page.getByText('No account has “nobody” in its name.').waitFor();
    await page.getByRole('searchbox').fill('');
    await mia.waitFor();
  });

  test('it sets a role and disables an account by keyboard, and reads what follows', async () => {
    const mia = row('mia');
    await page.getByRole('button', { name: 'Set the role of mia' }).focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Role of mia' });
    await dialog.getByRole('combobox', { name: 'Role' }).selectOption('viewer');
    await dialog.getByText('mia sees everything and changes nothing.').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await dialog.getByRole('button', { name: 'Set role' }).press('Enter');
    await mia.getByText('set by an admin').waitFor();
    expect(await mia.getByRole('cell').first().innerText()).toContain('viewer');
    const whoami = fixture.api.as(miaKey);
    expect(expectOk(await whoami.get('/v1/whoami'))).toMatchObject({ role: 'viewer' });

    await page.getByRole('button', { name: 'Disable mia' }).press('Enter');
    const confirm = page.getByRole('dialog', { name: 'Disable mia?' });
    await confirm.getByText('1 session and 1 key of mia stop working').waitFor();
    await confirm.getByText('Its 1 live agent stays as it is.').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.keyboard.press('Escape');
    await confirm.waitFor({ state: 'detached' });
    expectOk(await whoami.get('/v1/whoami'));
    await page.getByRole('button', { name: 'Disable mia' }).press('Enter');
    await confirm.getByRole('textbox', { name: /Reason/ }).fill('left the team');
    await confirm.getByRole('button', { name: 'Disable mia' }).press('Enter');
    await mia.getByText('disabled', { exact: true }).waitFor();
    expectError(await whoami.get('/v1/whoami'), 'UNAUTHENTICATED');
    await page.getByRole('button', { name: 'Enable mia' }).press('Enter');
    await page.getByRole('dialog').getByRole('button', { name: 'Enable mia' }).press('Enter');
    await page.getByRole('button', { name: 'Disable mia' }).waitFor();
    expectOk(await whoami.get('/v1/whoami'));
    await mia.getByRole('link', { name: '1' }).press('Enter');
    await page.getByRole('link', { name: 'hers' }).first().waitFor();
  });

  test('someone else reads why the page is empty, and sees its own settings', async () => {
    const { key } = await createKey(fixture.api, { role: 'viewer', account: 'vera' });
    const viewer = await fixture.visit({ path: '/team', key });
    await viewer.page.getByText('Only admins see the members of the organization.').waitFor();
    expect(await viewer.accessibilityProblems()).toEqual([]);
    await viewer.page.getByRole('link', { name: 'Your sessions and keys' }).click();
    const sections = viewer.page.getByRole('region');
    await viewer.page.getByRole('button', { name: /^Sign out/ }).waitFor();
    const names = await sections.evaluateAll((all) => all.map((one) => one.getAttribute('aria-label')));
    expect(names).toEqual(['Your notifications', 'Your sessions', 'Your keys', 'Notifications']);
    await viewer.leave();
  });

  test('the settings have what is set up with its state, and links to where it is changed', async () => {
    await writeResource(fixture.api, 'secret', 'npm-token', { value: 'very secret value' });
    await writeResource(fixture.api, 'token', 'ci', { role: 'viewer' });
    await visitor.goto('/');
    await press(',', '/settings');
    const section = (name: string) => page.getByRole('region', { name, exact: true });
    await section('Your keys').getByText('Token ci').waitFor();
    await section('Secrets').getByRole('link', { name: 'npm-token' }).waitFor();
    await section('Your sessions').getByText('This browser').waitFor();
    await section('Integrations').getByText('No integration.').waitFor();
    expect(await page.getByRole('main').innerText()).not.toContain('very secret value');
    await isAccessible();
    await section('Secrets').getByRole('link', { name: 'npm-token' }).click();
    await expect.poll(() => new URL(page.url()).pathname).toBe('/catalog/secret/npm-token');
  });

  test('a fresh installation says what is left to set up, until an admin dismisses it', async () => {
    const { admin } = await newTenant(fixture.server.operator);
    const fresh = await fixture.visit({ key: admin.key });
    const card = fresh.page.getByRole('region', { name: 'Set up Muster' });
    await card.waitFor();
    const states = () =>
      card.getByRole('listitem').evaluateAll((all) => all.map((li) => li.firstChild?.textContent));
    expect(await states()).toEqual(['to do', 'to do', 'to do', 'to do', 'to do']);
    expect(await fresh.accessibilityProblems(card)).toEqual([]);
    await writeResource(admin, 'workspace', 'shop', { repos: ['https://git.example.com/shop.git'] });
    await fresh.goto('/');
    await expect.poll(states).toEqual(['to do', 'done', 'to do', 'to do', 'to do']);
    await card.getByRole('link', { name: 'Set up notifications: Notification' }).click();
    await expect.poll(() => new URL(fresh.page.url()).pathname).toBe('/notifications');
    await fresh.goto('/');
    await card.getByRole('button', { name: 'Dismiss' }).press('Enter');
    await card.waitFor({ state: 'detached' });
    await fresh.goto('/');
    await fresh.page.getByRole('heading', { name: 'No agents yet' }).waitFor();
    expect(expectOk(await admin.post('/v1/setup', {}))).toMatchObject({ dismissed: true });
    expect(await card.count()).toBe(0);
    await fresh.leave();
  });

  test('a runner that drains takes runs again where it can', async () => {
    const fake = await newFakeRunner(fixture.api, 'default');
    const tenant = new TestTenant(fixture.api, 'shop', fake);
    const capabilities = ['sandbox', 'undrain'];
    await tenant.spawn('builder');
    await tenant.start('builder');
    await fake.poll({ capabilities });
    await visitor.goto('/runners');
    const shown = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: fake.name }) });
    await shown.getByRole('button', { name: 'Drain' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
    await page.getByRole('button', { name: `Undrain ${fake.name}` }).press('Enter');
    await shown.getByText('ready').waitFor();
    expect((await fake.poll({ capabilities, leaving: true })).body).toMatchObject({ undrain: true });
    await page.getByRole('searchbox', { name: 'Search runners' }).fill('no such runner');
    await page.getByText('No runner has “no such runner” in its name.').waitFor();
    await page.getByRole('searchbox', { name: 'Search runners' }).fill(fake.name);
    await shown.waitFor();
  });
});
