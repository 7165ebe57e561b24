import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Agents, type Fields } from '../support/agents.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import {
  addressOf,
  distanceFromEnd,
  message,
  rowWith,
  say,
  talker,
  topOf,
  transcriptIn,
} from './agent-page.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

const call = (tool: string, id: string, text: string, more: Fields = {}): Fields => ({
  type: 'TOOL_CALL',
  text,
  data: { tool, id, ...more },
});
const result = (tool: string, id: string, text: string, more: Fields = {}): Fields => ({
  type: 'TOOL_RESULT',
  text,
  data: { tool, id, ...more },
});
const lines = (count: number): string =>
  Array.from({ length: count }, (_, at) => `line ${at + 1}`).join('\n');

/** Entries of a turn by Claude Code and Codex. */
const turnItems: Fields[] = [
  { type: 'SETUP_OUTPUT', text: '$ npm ci\n', data: { command: 'npm ci' } },
  { type: 'SETUP_OUTPUT', text: '\u001b[32madded\u001b[0m 250 packages\n', data: { command: 'npm ci' } },
  { type: 'THINKING', text: '**Where to look**\n\nThe cookie is the likeliest cause.' },
  message('I look at the **session** first.'),
  call('Bash', 'a', 'npm test', { input: { command: 'npm test', description: 'Run the tests' } }),
  result('Bash', 'a', `${lines(60)}\n\u001b[31mFAIL\u001b[0m login.test.ts`, { error: true }),
  call('Edit', 'b', 'Edit src/session.ts', {
    input: { file_path: '/w/src/session.ts', old_string: 'a\nstrict', new_string: 'a\nlax' },
  }),
  result('Edit', 'b', 'The file was updated.'),
  call('Edit', 'e', 'Edit src/long.ts', { input: { file_path: '/w/src/long.ts', new_string: 'cut…' } }),
  result('Edit', 'e', 'Updated.', {
    diff: '--- src/long.ts\n+++ src/long.ts\n@@ -40,2 +40,2 @@\n around\n-was\n+is',
  }),
  call('apply_patch', 'c', 'Edit README.md', { files: ['README.md'] }),
  result('apply_patch', 'c', 'update /w/README.md\n@@ -1,1 +1,1 @@\n-old words\n+new words\n'),
  call('mcp__tracker__create', 'd', 'mcp__tracker__create', { input: { title: 'Cookies', labels: ['bug'] } }),
  result('mcp__tracker__create', 'd', 'created'),
  { type: 'WARNING', text: 'The request to the model failed with 529; retrying (1 of 10).' },
];

describeInBrowser('the transcript', () => {
  const fixture = browserFixture(sharedServer);
  let tenant: TestTenant;
  let rehearsed: Agents;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    tenant = await newTestTenant(fixture.api);
    rehearsed = new Agents(fixture.api, 'default');
    visitor = await fixture.visit();
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const open = async (agents: Agents, path: string) => visitor.follow(await addressOf(agents, path));

  it('shows the task, messages, tool calls and question of a rehearsed agent', async () => {
    await rehearsed.spawn('rehearsed', {
      description: [
        'Try it **once**',
        '!say Here I am',
        '!run printf "\\033[31mred\\033[0m"',
        '!run exit 3',
        '!task add Sweep',
        '!spawn helper !finish Swept',
        '!write broom.txt long',
        '!push First',
        '!usage 100 0 50 0.25',
        '!ask Which broom?',
      ].join('\n'),
    });
    await rehearsed.wait('rehearsed');
    await open(rehearsed, 'rehearsed');
    await rowWith(page, 'Here I am').waitFor();
    await page.getByText('Task for rehearsal-a').waitFor();
    await expect.poll(() => page.locator('strong', { hasText: 'once' }).count()).toBe(1);
    await page.getByText(/Run 1 completed · took \d+s · \$0\.25/).waitFor();
    await page.getByText('Question shown below', { exact: true }).waitFor();
    await page.getByText(/Pushed .* · 1 commit/).waitFor();

    const red = page.getByRole('button', { name: /shell printf/ });
    await expect.poll(() => red.getAttribute('aria-expanded')).toBe('false');
    await red.focus();
    await page.keyboard.press('Enter');
    await expect.poll(() => red.getAttribute('aria-expanded')).toBe('true');
    await page.getByText('red', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'shell exit 3 exit 3' }).waitFor();
    await page.getByRole('button', { name: /task add Sweep done/ }).waitFor();

    const [call] = await rehearsed.timeline('rehearsed', 'TOOL_CALL');
    await red.click();
    await expect.poll(() => red.getAttribute('aria-expanded')).toBe('false');
    await visitor.goto(`${await addressOf(rehearsed, 'rehearsed')}#e${call?.sequence}`);
    await expect.poll(() => red.getAttribute('aria-expanded')).toBe('true');

    await page.getByRole('link', { name: 'rehearsed/helper' }).first().click();
    await page.getByRole('heading', { level: 1, name: 'helper' }).waitFor();
    await page.getByText('Swept').first().waitFor();
  });

  it('shows entries of Claude Code and Codex in one line each, and expands them', async () => {
    await tenant.spawn('worker', { description: 'Fix the login' });
    const claim = await tenant.start('worker');
    await tenant.report(claim, { items: turnItems });
    await open(tenant, 'worker');
    const expand = (name: RegExp) => page.getByRole('button', { name }).click();

    await page.getByRole('button', { name: 'Thinking Where to look' }).click();
    await page.getByText('The cookie is the likeliest cause.').waitFor();
    await page.getByRole('button', { name: /Setup npm ci 1 line/ }).click();
    await page.getByText('added 250 packages').waitFor();

    await expand(/Bash npm test failed/);
    await page.getByText('FAIL login.test.ts').waitFor();
    await page.getByText('Run the tests').waitFor();
    await expect.poll(() => page.getByText(/^line 1$/m).count()).toBe(0);
    await page.getByRole('button', { name: 'Show all 61 lines' }).click();
    await page.getByText(/line 1\nline 2\n/).waitFor();

    await expand(/Edit src\/session\.ts done/);
    await page.locator('[data-side="removed"]', { hasText: '-strict' }).waitFor();
    await page.locator('[data-side="added"]', { hasText: '+lax' }).waitFor();
    await expand(/Edit src\/long\.ts done/);
    await page.locator('[data-side="added"]', { hasText: '+is' }).waitFor();
    await page.getByText('@@ -40,2 +40,2 @@').waitFor();
    await expect.poll(() => page.getByText('cut…').count()).toBe(0);
    await expand(/apply_patch README\.md done/);
    await page.locator('[data-side="removed"]', { hasText: '-old words' }).waitFor();
    await expand(/tracker\.create Cookies done/);
    await page.getByText(/"bug"/).waitFor();
    await page.getByText('The request to the model failed with 529').waitFor();

    await tenant.report(claim, { items: [call('Bash', 'z', 'sleep 60')] });
    await page.getByRole('button', { name: /Bash sleep 60 running/ }).waitFor();
    await tenant.end(claim, 'FAILED', {
      error: { code: 'HARNESS_ERROR', message: 'It broke. Start it again.' },
    });
    await page.getByRole('button', { name: /Bash sleep 60 no result/ }).waitFor();
    await page.getByText('Run 1 failed').first().waitFor();
    await rowWith(page, 'It broke. Start it again.').getByText('HARNESS_ERROR').waitFor();
    await page.getByRole('status').filter({ hasText: 'Error: It broke. Start it again.' }).waitFor();
  });

  it('groups system entries, and shows messages with their text', async () => {
    await tenant.rested('grouped');
    await tenant.queue('grouped', {
      description: 'Also sweep',
      tasks: [{ subject: 'Sweep' }],
      model: 'rehearsal-a',
    });
    await tenant.turn('grouped');
    await open(tenant, 'grouped');
    await rowWith(page, 'Also sweep').getByText('Message', { exact: true }).waitFor();
    await page.getByRole('button', { name: /Message queued/ }).click();
    await page.getByText(/\d\d:\d\d Message queued: Also sweep$/).waitFor();
    await page.getByRole('button', { name: /Run 2 started .* Task to do: Sweep/ }).waitFor();
  });

  it('shows an entry of an unknown type', async () => {
    await tenant.rested('novel');
    await page.route('**/v1/agent/timeline', async (route) => {
      const answer = await route.fetch();
      const body = (await answer.text()).replaceAll('"RUN_STARTED"', '"SOMETHING_NEW"');
      await route.fulfill({ response: answer, body });
    });
    await visitor.goto(await addressOf(tenant, 'novel'));
    await page.getByText('something new').waitFor();
    await page.getByText('Run 1 completed').waitFor();
    await page.unrouteAll();
  });

  it('follows new entries until the reader scrolls away, and again after a return to the end', async () => {
    const claim = await talker(tenant, 'flowing', 60);
    await open(tenant, 'flowing');
    await rowWith(page, 'word 60').waitFor();
    await expect.poll(() => distanceFromEnd(page)).toBeLessThanOrEqual(1);
    await say(tenant, claim, 'first news', `much\n\n${'more words than fit. '.repeat(200)}`, 'last news');
    await rowWith(page, 'last news').waitFor();
    await expect.poll(() => distanceFromEnd(page)).toBeLessThanOrEqual(1);
    const whole = page.viewportSize();
    await page.setViewportSize({ width: 1000, height: 600 });
    await expect.poll(() => distanceFromEnd(page)).toBeLessThanOrEqual(1);

    await transcriptIn(page).hover();
    await page.mouse.wheel(0, -600);
    const jump = page.getByRole('button', { name: /Jump to latest/ });
    await jump.waitFor();
    const before = await transcriptIn(page).evaluate((el) => el.scrollTop);
    await say(tenant, claim, 'unseen 1', 'unseen 2', 'unseen 3');
    await page.getByRole('button', { name: 'Jump to latest · 3 new' }).waitFor();
    expect(await transcriptIn(page).evaluate((el) => el.scrollTop)).toBe(before);
    await jump.click();
    await rowWith(page, 'unseen 3').waitFor();
    await expect.poll(() => distanceFromEnd(page)).toBeLessThanOrEqual(1);
    await expect.poll(() => jump.count()).toBe(0);

    await page.mouse.wheel(0, -300);
    await jump.waitFor();
    await page.mouse.wheel(0, 2000);
    await expect.poll(() => jump.count()).toBe(0);
    await say(tenant, claim, 'seen at once');
    await rowWith(page, 'seen at once').waitFor();
    await expect.poll(() => distanceFromEnd(page)).toBeLessThanOrEqual(1);
    if (whole) await page.setViewportSize(whole);
  });

  it('keeps an expanded row in place while new entries arrive', async () => {
    const claim = await talker(tenant, 'folding', 30);
    await tenant.report(claim, { items: [call('Bash', 'a', 'make'), result('Bash', 'a', lines(200))] });
    await open(tenant, 'folding');
    const row = page.getByRole('button', { name: /Bash make/ });
    await row.waitFor();
    const before = await topOf(row);
    await row.click();
    await page.getByRole('button', { name: 'Show all 200 lines' }).waitFor();
    await expect.poll(() => topOf(row)).toBe(before);
    await page.getByRole('button', { name: 'Show all 200 lines' }).click();
    await page.getByRole('button', { name: 'Show less' }).waitFor();
    const expandedTop = await topOf(row);
    await say(tenant, claim, 'new while expanded');
    await page.getByRole('button', { name: /1 new/ }).waitFor();
    await expect.poll(() => topOf(row)).toBe(expandedTop);
    await row.click();
    await expect.poll(() => row.getAttribute('aria-expanded')).toBe('false');
    await page.keyboard.press('End');
    await rowWith(page, 'new while expanded').waitFor();
    await expect.poll(() => distanceFromEnd(page)).toBeLessThanOrEqual(1);
  });

  it('does not scroll while text is selected', async () => {
    const claim = await talker(tenant, 'selected', 40);
    await open(tenant, 'selected');
    const row = rowWith(page, 'word 40');
    await row.waitFor();
    await row.getByText('word 40').evaluate((element) => getSelection()?.selectAllChildren(element));
    const before = await topOf(row);
    await say(tenant, claim, ...Array.from({ length: 60 }, (_, at) => `later ${at}`));
    await page.getByRole('button', { name: /60 new/ }).waitFor();
    expect(await page.evaluate(() => getSelection()?.toString())).toBe('word 40');
    await expect.poll(() => topOf(row)).toBe(before);
    await transcriptIn(page).hover();
    await page.mouse.wheel(0, 3000);
    await rowWith(page, 'later 59').waitFor();
    expect(await page.evaluate(() => getSelection()?.toString())).toBe('word 40');
    await page.mouse.wheel(0, -3000);
    await row.waitFor();
    await page.mouse.wheel(0, 3000);
    await page.evaluate(() => getSelection()?.removeAllRanges());
    await say(tenant, claim, 'the last');
    await rowWith(page, 'the last').waitFor();
  });

  it('is accessible and fits', async () => {
    await tenant.spawn('looked', { description: 'Look at **this**' });
    const claim = await tenant.start('looked');
    await tenant.report(claim, { items: turnItems });
    await tenant.end(claim, 'COMPLETED', { question: 'Which one?' });
    await open(tenant, 'looked');
    const path = await addressOf(tenant, 'looked');
    const phones = onEveryScreen ? [await fixture.visit({ ...phone, path })] : [];
    for (const reader of [visitor, ...phones]) {
      await rowWith(reader.page, 'Question shown below').waitFor();
      await expect.poll(() => distanceFromEnd(reader.page)).toBeLessThanOrEqual(1);
      for (const name of [/Edit src.session/, /Bash npm test/, /Thinking/])
        await reader.page.getByRole('button', { name }).click();
      await reader.page.locator('[data-side="added"]').first().waitFor();
      const question = reader.page.getByRole('region', { name: 'Question' });
      for (const part of [transcriptIn(reader.page), question])
        expect(await reader.accessibilityProblems(part)).toEqual([]);
      await reader.expectNoSidewaysScroll();
    }
    for (const each of phones) await each.leave();
  });
});
