import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FakeGithub } from '../codehost/github.ts';
import { Scenario } from '../codehost/scenario.ts';
import { Agents } from '../support/agents.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { writeResource } from '../support/catalog.ts';
import { makeGitRemote } from '../support/git-remote.ts';
import { addressOf, panel } from './agent-page.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

describeInBrowser('a code host', () => {
  let scenario: Scenario;
  const fixture = browserFixture(async () => {
    scenario = await Scenario.start(await FakeGithub.start(), { changeRequests: 'manual' });
    const { url, key } = scenario.server;
    return { url, key, close: () => scenario.close() };
  });
  const folder = mkdtempSync(join(tmpdir(), 'muster-repos-'));
  let agents: Agents;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    agents = new Agents(fixture.api, 'project');
    visitor = await fixture.visit();
    page = visitor.page;
  });
  afterAll(async () => {
    await visitor?.leave();
    rmSync(folder, { recursive: true });
  });

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
    await deliveries
      .getByText('the issue was opened; only a label, a mention or an assignment starts an agent')
      .waitFor();
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

    await visitor.follow('/catalog/change-request');
    const record = page.locator('.resource-list').getByRole('link');
    await record.getByText(/^draft · Greet people · http/).waitFor();
    expect(await record.innerText()).not.toMatch(/undefined|builtin|generation/);
    await record.click();
    await page.getByText(/compared with its host/).waitFor();
    expect(await page.getByText(/Builtin|override/).count()).toBe(0);

    await visitor.follow(await addressOf(agents, 'greet'));
    await scenario.host.review(number, {
      by: 'reviewer',
      verdict: 'CHANGES_REQUESTED',
      threads: [{ path: 'a.txt', line: 1, body: 'Say **who**.\ndecline: everybody is greeted' }],
    });
    await request.getByText('changes requested').waitFor();
    await request.getByText(/threads on lines: 1 open/).waitFor();
    await changes.getByRole('link', { name: 'Review changes' }).click();
    const thread = page
      .getByRole('region', { name: 'Diff' })
      .getByRole('region', { name: 'a.txt', exact: true })
      .getByRole('region', { name: 'Thread on a.txt:1', exact: true });
    await thread.getByText('Declined').waitFor();
    const [question, answer] = [thread.getByRole('listitem').first(), thread.getByRole('listitem').last()];
    await question.getByText('Say who.').waitFor();
    await answer.getByText('everybody is greeted').waitFor();
    expect(await question.getByRole('link', { name: 'open at host' }).getAttribute('href')).toMatch(
      new RegExp(`^${scenario.host.url}/`),
    );
    expect(await visitor.accessibilityProblems(thread)).toEqual([]);
    await page.goBack();

    // Without rounds left, the next comment waits until a person writes.
    const mask = { updateMask: 'rounds' };
    await writeResource(fixture.api, 'integration', 'host', { rounds: 0 }, mask);
    await scenario.host.comment({ type: 'change-request', number }, 'And the dog?', 'reviewer');
    await request.getByText(/^Paused: .* Send the agent a message to resume\.$/).waitFor();
    await writeResource(fixture.api, 'integration', 'host', { rounds: 10 }, mask);
    await agents.queue('greet', 'Go on.');
    await request.getByText(/^Paused/).waitFor({ state: 'detached' });
    await scenario.host.close(number, 'maintainer');
    await request.getByText('closed', { exact: true }).waitFor();

    // The verdict of a review opens the next one.
    await changes.getByRole('link', { name: 'Review changes' }).click();
    await page.getByRole('button', { name: 'Approve and open change request' }).click();
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await page.goBack();

    const off = { updateMask: 'changeRequests' };
    await writeResource(fixture.api, 'integration', 'host', { changeRequests: 'off' }, off);
    await changes.getByRole('button', { name: 'Open change request' }).click();
    await dialog.getByRole('button', { name: 'Open change request' }).click();
    await dialog.getByRole('alert').getByText('the integration "host" has changeRequests: off').waitFor();
    await page.keyboard.press('Escape');
  });

  test('of several repositories, those that an integration covers are offered', async () => {
    const other = makeGitRemote(folder, 'other');
    other.commit('main', { 'README.md': '# Other' });
    const repos = [`file://${other.url}`, scenario.host.gitUrl];
    await writeResource(fixture.api, 'workspace', 'pair', {
      repos: repos.map((url) => ({ url, baseBranch: 'main' })),
      model: 'rehearsal-a',
    });
    await writeResource(
      fixture.api,
      'integration',
      'host',
      { changeRequests: 'manual' },
      { updateMask: 'changeRequests' },
    );
    const pair = new Agents(fixture.api, 'pair');
    await pair.spawn('both', { description: '!write project/c.txt c\n!write other/d.txt d\n!push Both' });
    await pair.wait('both');
    await visitor.follow(await addressOf(pair, 'both'));
    const changes = await panel(page, 'Changes');
    await changes.getByRole('button', { name: 'Open change request' }).click();
    const dialog = page.getByRole('dialog', { name: 'Open change request' });
    const submit = dialog.getByRole('button', { name: 'Open change request' });
    await dialog.getByLabel('Title').fill('Both');
    expect(await dialog.getByLabel('Repository').count()).toBe(0);
    await submit.click();
    await dialog.waitFor({ state: 'detached' });
    const request = changes.getByRole('list', { name: 'Change requests' }).getByRole('listitem');
    await request.getByRole('link', { name: 'Both' }).waitFor();
    expect(await visitor.accessibilityProblems(changes)).toEqual([]);
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
