import { agentPage, type Claim } from '@muster/sdk/contract';
import type { Locator, Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { phone, storedIn } from '../support/browser.ts';
import { createKey, createShareLink, readDocument, writeResource } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { transcriptIn } from './agent-page.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

const repo = 'https://git.example.com/acme/shop';
const diff = `diff --git a/src/a.ts b/src/a.ts\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1 +1 @@\n-old words\n+new words\n`;

describeInBrowser('sharing an agent', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let api: Api;
  let t: TestTenant;
  let claim: Claim;

  beforeAll(async () => {
    api = fixture.api;
    t = await newTestTenant(api, {}, { repos: [repo] });
    await t.spawn('shown', {
      description: 'Rewrite the *checkout*.',
      tasks: [
        { id: 'a', subject: 'Think' },
        { id: 'b', subject: 'Write', blockedBy: ['a'] },
      ],
    });
    claim = await t.start('shown');
    await t.report(claim, {
      currentAction: 'Reading total.ts',
      items: [{ type: 'MESSAGE', text: 'I begin with the totals.' }],
      pushes: [{ repo, ref: claim.branch, commits: ['8e52d10c4b'], files: ['src/a.ts'] }],
      diff: { repo, files: 1, insertions: 1, deletions: 1, text: diff },
    });
    await t.spawn('shown/child');
    await t.spawn('other', { description: 'A secret plan.' });
  });

  const sharingOf = async (path: string, key = fixture.server.key) => {
    const { agentId } = await t.status(path);
    const visitor = await fixture.visit({ key, path: agentPage(agentId) });
    await visitor.page.getByRole('heading', { level: 1 }).waitFor();
    const share = visitor.page.getByRole('region', { name: 'Share', exact: true });
    return { visitor, page: visitor.page, share };
  };
  const unfold = (share: Locator) => share.getByRole('button', { name: 'Share', exact: true }).click();
  /** Opens a URL without a key. */
  const follow = (url: string, options = {}) => fixture.visit({ ...options, path: url, key: '' });
  const until = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor();

  test('a link is created with an expiry, its URL is shown once, and it is listed with its creator until it is revoked', async () => {
    const { visitor, page, share } = await sharingOf('shown');
    await unfold(share);
    await share.getByText('No links yet.').waitFor();
    await share.getByLabel('Expires', { exact: true }).selectOption('1 hour');
    await share.getByRole('button', { name: 'Create link' }).click();
    await share.getByText("It won't be shown again.").waitFor();
    const link = share.getByLabel('Link', { exact: true });
    const url = await link.inputValue();
    expect(url).toMatch(new RegExp(`^${fixture.server.url}/share#mst_`));
    await share.getByRole('button', { name: 'Copy link' }).click();
    await share.getByText('Copied').waitFor();

    const links = share.getByRole('list', { name: 'Links to this agent' });
    await links.getByText(/expires in 59m \d\ds · by admin/).waitFor();
    await links.getByText('Not opened yet').waitFor();
    const name = await links.locator('code').innerText();
    expect(name).toMatch(/^share-shown-[0-9a-f]{4}$/);
    const { document } = await readDocument(api, 'share-link', name);
    expect(document.agentId).toMatchObject({ agent: ['shown'], workspace: t.workspace });

    await share.getByRole('button', { name: 'Done' }).click();
    await link.waitFor({ state: 'detached' });
    expect(await page.content()).not.toContain(url.split('#')[1]);
    expect(await visitor.copied()).toBe(url);

    const reader = await follow(url);
    await until(reader.page, 'I begin with the totals.');
    await reader.page.reload();
    await until(reader.page, 'I begin with the totals.');
    await page.reload();
    await links.getByText(/^Opened once, last \d+s ago$/).waitFor();
    await links.getByRole('button', { name: `Revoke ${name}` }).click();
    await share.getByText('No links yet.').waitFor();
    await reader.page.getByRole('heading', { level: 1, name: 'This link has ended' }).waitFor();
    await expect.poll(() => reader.page.getByText('I begin with the totals.').count()).toBe(0);
    await reader.page.reload();
    await reader.page.getByRole('heading', { level: 1, name: 'This link does not work' }).waitFor();
    await reader.leave();
    await visitor.leave();
  });

  test('the page of a link shows the whole agent live, no commands and no other agent, and is accessible', async () => {
    const { url } = await createShareLink(api, t.id('shown'), { expiresAt: inAnHour() });
    const secret = url.split('#')[1] ?? '';
    const reader = await follow(url);
    const { page } = reader;
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.getByRole('heading', { level: 1, name: 'shown' }).waitFor();
    await until(page, /^working/);
    await until(page, /Shared with you until \d\d:\d\d|Shared with you until \d{4}-/);
    await until(page, 'Reading total.ts');
    await until(page, 'checkout');
    await page.getByText('I begin with the totals.').waitFor();
    await page.getByRole('button', { name: 'Write Blocked' }).waitFor();
    await page.getByRole('region', { name: 'Runs' }).getByRole('button').first().click();
    await page.getByRole('rowheader', { name: '1' }).waitFor();
    await page.getByRole('region', { name: 'Output' }).getByRole('button').first().click();
    await page.getByRole('link', { name: 'Review changes' }).click();
    await page.getByRole('region', { name: 'Diff' }).getByText('new words').waitFor();
    await page.getByRole('button', { name: 'Link to line 1', exact: true }).click();
    await expect.poll(() => page.url()).toContain('/review?file=src%2Fa.ts&line=1');
    expect(await reader.accessibilityProblems()).toEqual([]);
    await page.reload();
    await page.getByRole('link', { name: '← shown' }).click();
    await page.getByRole('button', { name: 'Write Blocked' }).click();
    expect(await reader.accessibilityProblems()).toEqual([]);
    await reader.expectNoSidewaysScroll();

    await t.report(claim, { items: [{ type: 'MESSAGE', text: 'The totals are done.' }] });
    // The message is also shown as the last response.
    await transcriptIn(page).getByText('The totals are done.').waitFor();
    await t.send('agent/tasks/update', 'shown', { id: 'a', status: 'TASK_STATUS_COMPLETED' });
    await page.getByText('1 of 2').waitFor();

    await expect.poll(() => page.getByRole('textbox').count()).toBe(0);
    // To the review, which is part of the page.
    const links = () =>
      page.getByRole('link').evaluateAll((all) => all.map((link) => link.getAttribute('href')));
    await expect.poll(async () => (await links()).every((href) => href?.startsWith('/share/'))).toBe(true);
    await expect.poll(() => page.getByRole('navigation').count()).toBe(0);
    for (const title of ['Tree', 'Share'])
      await expect.poll(() => page.getByRole('region', { name: title }).count()).toBe(0);
    await expect
      .poll(() => page.getByRole('button', { name: /Mark as done|Kill|Stop|Send|New agent/ }).count())
      .toBe(0);

    // The secret is removed from the URL; a reload works, and a copied URL gives nobody access.
    await expect.poll(() => page.url()).toMatch(/\/share\/[0-9a-f-]{36}$/);
    await page.reload();
    await until(page, 'The totals are done.');
    const stranger = await follow(page.url());
    await stranger.page.getByRole('heading', { level: 1, name: 'This link does not work' }).waitFor();
    await stranger.leave();
    expect(asked.filter((address) => address.includes(secret))).toEqual([]);
    expect(await storedIn(page)).not.toContain(secret);
    await reader.leave();
  });

  test('a person who is signed in opens a link and stays signed in', async () => {
    const { url } = await createShareLink(api, t.id('shown'));
    const visitor = await fixture.visit({ path: url });
    await visitor.page.getByText('I begin with the totals.').waitFor();
    await visitor.page.getByText('Read-only access.').waitFor();
    await visitor.goto('/');
    await visitor.page.getByRole('button', { name: 'Account' }).waitFor();
    await visitor.leave();
  });

  test('an invalid link says why it shows nothing', async () => {
    const title = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor();
    const reader = await follow('/share');
    await title(reader.page, 'This share link is incomplete');
    expect(await reader.accessibilityProblems()).toEqual([]);
    await reader.goto('/share#mst_nobody.0123456789abcdef0123456789abcdef0123456789abcdef');
    await title(reader.page, 'This link does not work');
    await reader.goto('/share#garbage');
    await title(reader.page, 'This share link is incomplete');
    await reader.goto(`/share#${fixture.server.key}`);
    await title(reader.page, 'This is not a share link');
    expect(await reader.page.context().cookies()).toEqual([]);
    await reader.goto((await createShareLink(api, t.id('never-spawned'))).url);
    await title(reader.page, 'Agent not found');
    // Another link in the same tab shows the other agent.
    await reader.goto((await createShareLink(api, t.id('other'))).url);
    await title(reader.page, 'other');
    await until(reader.page, 'Shared with you until the link is revoked');
    await reader.leave();
  });

  test('a link that expires while its page is open says so', async () => {
    const { name, url } = await createShareLink(api, t.id('shown'), { expiresAt: inAnHour() });
    const reader = await follow(url);
    await reader.page.getByText('I begin with the totals.').waitFor();
    await writeResource(api, 'share-link', name, { expiresAt: inMs(200) }, { updateMask: 'expiresAt' });
    await reader.page.getByRole('heading', { level: 1, name: 'This link has ended' }).waitFor();
    await reader.leave();
  });

  test('is available to members for their own agents and to operators with a reason, not to viewers', async () => {
    const { key: viewer } = await createKey(api, { role: 'viewer' });
    const looks = await sharingOf('shown', viewer);
    await looks.page.getByRole('region', { name: 'Runs' }).waitFor();
    await expect.poll(() => looks.share.count()).toBe(0);
    await looks.visitor.leave();

    const { key: member } = await createKey(api, { role: 'member', account: 'mia' });
    const passes = await sharingOf('shown', member);
    await passes.page.getByRole('region', { name: 'Runs' }).waitFor();
    await expect.poll(() => passes.share.count()).toBe(0);
    await passes.visitor.leave();

    const { key: operator } = fixture.server.operator;
    const { visitor, share } = await sharingOf('other', operator);
    await unfold(share);
    await share.getByRole('button', { name: 'Create link' }).click();
    await share.getByRole('alert').getByText('justification').waitFor();
    await share.getByLabel('Reason').fill('The auditors asked.');
    await share.getByRole('button', { name: 'Create link' }).click();
    await share.getByLabel('Link', { exact: true }).waitFor();
    await visitor.leave();
  });

  if (onEveryScreen)
    test('the page of a link is accessible on a phone', async () => {
      const { url } = await createShareLink(api, t.id('shown'));
      const reader = await follow(url, phone);
      const { page } = reader;
      await page.getByText('I begin with the totals.').waitFor();
      expect(await reader.accessibilityProblems()).toEqual([]);
      await reader.expectNoSidewaysScroll();
      await page.getByRole('button', { name: 'Tasks and more' }).click();
      await page.getByRole('link', { name: 'Review changes' }).waitFor();
      const panels = page.getByRole('complementary', { name: 'About this agent' });
      expect(await reader.accessibilityProblems(panels)).toEqual([]);
      await reader.expectNoSidewaysScroll();
      await reader.goto('/share');
      await page.getByRole('heading', { level: 1, name: 'This share link is incomplete' }).waitFor();
      expect(await reader.accessibilityProblems()).toEqual([]);
      await reader.leave();
    });
});
