import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FakeGithub } from '../codehost/github.ts';
import { Scenario } from '../codehost/scenario.ts';
import { Agents } from '../support/agents.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { writeResource } from '../support/catalog.ts';
import { addressOf, panel } from './agent-page.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

describeInBrowser('a code host', () => {
  let scenario: Scenario;
  const fixture = browserFixture(async () => {
    scenario = await Scenario.start(await FakeGithub.start(), { changeRequests: 'manual' });
    const { url, key } = scenario.server;
    return { url, key, close: () => scenario.close() };
  });
  let agents: Agents;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    agents = new Agents(fixture.api, 'project');
    visitor = await fixture.visit();
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  test('the page of an integration turns green with the first delivery, which can be redelivered', async () => {
    await visitor.follow('/catalog/integration/host');
    await page.getByRole('button', { name: 'Connection' }).click();
    const address = page.getByText(/^http\S+\/hooks\/\S+$/);
    await page.getByRole('button', { name: 'Copy webhook address' }).click();
    await page.getByText('Copied').waitFor();
    expect(await visitor.copied()).toBe(await address.innerText());
    const checks = page.getByRole('list', { name: 'Checks' });
    const webhook = checks.getByRole('listitem').filter({ hasText: 'webhook' });
    await checks
      .getByRole('listitem')
      .filter({ hasText: /^ok\s*credential/ })
      .waitFor();
    await webhook.getByText('No delivery has arrived yet.').waitFor();
    await page.getByText('None yet.').waitFor();
    expect(await visitor.accessibilityProblems(checks)).toEqual([]);

    await scenario.host.addIssue('maintainer', 'A question', 'How does it work?');
    const deliveries = page.getByRole('list', { name: 'Deliveries' });
    await deliveries.getByText('opened issues start nothing').waitFor();
    await webhook.filter({ hasText: /^ok/ }).waitFor();
    const redeliver = deliveries.getByRole('button', { name: /^Redeliver issues\.opened/ });
    await redeliver.click();
    await deliveries.getByText('ignored').waitFor();
    await expect.poll(() => redeliver.isEnabled()).toBe(true);
    await page.getByRole('button', { name: 'Test', exact: true }).click();
    await page.getByRole('button', { name: 'Test', exact: true }).waitFor();
    expect(await visitor.accessibilityProblems(page.getByRole('main'))).toEqual([]);
    expect(new URL(page.url()).search).toBe('?view=connection');
  });

  test('a change request is opened, and shows its checks; the list counts it', async () => {
    await agents.spawn('greet', { description: '!write a.txt hello\n!push Greet\n!say Greets people.' });
    await agents.wait('greet');
    await visitor.follow(await addressOf(agents, 'greet'));
    const changes = await panel(page, 'Changes');
    await changes.getByRole('button', { name: 'Open change request' }).click();
    const dialog = page.getByRole('dialog', { name: 'Open change request' });
    await dialog.getByLabel('Title').fill('Greet people');
    await dialog.getByLabel('Draft').check();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await dialog.getByRole('button', { name: 'Open change request' }).click();
    await dialog.waitFor({ state: 'detached' });
    const request = changes.getByRole('list', { name: 'Change requests' }).getByRole('listitem');
    await request.getByRole('link', { name: 'Greet people' }).waitFor();
    await request.getByText(/^team\/\S+#\d+$/).waitFor();
    for (const text of ['draft', 'no checks', 'no review'])
      await request.getByText(text, { exact: true }).waitFor();
    await expect.poll(() => request.getByText('passing').count()).toBe(0);
    await expect.poll(() => changes.getByRole('button', { name: 'Open change request' }).count()).toBe(0);

    const { changeRequests } = await agents.status('greet');
    const { headSha, number } = changeRequests[0] as { headSha: string; number: number };
    await scenario.host.setCheck(headSha, { name: 'unit tests', state: 'FAILED', summary: 'one failed' });
    await request.getByText('1 check failing').waitFor();
    await request.getByText('Failing: unit tests').waitFor();
    expect(await visitor.accessibilityProblems(changes)).toEqual([]);
    await visitor.follow('/');
    const row = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: /^greet/ }) });
    await row.getByText('1 change request').waitFor();
    await row.getByText('checks failing').waitFor();

    await visitor.follow(await addressOf(agents, 'greet'));
    await scenario.host.close(number, 'maintainer');
    await request.getByText('closed', { exact: true }).waitFor();

    const off = { updateMask: 'changeRequests' };
    await writeResource(fixture.api, 'integration', 'host', { changeRequests: 'off' }, off);
    await changes.getByRole('button', { name: 'Open change request' }).click();
    await dialog.getByRole('button', { name: 'Open change request' }).click();
    await dialog.getByRole('alert').getByText('no integration opens change requests in').waitFor();
    await page.keyboard.press('Escape');
  });

  if (onEveryScreen)
    test('works on a phone', async () => {
      const other = await fixture.visit({ path: '/catalog/integration/host?view=connection', ...phone });
      await other.page.getByRole('list', { name: 'Deliveries' }).waitFor();
      await other.page.getByRole('list', { name: 'Checks' }).waitFor();
      await other.expectNoSidewaysScroll();
      expect(await other.accessibilityProblems()).toEqual([]);
      await other.leave();
    });
});
