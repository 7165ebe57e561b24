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

const long = Array.from({ length: 90 }, (_, at) => `  const step${at + 1} = ${at + 1};`).join('\n');
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
    remote.commit('main', { 'src/total.ts': before, 'src/long.ts': `${long}\n`, 'docs/old.md': '# Old\n' });
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
  const diffOf = (on: Page) => on.getByRole('region', { name: 'Diff', exact: true });
  const openReview = async (on = page): Promise<Locator> => {
    await (await panel(on, 'Changes')).getByRole('link', { name: 'Review changes' }).click();
    await diffOf(on).waitFor();
    return on.getByRole('main');
  };
  /** Back to the page of the agent. */
  const close = async () => {
    await page.goBack();
    await diffOf(page).waitFor({ state: 'detached' });
  };
  const file = (name: string) => diffOf(page).getByRole('region', { name, exact: true });
  const number = (name: string, line: string) =>
    file(name).getByRole('button', { name: `Comment on line ${line}`, exact: true });
  const textOf = (name: string, lines: string) =>
    file(name).getByRole('textbox', { name: `Comment on ${name}, ${lines}`, exact: true });
  const thread = (within: Locator, place: string) =>
    within.getByRole('region', { name: `Thread on ${place}`, exact: true });
  test('a drag over line numbers comments on all of them; an empty form and a discarded one leave nothing', async () => {
    await visitor.follow(await pushedBy('reviewed'));
    await openReview();
    await number('src/money.ts', '1').hover();
    await page.mouse.down();
    await number('src/money.ts', '3').hover();
    await page.mouse.up();
    const text = textOf('src/money.ts', 'lines 1 to 3');
    await text.waitFor();
    await file('src/money.ts').getByLabel('First line').selectOption('2');
    await textOf('src/money.ts', 'lines 2 to 3').waitFor();
    await page.keyboard.press('Escape');
    await textOf('src/money.ts', 'lines 2 to 3').waitFor({ state: 'detached' });
    await number('src/money.ts', '2').click();
    await textOf('src/money.ts', 'line 2').fill('Half a thought');
    await page.keyboard.press('Escape');
    await file('src/money.ts').getByText('Half a thought').waitFor();
    await file('src/money.ts').getByRole('button', { name: 'Edit' }).click();
    await file('src/money.ts').getByRole('button', { name: 'Discard' }).click();
    await page.getByRole('main').getByText('Select a line number to comment.').waitFor();
    await expect
      .poll(() =>
        page
          .getByRole('main')
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
    await page.getByRole('main').getByText('1 comment', { exact: true }).waitFor();

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
    await page.getByRole('main').getByText('3 comments', { exact: true }).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);

    await page.goBack();
    await (await panel(page, 'Changes')).getByText('Draft review: 3 comments, not sent').waitFor();
    await openReview();
    await page.reload();
    await file('src/money.ts').getByText('decline: the name is public').waitFor();
  });

  test('they are sent as one review, and answered thread by thread', async () => {
    await page.getByRole('main').getByLabel('Summary').fill('Nearly there.');
    await page.getByRole('main').getByRole('button', { name: 'Request changes' }).click();
    await page.getByRole('main').getByText('Review sent: 3 threads.').waitFor();

    const answered = thread(page.getByRole('main'), 'src/total.ts:2');
    await answered.getByText('Resolved', { exact: true }).waitFor();
    await answered.getByText('Done.', { exact: true }).waitFor();
    await expect.poll(() => answered.locator('strong', { hasText: 'one' }).count()).toBe(1);
    await thread(page.getByRole('main'), 'src/total.ts:1-2').getByText('Resolved', { exact: true }).waitFor();
    const declined = thread(page.getByRole('main'), 'src/money.ts:2-3');
    await declined.getByText('Declined').waitFor();
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
    await declined.getByText(/Rename it\. decline/).click();
    await declined.getByText('zero = 0;').waitFor();
    await declined.getByRole('link', { name: 'Show in diff' }).click();
    const shown = thread(page.getByRole('main'), 'src/money.ts:2-3');
    await shown.getByRole('button', { name: 'Reply' }).click();
    await shown.getByRole('textbox', { name: /^Reply to the thread/ }).fill('Then explain it in a comment.');
    await shown.getByRole('button', { name: 'Send reply' }).click();
    // Until the answer of the service is shown, the text is in the form too.
    await shown.getByRole('paragraph').filter({ hasText: 'Then explain it in a comment.' }).waitFor();
    await shown.getByText('Resolved', { exact: true }).waitFor();
    await shown.getByText('Done.', { exact: true }).waitFor();

    await shown.getByRole('button', { name: 'Reopen' }).click();
    await shown.getByText('Answered').waitFor();
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
    await openReview();
    const row = file('src/total.ts').locator('.review-row').filter({ hasText: 'n * (1 + vat)' });
    await row.getByRole('button', { name: 'Comment on line 3', exact: true }).waitFor();
    await thread(row, 'src/total.ts:2').waitFor();
    await close();
    await changes.getByRole('button', { name: 'Show 3 resolved threads' }).click();
    const gone = thread(changes, 'src/money.ts:2-3');
    await gone.getByRole('button').first().click();
    await gone.getByText('zero = 0;').waitFor();
    await expect.poll(() => gone.getByRole('link', { name: 'Show in diff' }).count()).toBe(0);
  });

  test('a viewer reads threads, and can neither comment nor reply', async () => {
    const address = await addressOf(agents, 'reviewed');
    const { key: viewerKey } = await createKey(agents.api, { role: 'viewer' });
    const viewer = await fixture.visit({ path: address, key: viewerKey });
    const diff = await openReview(viewer.page);
    await diff.getByRole('region', { name: 'Thread on src/total.ts:2' }).getByRole('button').first().click();
    await diff.getByText('Done.', { exact: true }).first().waitFor();
    for (const name of [/^Comment on line/, 'Reply', 'Reopen', /^(Request|Approve)/])
      expect(await diff.getByRole('button', { name }).count(), String(name)).toBe(0);
    if (onEveryScreen) expect(await viewer.accessibilityProblems()).toEqual([]);
    await viewer.leave();
  });

  /** An agent that changed two places of a long file, a short one and the name of a third. */
  const read = [
    "!run sed -i 's/step20 = 20/step20 = 21/; s/step70 = 70/step70 = 71/' src/long.ts",
    "!run sed -i 's/0.19/0.2/' src/total.ts",
    '!run mv docs/old.md docs/new.md',
    `!run printf 'const a = "((((";\\n// %s\\n' "$(printf '(%.0s' $(seq 12000))" > src/hostile.ts`,
    '!push Read me',
  ].join('\n');
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? '');

  test('code has colours and changed words, in two columns if one likes, with context on demand', async () => {
    await agents.spawn('read', { description: read });
    await agents.wait('read');
    await visitor.follow(await addressOf(agents, 'read'));
    const changes = await panel(page, 'Changes');
    // A rename is one file, in the head and in the list.
    await expect.poll(() => changes.getByRole('heading').first().innerText()).toContain('4 files +5 −3');
    const listed = changes.getByRole('list', { name: 'Changed files' }).getByRole('listitem');
    await expect.poll(() => listed.count()).toBe(4);
    await openReview();
    const added = file('src/total.ts').locator('.review-line[data-side="added"]');
    await added.locator('.code-keyword', { hasText: 'export' }).waitFor();
    await expect.poll(() => added.locator('.changed-word').textContent()).toBe('2');
    // The long line is plain; the one before it is not.
    await file('src/hostile.ts').locator('.code-string').waitFor();
    expect(await file('src/hostile.ts').getByText('((((((((((').locator('span').count()).toBe(0);

    const code = (text: string) => file('src/long.ts').getByText(text, { exact: true });
    expect(await code('  const step40 = 40;').count()).toBe(0);
    await file('src/long.ts').getByRole('button', { name: '↓ 20 more' }).click();
    await code('  const step40 = 40;').waitFor();
    expect(await code('  const step50 = 50;').count()).toBe(0);
    await file('src/long.ts').getByRole('button', { name: 'Show all 23 lines' }).click();
    await code('  const step50 = 50;').waitFor();

    await page.getByRole('button', { name: 'Split' }).click();
    const pair = file('src/total.ts')
      .locator('.review-pair')
      .filter({ has: page.locator('.changed-word') });
    await expect.poll(() => pair.locator('.review-line').allInnerTexts()).toHaveLength(2);
    if (onEveryScreen) expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.reload();
    await page.getByRole('button', { name: 'Split', pressed: true }).waitFor();
    await page.getByRole('button', { name: 'Unified' }).click();
  });

  test('keys lead to changes, files and threads; viewed files stay viewed until they change', async () => {
    const nav = page.getByRole('navigation', { name: 'Changed files' });
    await page.locator('body').press('j');
    await page.keyboard.press('n');
    await page.keyboard.press('n');
    const second = await focused();
    await page.keyboard.press('n');
    expect(second).toMatch(/^Comment on line \d+/);
    await expect.poll(focused).not.toBe(second);
    await page.keyboard.press('p');
    await expect.poll(focused).toBe(second);
    await nav.getByRole('searchbox', { name: 'Filter files' }).fill('total');
    await expect.poll(() => nav.getByRole('listitem').count()).toBe(1);
    await nav.getByRole('button', { name: /^total/ }).click();
    await page.keyboard.press('v');
    await nav.getByRole('button', { name: /viewed/ }).waitFor();
    await expect.poll(() => file('src/total.ts').locator('code').count()).toBe(0);
    await page.reload();
    await nav.getByText('4 files, 1 viewed').waitFor();
    await agents.queue('read', "!run sed -i 's/0.2/0.21/' src/total.ts\n!push More");
    await agents.wait('read');
    await nav.getByText('4 files, 0 viewed').waitFor();
    await file('src/total.ts').getByText('0.21').waitFor();
  });

  test('a suggestion is a change that the agent gets as text; threads and lines have addresses', async () => {
    await number('src/total.ts', '1').click();
    await file('src/total.ts').getByRole('button', { name: 'Suggest a change' }).click();
    const text = textOf('src/total.ts', 'line 1');
    expect(await text.inputValue()).toBe('```suggestion\nexport const vat = 0.21;\n```\n');
    await text.fill('Like this:\n```suggestion\nexport const vat = 0.22;\n```');
    await page.keyboard.press('Control+Enter');
    await file('src/total.ts').locator('figure [data-side="added"]', { hasText: '0.22' }).waitFor();
    expect(await visitor.accessibilityProblems(file('src/total.ts'))).toEqual([]);
    await page.getByRole('main').getByText('No integration opens change requests for').waitFor();
    await page.getByRole('main').getByRole('link', { name: 'Integrations' }).waitFor();
    await page.getByRole('button', { name: 'Request changes' }).click();
    const opened = thread(file('src/total.ts'), 'src/total.ts:1');
    await opened.getByText('Resolved', { exact: true }).waitFor();
    expect(JSON.stringify(await agents.timeline('read'))).toContain('export const vat = 0.22;');

    const review = `${await addressOf(agents, 'read')}/review`;
    const id = await opened.getAttribute('data-thread');
    await visitor.follow(`${review}?thread=${id}`);
    const focusedThread = () =>
      page.evaluate(() => document.activeElement?.closest('[data-thread]')?.getAttribute('data-thread'));
    await expect.poll(focusedThread).toBe(id);
    // Also a resolved one is expanded.
    await opened.getByText('Like this:').waitFor();
    await visitor.follow(`${review}?file=src%2Flong.ts&line=45`);
    await expect.poll(focused).toBe('Comment on line 45');
    await page.keyboard.press('t');
    await expect.poll(focusedThread).toBe(id);
  });

  test('works on a phone', async () => {
    const other = await fixture.visit({ path: await pushedBy('pocket'), key, ...phone });
    await other.page.getByRole('button', { name: 'Tasks and more' }).tap();
    const diff = await openReview(other.page);
    await diff.getByRole('button', { name: 'Comment on line 2', exact: true }).first().tap();
    await diff.getByRole('textbox', { name: /^Comment on/ }).fill('Too long for a phone? '.repeat(8));
    expect(await other.accessibilityProblems()).toEqual([]);
    await diff.getByRole('button', { name: 'Comment', exact: true }).tap();
    await other.expectNoSidewaysScroll();
    await diff.getByRole('button', { name: 'Request changes' }).tap();
    await diff.getByText('Done.', { exact: true }).waitFor();
    await other.expectNoSidewaysScroll();
    if (onEveryScreen) expect(await other.accessibilityProblems()).toEqual([]);
    await other.leave();
  });
});
