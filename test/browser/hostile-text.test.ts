import type { Claim } from '@muster/sdk/contract';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Fields } from '../support/agents.ts';
import type { Visitor } from '../support/browser.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { addressOf, message, transcriptIn } from './agent-page.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

const kib256 = 256 * 1024;
const of = (piece: string, length: number): string =>
  piece.repeat(Math.ceil(length / piece.length)).slice(0, length);

/** Each of these would block or crash a page that renders it without limits. */
const hostile: readonly (readonly [what: string, item: Fields])[] = [
  ['5,000 quotes', message('>'.repeat(5_000))],
  ['quotes with blanks', message(of('> ', 15_000))],
  ['lists in lists', message(of('- ', 15_000))],
  ['numbered lists in lists', message(of('1. ', 15_000))],
  ['emphasis in emphasis', message(of('a*b_c', 15_000))],
  ['brackets', message(of('[', 15_000))],
  ['a table of millions of cells', message(`${of('|a', 4_000)}\n${of('|-', 4_000)}\n${of('|a|\n', 4_000)}`)],
  ['one line of 256 KiB', message(of('x', kib256))],
  ['256 KiB of quotes', message(of('>\n', kib256))],
  ['terminal commands', { type: 'SETUP_OUTPUT', text: of('\u001b[3', 100_000), data: { command: 'x' } }],
  [
    'a diff of many lines',
    { type: 'TOOL_RESULT', text: `@@ -1 +1 @@\n${of('+\n', 100_000)}`, data: { tool: 'Bash', id: 'a' } },
  ],
];

describeInBrowser('hostile text by an agent', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let tenant: TestTenant;
  let claim: Claim;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    tenant = await newTestTenant(fixture.api);
    await tenant.spawn('hostile', {});
    claim = await tenant.start('hostile');
    for (const [, item] of hostile) await tenant.report(claim, { items: [item, message('and then?')] });
    await tenant.report(claim, { items: [message('The last word.')] });
    await tenant.spawn('harmless', {});
    const harmless = await tenant.start('harmless');
    const prose = message(of('Words of a reader. ', 15_000));
    await tenant.report(harmless, { items: [prose, message('The last word.')] });
    visitor = await fixture.visit();
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const open = async (path: string) => {
    await visitor.follow(await addressOf(tenant, path));
    await page.getByRole('heading', { level: 1, name: path }).waitFor();
  };

  async function shown(path: string): Promise<void> {
    await open(path);
    await page.getByText('The last word.').waitFor();
  }

  /** For how long the page did not react at most, in milliseconds. */
  async function longestTaskOf(work: () => Promise<void>): Promise<number> {
    const since = await page.evaluate(() => performance.now());
    await work();
    return page.evaluate(
      (since) =>
        new Promise<number>((resolve) => {
          const observer = new PerformanceObserver((list) => {
            const tasks = list.getEntries().filter(({ startTime }) => startTime >= since);
            resolve(Math.max(0, ...tasks.map(({ duration }) => duration)));
          });
          observer.observe({ type: 'longtask', buffered: true });
          // Nothing is observed if no task was long.
          requestIdleCallback(() => resolve(0), { timeout: 1_000 });
        }),
      since,
    );
  }

  test('leaves the page usable: it scrolls through all entries and sends messages', async () => {
    await open('hostile');
    await page.getByText('The last word.').waitFor();
    const transcript = transcriptIn(page);
    await transcript.hover();
    // Scrolls up to the first entry.
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, -2_000);
        return transcript.evaluate((element) => element.scrollTop);
      })
      .toBe(0);
    await page.getByLabel('Message to the agent').fill('Stop that.');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('Stop that.').first().waitFor();
  });

  test.each([
    ['5,000 quotes', '>'.repeat(5_000)],
    ['lists in lists', of('- ', 15_000)],
    ['a table of millions of cells', hostile[6]?.[1].text as string],
  ])('is shown as plain text: %s', async (what, text) => {
    const name = what.replace(/\W+/g, '-');
    await tenant.spawn(name, {});
    const own = await tenant.start(name);
    await tenant.report(own, { items: [message(text), message('The last word.')] });
    const harmlessMs = await longestTaskOf(() => shown('harmless'));
    const hostileMs = await longestTaskOf(() => shown(name));
    expect(hostileMs).toBeLessThan(20 * Math.max(harmlessMs, 100));
    const plain = transcriptIn(page).locator('.markdown-plain').first();
    const start = text.slice(0, 1_000).trim();
    await expect.poll(async () => (await plain.innerText()).startsWith(start)).toBe(true);
  });

  test('right-to-left text does not reorder the text around it, and is visible in code', async () => {
    await tenant.spawn('turned', {});
    const own = await tenant.start('turned');
    const diff = 'diff --git a/a b/a\n@@ -1 +1 @@\n+if (isAdmin) \u202e { return; } \u2066// begin';
    await tenant.report(own, {
      items: [
        message('Look at `a\u202eb`.'),
        { type: 'TOOL_CALL', text: 'git diff', data: { tool: 'Bash', id: 'd' } },
        { type: 'TOOL_RESULT', text: diff, data: { tool: 'Bash', id: 'd' } },
      ],
    });
    await open('turned');
    await page.getByText('a[U+202E]b').waitFor();
    await page
      .getByRole('button', { name: /git diff/ })
      .first()
      .click();
    await page.getByText('[U+202E] { return; } [U+2066]// begin').waitFor();
  });
});
