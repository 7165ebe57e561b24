/// <reference lib="dom" />
import { expect, test } from 'vitest';
import { agent } from '../support/api.ts';
import { phone } from '../support/browser.ts';
import { createKey, deleteResource, uniqueName, writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the page of the activity', () => {
  const fixture = browserFixture<SharedServer>(() => sharedServer({ runner: false }));

  test('shows who did what, filtered in the URL, with the diff of a catalog write', async () => {
    const { api } = fixture;
    const account = uniqueName('bo');
    const bo = await createKey(api, { role: 'member', account });
    const name = uniqueName('reviewer');
    await writeResource(
      bo.api,
      'persona',
      name,
      { instructions: 'Be terse.\n' },
      { justification: 'A first draft' },
    );
    await writeResource(bo.api, 'persona', name, { instructions: 'Be kind.\n' });
    await deleteResource(bo.api, 'persona', name);
    expectOk(await bo.api.post('/v1/agent/spawn', { agentId: agent(name), description: 'x' }));
    expectOk(await api.post('/v1/agent/kill', { agentId: { ...agent(name), account } }));

    const visitor = await fixture.visit({ path: '/' });
    const { page } = visitor;
    await page.getByRole('link', { name: 'Activity' }).click();
    const rows = page.getByRole('list', { name: 'Activity' }).getByRole('listitem');
    await rows.filter({ hasText: `admin killed the agent of another account ${name}` }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type(name);
    await expect.poll(() => rows.count()).toBe(4);
    expect(await page.evaluate(() => location.search)).toBe(`?q=${name}`);
    const texts = await rows.locator('p:first-child').allTextContents();
    expect(texts).toEqual([
      `admin killed the agent of another account ${name}`,
      `${account} deleted persona ${name}`,
      `${account} wrote persona ${name}`,
      `${account} wrote persona ${name}`,
    ]);
    await rows.nth(3).getByText('A first draft').waitFor();
    await rows.nth(2).getByText('Changes of generation 2').click();
    await rows.nth(2).getByText('-Be terse.').waitFor();
    await rows.nth(2).getByText('+Be kind.').waitFor();
    await rows.nth(1).getByText('Changes of generation 3').click();
    await rows.nth(1).getByText('-Be kind.').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    if (phone.viewport) await page.setViewportSize(phone.viewport);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await visitor.expectNoSidewaysScroll();

    await page.getByLabel('Kind').selectOption('agent');
    await expect.poll(() => rows.count()).toBe(1);
    await page.reload();
    await expect.poll(() => rows.count()).toBe(1);
    await rows.getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { name }).waitFor();
    await page.goBack();
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.getByLabel('Person').fill(`codehost_oauth/${account}`);
    await page.keyboard.press('Enter');
    await expect.poll(() => rows.count()).toBe(3);
    await page.getByLabel('Search activity').fill('nothing has this');
    await page.getByRole('heading', { name: 'Nothing found' }).waitFor();
    await visitor.leave();
  });

  test('shows older records page by page', async () => {
    const account = uniqueName('zoe');
    const { api } = await createKey(fixture.api, { role: 'member', account });
    for (let i = 0; i < 60; i++)
      await writeResource(api, 'persona', `${account}-${i}`, { instructions: String(i) });
    const visitor = await fixture.visit({ path: `/activity?actor=codehost_oauth/${account}` });
    const rows = visitor.page.getByRole('list', { name: 'Activity' }).getByRole('listitem');
    await expect.poll(() => rows.count()).toBe(50);
    await visitor.page.getByRole('button', { name: 'Show older' }).click();
    await expect.poll(() => rows.count()).toBe(60);
    expect(new Set(await rows.allTextContents()).size).toBe(60);
    await visitor.leave();
  });

  test('is not for members', async () => {
    const { key } = await createKey(fixture.api, { role: 'member' });
    const visitor = await fixture.visit({ path: '/activity', key });
    await visitor.page.getByRole('heading', { name: 'Activity is for admins' }).waitFor();
    expect(await visitor.page.getByRole('link', { name: 'Activity' }).count()).toBe(0);
    await visitor.leave();
  });
});
