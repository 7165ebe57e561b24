/// <reference lib="dom" />
import { agentPage, type Claim } from '@muster/sdk/contract';
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { phone, type Visitor } from '../support/browser.ts';
import { readDocument, writeResource } from '../support/catalog.ts';
import { newFakeRunner } from '../support/fake-runner.ts';
import { sharedServer } from '../support/shared-server.ts';
import { TestTenant } from '../support/test-tenant.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('budgets', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let visitor: Visitor;
  let page: Page;
  let tenant: TestTenant;

  beforeAll(async () => {
    tenant = new TestTenant(fixture.api, 'shop', await newFakeRunner(fixture.api, 'default'));
    visitor = await fixture.visit({ path: '/spend' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const budgets = () => page.getByRole('region', { name: 'Budgets', exact: true });
  const item = (name: string, within: Page | Locator = budgets()) =>
    within.getByRole('listitem').filter({ has: page.getByText(name, { exact: true }) });
  const dialog = () => page.getByRole('dialog');
  const amount = () => dialog().getByLabel('Amount in USD');
  const raise = () => dialog().getByRole('button', { name: 'Raise budget' });
  /** The run asks for more than is left, and its runner ends it. */
  const exhaust = async (run: Claim, upToUsd: number) => {
    await tenant.credit(run, upToUsd);
    await tenant.end(run, 'PARKED', { limitUntil: new Date().toISOString() });
  };
  const openAgent = async (path: string) => visitor.goto(agentPage((await tenant.status(path)).agentId));
  const reasonOf = async (path: string) => (await tenant.status(path)).phaseReason;

  test('without any, the page says what they do and links to the catalog', async () => {
    await page.getByText('No budgets. A budget limits what agents may spend.').waitFor();
    await page.getByRole('link', { name: 'New budget' }).click();
    await page.getByRole('heading', { name: 'Budgets', level: 1 }).waitFor();
  });

  test('a budget has a bar, what is spent, reserved and left, and when it resets', async () => {
    const document = { amountUsd: 10, window: 'month', workspace: 'shop' };
    await writeResource(fixture.api, 'budget', 'shop-monthly', document);
    await tenant.spawn('builder', { budgetUsd: 4 });
    const run = await tenant.start('builder');
    await tenant.credit(run, 3);
    await tenant.spend(run, 2.5);
    await visitor.goto('/spend');
    const shop = item('shop-monthly');
    await shop.getByText(/^\$2\.50 spent, \$\d.* reserved, \$\d.* left of \$10\.00$/).waitFor();
    await shop.getByText('workspace shop · per month').waitFor();
    await shop.getByText(/^resets in \d+d/).waitFor();
    await item('builder').getByText('with children · in total').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await exhaust(run, 5);
  });

  test('an agent that is out of budget says why, and continues when its budget is raised there', async () => {
    await openAgent('builder');
    const activity = page.getByRole('region', { name: 'Activity' });
    await activity.getByText(/^The budget of the agent builder of \$4\.00 has .* left/).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await activity.getByRole('button', { name: 'Raise budget builder' }).click();
    await dialog().getByText('The agent continues automatically when enough is left.').waitFor();
    await amount().fill('much');
    await raise().click();
    await dialog().getByText('Enter an amount in USD, such as 20 or 2.50.').waitFor();
    await amount().fill('20');
    await raise().click();
    await dialog().waitFor({ state: 'detached' });
    await expect.poll(() => reasonOf('builder')).not.toBe('BUDGET');
    const raised = expect.objectContaining({ name: 'builder', amountUsd: 20 });
    expect((await tenant.status('builder')).budgets).toContainEqual(raised);
  });

  test('one of the catalog says how many agents wait for it, and an admin raises it', async () => {
    await exhaust(await tenant.start('builder'), 15);
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route('**/v1/usage', (route) => released.then(() => route.continue()));
    await visitor.goto('/spend');
    const shop = item('shop-monthly');
    await shop.getByText('1 agent waits for this budget').waitFor();
    await shop.getByRole('button', { name: 'Raise shop-monthly' }).click();
    // The dialog stays open when the rest of the page has loaded.
    release();
    await page.locator('.spend-chart').waitFor();
    await dialog().getByText('1 agent waits for this budget and continues automatically').waitFor();
    expect(await visitor.accessibilityProblems(dialog())).toEqual([]);
    await amount().fill('100');
    await dialog().getByLabel('Reason (optional)').fill('Release week');
    await raise().click();
    await shop.getByText(/left of \$100\.00$/).waitFor();
    const { document } = await readDocument(fixture.api, 'budget', 'shop-monthly');
    expect(document).toMatchObject({ amountUsd: 100, window: 'month' });
    await expect.poll(() => reasonOf('builder')).not.toBe('BUDGET');
  });

  test('the page of an agent lists its budgets, sets one and removes it', async () => {
    await tenant.spawn('free');
    await openAgent('free');
    await page.getByRole('button', { name: /^Budgets/ }).click();
    await item('shop-monthly').waitFor();
    await budgets().getByRole('button', { name: 'Set budget' }).click();
    await amount().fill('3');
    await dialog().getByRole('button', { name: 'Set budget' }).click();
    await item('free').getByText('$0 spent, $3.00 left of $3.00').waitFor();
    await budgets().getByRole('button', { name: 'Raise free' }).click();
    await dialog().getByRole('button', { name: 'Remove budget' }).click();
    await budgets().getByRole('button', { name: 'Set budget' }).waitFor();
    expect(await visitor.accessibilityProblems(budgets())).toEqual([]);
  });

  test('the dialog for a new agent sets one', async () => {
    await visitor.goto('/');
    await page.getByRole('heading', { name: 'Agents', level: 1 }).waitFor();
    await page.keyboard.press('n');
    await dialog().getByLabel('Task description').fill('Count the tests.');
    await dialog().getByLabel('Name (optional)').fill('counted');
    await dialog().getByText('More options').click();
    const field = dialog().getByLabel('Budget in USD');
    const start = dialog().getByRole('button', { name: 'Start agent' });
    await field.fill('-1');
    await start.click();
    await dialog().getByText('Enter an amount in USD, such as 20 or 2.50.').waitFor();
    await field.fill('7.5');
    await start.click();
    await page.getByRole('heading', { name: 'counted', level: 1 }).waitFor();
    const { budgets: own } = await new TestTenant(fixture.api, 'default', tenant.runner).status('counted');
    expect(own).toMatchObject([{ name: 'counted', amountUsd: 7.5 }]);
  });

  test('who may not raise a budget sees no button for it; a phone does not scroll sideways', async () => {
    const { key } = await writeResource(fixture.api, 'token', 'reader', { role: 'viewer' });
    const reader = await fixture.visit({ ...phone, key: String(key), path: '/spend' });
    await reader.page.getByText('workspace shop · per month').waitFor();
    expect(await reader.page.getByRole('button', { name: /^Raise/ }).count()).toBe(0);
    await reader.expectNoSidewaysScroll();
    await reader.page.setViewportSize({ width: 320, height: 640 });
    await reader.expectNoSidewaysScroll();
    await reader.leave();
  });
});
