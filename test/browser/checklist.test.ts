import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { phone, type Visitor } from '../support/browser.ts';
import { createKey, writeResource } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { addressOf, fileDiff, panel, push, repo } from './agent-page.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

describeInBrowser("the checklist on an agent's page", () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let t: TestTenant;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    t = await newTestTenant(fixture.api, {}, { repos: [repo] });
    visitor = await fixture.visit();
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const open = async (path: string) => visitor.follow(await addressOf(t, path));
  /** Another person or another device. */
  const visit = async (path: string, options: Parameters<typeof fixture.visit>[0]) =>
    fixture.visit({ ...options, path: await addressOf(t, path) });

  const task = (list: Locator, subject: string | RegExp): Locator =>
    list.getByRole('listitem').filter({ has: list.page().getByRole('button', { name: subject }) });
  const subjects = (list: Locator): Promise<string[]> =>
    list
      .locator('ol > li > button')
      .allInnerTexts()
      .then((texts) => texts.map((text) => text.replace(/\n+/g, ': ')));

  test('lists tasks after their blockers, each with its state and the reason; all panels are accessible', async () => {
    await writeResource(fixture.api, 'persona', 'checker', { tasks: [{ subject: 'Lint everything' }] });
    await t.spawn('ordered', {
      persona: 'checker',
      tasks: [
        { id: 'ship', subject: 'Ship it', blockedBy: ['test'] },
        { id: 'test', subject: 'Test it', blockedBy: ['write'], description: 'With **all** browsers.' },
        { id: 'write', subject: 'Write it' },
        { id: 'docs', subject: 'Describe it', activation: { filesModified: { pattern: 'src/**' } } },
        { id: 'now', subject: 'Say hello', ephemeral: true },
      ],
    });
    const claim = await t.start('ordered');
    await open('ordered');
    const list = await panel(page, 'Checklist');
    await list.getByText('0 of 6').waitFor();
    await expect
      .poll(async () => (await subjects(list)).filter((text) => !text.startsWith('Lint')))
      .toEqual([
        'Write it: To do',
        'Test it: Blocked',
        'Ship it: Blocked',
        'Describe it: Inactive',
        'Say hello: To do',
      ]);
    await list.getByText('From persona checker').waitFor();
    await list.getByText('Removed after this turn').waitFor();
    await list.getByText('Active when a push changes src/**').waitFor();

    await t.send('agent/tasks/update', 'ordered', { id: 'write', status: 'TASK_STATUS_COMPLETED' });
    await t.report(claim, push(claim, ['src/a.ts'], fileDiff('src/a.ts', 2)));
    await list.getByText('1 of 6').waitFor();
    await list.getByRole('button', { name: 'Write it Done' }).waitFor();
    await list.getByRole('button', { name: 'Test it To do' }).waitFor();
    await list.getByText('Active: a push changed src/**').waitFor();
    await list.getByRole('button', { name: 'Describe it To do' }).waitFor();
    await expect.poll(() => list.getByRole('progressbar').getAttribute('value')).toBe('1');

    const phones = onEveryScreen ? [await visit('ordered', phone)] : [];
    for (const each of phones) await each.page.getByRole('button', { name: 'Tasks and more' }).click();
    for (const reader of [visitor, ...phones]) {
      const panels = reader.page.getByRole('complementary', { name: 'About this agent' });
      for (const title of ['Checklist', 'Changes', 'Runs', 'Tree', 'Output', 'Details', 'Share'])
        await panel(reader.page, title);
      await panels.getByRole('button', { name: 'Test it To do' }).click();
      await panels.getByRole('rowheader', { name: '1' }).getByRole('link').waitFor();
      expect(await reader.accessibilityProblems(panels)).toEqual([]);
      await reader.expectNoSidewaysScroll();
      await panels.getByRole('link', { name: 'Review changes' }).click();
      await reader.page.getByRole('region', { name: 'Diff' }).getByText('src/a.ts line 0').waitFor();
      expect(await reader.accessibilityProblems()).toEqual([]);
      await reader.expectNoSidewaysScroll();
    }
    for (const each of phones) await each.leave();
  });

  test('the agent’s own plan is beside the checklist, and the use of its context in the details', async () => {
    await t.spawn('planned', { tasks: [{ subject: 'Ship it' }] });
    const claim = await t.start('planned');
    await open('planned');
    await panel(page, 'Checklist');
    expect(await page.getByRole('region', { name: 'Agent’s plan' }).count()).toBe(0);
    const plan = (status: string) => ({
      type: 'PLAN',
      text: 'A summary',
      data: {
        steps: [
          { text: 'Read the code', status: 'COMPLETED' },
          { text: 'Write a test', status },
        ],
      },
    });
    const context = { usedTokens: 150_000, windowTokens: 200_000 };
    await t.report(claim, { items: [plan('IN_PROGRESS')], context });
    const steps = await panel(page, 'Agent’s plan');
    await steps.getByText('1 of 2').waitFor();
    expect(await steps.getByRole('listitem').allInnerTexts()).toEqual([
      'Read the code\nDone',
      'Write a test\nIn progress',
    ]);
    const text = 'The context was compacted from 150k to 9k tokens.';
    await t.report(claim, { items: [plan('COMPLETED'), { type: 'COMPACTION', text }], context });
    await steps.getByText('2 of 2').waitFor();
    await page.getByText(text).waitFor();
    await page.getByRole('button', { name: 'Plan A summary' }).first().click();
    const details = await panel(page, 'Details');
    await details.getByText('150k of 200k tokens (75 %)').waitFor();
    await details.getByRole('progressbar', { name: '150k of 200k tokens (75 %)' }).waitFor();

    const phones = onEveryScreen ? [await visit('planned', phone)] : [];
    for (const each of phones) await each.page.getByRole('button', { name: 'Tasks and more' }).click();
    for (const reader of [visitor, ...phones]) {
      await panel(reader.page, 'Agent’s plan');
      expect(await reader.accessibilityProblems()).toEqual([]);
      await reader.expectNoSidewaysScroll();
    }
    for (const each of phones) await each.leave();
    await t.end(claim);
    await page.getByText(/context: 150k of 200k tokens \(75 %\)/).waitFor();
  });

  test('an expanded task links to the tasks it depends on and blocks', async () => {
    await t.spawn('pointing', {
      tasks: [
        { id: 'a', subject: 'First' },
        { id: 'b', subject: 'Second', blockedBy: ['a'], description: 'With **all** browsers.' },
        { id: 'c', subject: 'Third', blockedBy: ['b'] },
      ],
    });
    await open('pointing');
    const list = await panel(page, 'Checklist');
    const second = task(list, /^Second/).first();
    await second.getByRole('button', { name: /^Second/ }).click();
    await second.getByText('all', { exact: true }).waitFor();
    const toThird = second.getByRole('button', { name: 'Third', exact: true });
    await toThird.hover();
    await page.locator('li[data-highlighted="true"]').filter({ hasText: 'Third' }).waitFor();
    await toThird.click();
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toContain('Third');
  });

  test('adds, completes, reopens and deletes tasks', async () => {
    await t.spawn('changed', { tasks: [{ id: 'a', subject: 'First' }] });
    await open('changed');
    const list = await panel(page, 'Checklist');
    await list.getByLabel('New task').fill('Second');
    await list.getByText('More options').click();
    await list.getByLabel('Description').fill('At the end.');
    await list.getByLabel('Blocked by').selectOption('First');
    await list.getByLabel('Active when pushed').fill('src/**');
    await list.getByLabel('New task').press('Enter');
    const second = task(list, /^Second/).first();
    await second.waitFor();
    await expect.poll(() => list.getByLabel('New task').inputValue()).toBe('');
    expect((await t.tasks('changed')).at(-1)).toMatchObject({
      subject: 'Second',
      description: 'At the end.',
      blockedBy: ['a'],
      activation: { filesModified: { pattern: 'src/**' } },
    });

    await second.getByRole('button', { name: /^Second/ }).click();
    await second.getByRole('button', { name: 'Mark as done' }).click();
    // The service names ids; people know subjects.
    await second.getByRole('alert').getByText('blocked by “First”, which is not completed').waitFor();

    const first = task(list, /^First/).first();
    await first.getByRole('button', { name: /^First/ }).click();
    await first.getByRole('button', { name: 'Mark as done' }).click();
    await list.getByRole('button', { name: 'First Done' }).waitFor();
    await first.getByRole('button', { name: 'Reopen' }).click();
    await list.getByRole('button', { name: 'First In progress' }).waitFor();
    await first.getByRole('button', { name: 'Delete' }).click();
    await first.getByRole('button', { name: 'Delete permanently' }).click();
    await list.getByText('1 deleted task').click();
    await list.getByRole('button', { name: 'First Deleted' }).waitFor();
    await list.getByText('0 of 1').waitFor();

    await list.getByLabel('New task').fill('x'.repeat(1025));
    await list.getByRole('button', { name: 'Add' }).click();
    await list.getByRole('alert').getByText('1024').waitFor();
  });

  test('is read-only without permission, as are the labels, and for an ended agent', async () => {
    await t.spawn('looked-at', { tasks: [{ subject: 'First' }], labels: { tier: '1' } });
    const { key } = await createKey(fixture.api, { role: 'viewer', account: 'vera' });
    const other = await visit('looked-at', { key });
    const list = await panel(other.page, 'Checklist');
    await list.getByRole('button', { name: /^First/ }).click();
    await list.getByText('No description').waitFor();
    await expect.poll(() => list.getByRole('button', { name: /Mark|Delete|Add/ }).count()).toBe(0);
    await expect.poll(() => other.page.getByRole('region', { name: 'Share' }).count()).toBe(0);
    const details = await panel(other.page, 'Details');
    await details.getByText('tier=1', { exact: true }).waitFor();
    await expect.poll(() => details.getByLabel('New label').count()).toBe(0);
    await other.leave();

    await t.spawn('ended');
    await t.kill('ended');
    await open('ended');
    await (await panel(page, 'Checklist')).getByText('No tasks yet.').waitFor();
    await expect.poll(() => page.getByLabel('New task').count()).toBe(0);
  });
});
