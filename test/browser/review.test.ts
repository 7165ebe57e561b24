import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { createKey, uniqueName, writeResource } from '../support/catalog.ts';
import { makeGitRemote } from '../support/git-remote.ts';
import { sharedServer } from '../support/shared-server.ts';
import { addressOf, panel } from './agent-page.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

const before = ['export const vat = 0.19;', 'export const total = (n) => n * vat;', ''].join('\n');
const pushed = [
  "!run printf 'export const vat = 0.2;\\nexport const total = (n) => n * (1 + vat);\\nexport const net = (n) => n;\\n' > src/total.ts",
  "!run printf 'export class Money {\\n  zero = 0;\\n  add = (n) => n;\\n}\\n' > src/money.ts",
  '!push Add money',
].join('\n');

describeInBrowser('a review of the diff', () => {
  const fixture = browserFixture(sharedServer);
  const folder = mkdtempSync(join(tmpdir(), 'muster-review-'));
  let agents: Agents;
  let key: string;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    const remote = makeGitRemote(folder, 'shop');
    remote.commit('main', { 'src/total.ts': before });
    // Other tenants may not use repositories on the runner's machine.
    const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'local' };
    const created = await createKey(
      fixture.server.operator,
      { role: 'admin', account: uniqueName('ada') },
      { ref: { tenant }, justification: 'a test' },
    );
    key = created.key;
    const workspace = uniqueName('shop');
    await writeResource(created.api, 'workspace', workspace, {
      repos: [{ url: `file://${remote.url}`, baseBranch: 'main' }],
    });
    agents = new Agents(created.api, workspace);
    visitor = await fixture.visit({ key });
    page = visitor.page;
  });
  afterAll(async () => {
    await visitor?.leave();
    rmSync(folder, { recursive: true });
  });

  /** An agent that pushed two files. */
  const pushedBy = async (path: string): Promise<string> => {
    await agents.spawn(path, { description: pushed });
    await agents.wait(path);
    return addressOf(agents, path);
  };
  const dialogOf = (on: Page) => on.getByRole('dialog', { name: /^Changes on/ });
  const dialog = () => dialogOf(page);
  const openDiff = async (on = page): Promise<Locator> => {
    await (await panel(on, 'Changes')).getByRole('button', { name: 'Review changes' }).click();
    await dialogOf(on).waitFor();
    return dialogOf(on);
  };
  const file = (name: string) => dialog().getByRole('region', { name, exact: true });
  const number = (name: string, line: string) =>
    file(name).getByRole('button', { name: `Comment on line ${line}`, exact: true });
  const textOf = (name: string, lines: string) =>
    file(name).getByRole('textbox', { name: `Comment on ${name}, ${lines}`, exact: true });
  const thread = (within: Locator, place: string) =>
    within.getByRole('region', { name: `Thread on ${place}`, exact: true });
  const close = async () => {
    await page.keyboard.press('Escape');
    await dialog().waitFor({ state: 'detached' });
  };

  test('a drag over line numbers comments on all of them; an empty form and a discarded one leave nothing', async () => {
    await visitor.follow(await pushedBy('reviewed'));
    await openDiff();
    await number('src/money.ts', '1').hover();
    await page.mouse.down();
    await number('src/money.ts', '3').hover();
    await page.mouse.up();
    const text = textOf('src/money.ts', 'lines 1 to 3');
    await text.waitFor();
    await file('src/money.ts').getByLabel('First line').selectOption('2');
    await textOf('src/money.ts', 'lines 2 to 3').waitFor();
    // Escape closes the form, not the dialog.
    await page.keyboard.press('Escape');
    await textOf('src/money.ts', 'lines 2 to 3').waitFor({ state: 'detached' });
    await number('src/money.ts', '2').click();
    await textOf('src/money.ts', 'line 2').fill('Half a thought');
    await page.keyboard.press('Escape');
    await file('src/money.ts').getByText('Half a thought').waitFor();
    await file('src/money.ts').getByRole('button', { name: 'Edit' }).click();
    await file('src/money.ts').getByRole('button', { name: 'Discard' }).click();
    await dialog().getByText('Select a line number to comment.').waitFor();
    await expect
      .poll(() =>
        dialog()
          .getByRole('region', { name: /^Draft/ })
          .count(),
      )
      .toBe(0);
  });

  test('three comments on two files, by pointer and by keyboard, survive a reload', async () => {
    await number('src/total.ts', '2').click();
    await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).toBe('TEXTAREA');
    await textOf('src/total.ts', 'line 2').fill('Why **one** plus?');
    await file('src/total.ts').getByRole('button', { name: 'Comment', exact: true }).click();
    await file('src/total.ts')
      .getByRole('region', { name: 'Draft comment on src/total.ts, line 2' })
      .waitFor();
    await dialog().getByText('1 comment', { exact: true }).waitFor();

    // Shift and a click extend the range of the open form.
    await number('src/total.ts', '1 before the change').click();
    await number('src/total.ts', '2 before the change').click({ modifiers: ['Shift'] });
    await textOf('src/total.ts', 'lines 1 to 2 before the change').fill('Keep the old name.');
    await page.keyboard.press('Control+Enter');

    // By the keyboard: arrows move, with Shift they choose, Enter comments, and the focus returns to the line.
    await number('src/money.ts', '1').focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Shift+ArrowDown');
    await page.keyboard.press('Enter');
    await textOf('src/money.ts', 'lines 2 to 3').waitFor();
    await page.keyboard.type('Rename it.\ndecline: the name is public');
    await page.keyboard.press('Control+Enter');
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.getAttribute('aria-label')))
      .toBe('Comment on line 3');
    await dialog().getByText('3 comments', { exact: true }).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);

    await page.reload();
    const changes = await panel(page, 'Changes');
    await changes.getByText('Draft review: 3 comments, not sent').waitFor();
    await openDiff();
    await file('src/money.ts').getByText('decline: the name is public').waitFor();
  });

  test('they are sent as one review, and answered thread by thread', async () => {
    await dialog().getByLabel('Summary').fill('Nearly there.');
    await dialog().getByRole('button', { name: 'Send review' }).click();
    await dialog().getByText('Review sent: 3 threads.').waitFor();

    const answered = thread(dialog(), 'src/total.ts:2');
    await answered.getByText('resolved', { exact: true }).waitFor();
    await answered.getByText('Done.', { exact: true }).waitFor();
    await expect.poll(() => answered.locator('strong', { hasText: 'one' }).count()).toBe(1);
    await thread(dialog(), 'src/total.ts:1-2').getByText('resolved', { exact: true }).waitFor();
    const declined = thread(dialog(), 'src/money.ts:2-3');
    await declined.getByText('open, declined').waitFor();
    await declined.getByRole('listitem').nth(1).getByText('the name is public').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    const messages = await agents.timeline('reviewed', 'FOLLOW_UP_DELIVERED');
    expect(messages).toHaveLength(1);
    await close();
    const changes = await panel(page, 'Changes');
    await changes.getByRole('heading', { name: 'Review threads: 1 open, 2 resolved' }).waitFor();
    expect(await visitor.accessibilityProblems(changes)).toEqual([]);
  });

  test('a reply is answered; a thread can be reopened and resolved; the list leads to the diff', async () => {
    const changes = await panel(page, 'Changes');
    const declined = thread(changes, 'src/money.ts:2-3');
    await declined.getByText(/Rename it\.$/).click();
    await declined.getByText('zero = 0;').waitFor();
    await declined.getByRole('button', { name: 'Show in diff' }).click();
    const shown = thread(dialog(), 'src/money.ts:2-3');
    await shown.getByRole('button', { name: 'Reply' }).click();
    await shown.getByRole('textbox', { name: /^Reply to the thread/ }).fill('Then explain it in a comment.');
    await shown.getByRole('button', { name: 'Send reply' }).click();
    // Until the answer of the service is shown, the text is in the form too.
    await shown.getByRole('paragraph').filter({ hasText: 'Then explain it in a comment.' }).waitFor();
    await shown.getByText('resolved', { exact: true }).waitFor();
    await shown.getByText('Done.', { exact: true }).waitFor();

    await shown.getByRole('button', { name: 'Reopen' }).click();
    await shown.getByText('open, answered').waitFor();
    await close();
    await changes.getByRole('heading', { name: 'Review threads: 1 open, 2 resolved' }).waitFor();
    await declined.getByRole('button').first().click();
    await declined.getByRole('button', { name: 'Resolve' }).click();
    await changes.getByRole('heading', { name: 'Review threads: 3 resolved' }).waitFor();
    await changes.getByRole('button', { name: 'Show 3 resolved threads' }).click();
    await expect.poll(() => changes.getByRole('region', { name: /^Thread on/ }).count()).toBe(3);
  });

  test('a thread stays with its lines when they move, and is listed with them when they are gone', async () => {
    await agents.queue(
      'reviewed',
      "!run sed -i '1i // Amounts' src/total.ts\n!run rm src/money.ts\n!push Move",
    );
    await agents.wait('reviewed');
    const changes = await panel(page, 'Changes');
    await changes.getByText('2 pushes').waitFor();
    await openDiff();
    const row = file('src/total.ts').locator('.review-row').filter({ hasText: 'n * (1 + vat)' });
    await row.getByRole('button', { name: 'Comment on line 3', exact: true }).waitFor();
    await thread(row, 'src/total.ts:2').waitFor();
    await close();
    const gone = thread(changes, 'src/money.ts:2-3');
    await gone.getByRole('button').first().click();
    await gone.getByText('zero = 0;').waitFor();
    await expect.poll(() => gone.getByRole('button', { name: 'Show in diff' }).count()).toBe(0);
  });

  test('a viewer reads threads, and can neither comment nor reply', async () => {
    const address = await addressOf(agents, 'reviewed');
    const { key: viewerKey } = await createKey(agents.api, { role: 'viewer' });
    const viewer = await fixture.visit({ path: address, key: viewerKey });
    const diff = await openDiff(viewer.page);
    await diff.getByRole('region', { name: 'Thread on src/total.ts:2' }).getByRole('button').first().click();
    await diff.getByText('Done.', { exact: true }).first().waitFor();
    for (const name of [/^Comment on line/, 'Reply', 'Reopen', 'Send review'])
      expect(await diff.getByRole('button', { name }).count(), String(name)).toBe(0);
    if (onEveryScreen) expect(await viewer.accessibilityProblems()).toEqual([]);
    await viewer.leave();
  });

  test('works on a phone', async () => {
    const other = await fixture.visit({ path: await pushedBy('pocket'), key, ...phone });
    await other.page.getByRole('button', { name: 'Tasks and more' }).tap();
    const diff = await openDiff(other.page);
    await diff.getByRole('button', { name: 'Comment on line 2', exact: true }).first().tap();
    await diff.getByRole('textbox', { name: /^Comment on/ }).fill('Too long for a phone? '.repeat(8));
    expect(await other.accessibilityProblems()).toEqual([]);
    await diff.getByRole('button', { name: 'Comment', exact: true }).tap();
    await other.expectNoSidewaysScroll();
    await diff.getByRole('button', { name: 'Send review' }).tap();
    await diff.getByText('Done.', { exact: true }).waitFor();
    await other.expectNoSidewaysScroll();
    if (onEveryScreen) expect(await other.accessibilityProblems()).toEqual([]);
    await other.leave();
  });
});
