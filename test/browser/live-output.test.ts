import type { Claim } from '@muster/sdk/contract';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Visitor } from '../support/browser.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { addressOf, distanceFromEnd, message, rowWith, say, transcriptIn } from './agent-page.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('live output', () => {
  const fixture = browserFixture(sharedServer);
  let tenant: TestTenant;
  let visitor: Visitor;
  let page: Page;
  let run: Claim;

  beforeAll(async () => {
    tenant = await newTestTenant(fixture.api);
    visitor = await fixture.visit();
    page = visitor.page;
    await tenant.spawn('writer', { description: 'Write a lot' });
    run = await tenant.start('writer');
    await say(tenant, run, ...Array.from({ length: 60 }, (_, at) => `word ${at + 1}`));
    await visitor.follow(await addressOf(tenant, 'writer'));
    await rowWith(page, 'word 60').waitFor();
    await tenant.runner.watched(run);
  });
  afterAll(() => visitor?.leave());

  const rowOf = (text: string) => transcriptIn(page).getByRole('listitem').filter({ hasText: text });

  it('shows a message while it is written, in the row that it keeps', async () => {
    await tenant.runner.say(run, 'The **cookie** is', { key: 'm' });
    await page.getByText('The cookie is', { exact: true }).waitFor();
    // React keeps the element if the row keeps its key.
    await rowOf('The cookie is').evaluate((row) => row.setAttribute('data-seen', 'before'));
    await tenant.runner.say(run, ' too old.', { key: 'm', offset: 17 });
    await page.getByText('The cookie is too old.', { exact: true }).waitFor();
    await expect.poll(() => distanceFromEnd(page)).toBeLessThanOrEqual(1);
    const height = () => rowOf('The cookie is').evaluate((row) => row.getBoundingClientRect().height);
    const before = await height();
    await tenant.report(run, { items: [{ ...message('The **cookie** is too old.'), data: { key: 'm' } }] });
    await rowOf('The cookie is')
      .getByRole('link', { name: /^Entry/ })
      .waitFor({ state: 'attached' });
    expect(await rowOf('The cookie is').count()).toBe(1);
    expect(await rowOf('The cookie is').getAttribute('data-seen')).toBe('before');
    expect(await height()).toBe(before);
    await expect.poll(() => distanceFromEnd(page)).toBeLessThanOrEqual(1);
  });

  it('shows the last line of a thought and of the output of a command, and all of it when expanded', async () => {
    const thought = { key: 't', type: 'THINKING' };
    await tenant.runner.say(run, 'First this.\nThen that', thought);
    const thinking = page.getByRole('button', { name: 'Thinking Then that' });
    await thinking.waitFor();
    const whole = 'First this.\nThen that.';
    await tenant.report(run, { items: [{ type: 'THINKING', text: whole, data: { key: 't' } }] });
    await page.getByRole('button', { name: 'Thinking First this.' }).waitFor();
    await tenant.report(run, {
      items: [{ type: 'TOOL_CALL', text: 'make', data: { tool: 'Bash', id: 'c' } }],
    });
    const output = { key: 'c', type: 'TOOL_RESULT' };
    await tenant.runner.say(run, 'compiling a\n\u001b[32mcompiling b', output);
    const call = page.getByRole('button', { name: /Bash make/ });
    await call.getByText('compiling b', { exact: true }).waitFor();
    await call.click();
    await page.getByText('compiling a\ncompiling b', { exact: true }).waitFor();
    await tenant.runner.say(run, '\nlinking', { ...output, offset: 28 });
    await page.getByText('compiling a\ncompiling b\nlinking', { exact: true }).waitFor();
    const result = { text: 'compiled', data: { tool: 'Bash', id: 'c', key: 'c' } };
    await tenant.report(run, { items: [{ type: 'TOOL_RESULT', ...result }] });
    await page.getByText('compiled', { exact: true }).waitFor();
    expect(await page.getByText('linking').count()).toBe(0);
  });

  it('does not move a reader who has scrolled up, and removes what the run left', async () => {
    await page.getByRole('button', { name: /Bash make/ }).click();
    await transcriptIn(page).evaluate((element) => element.scrollTo(0, 300));
    await page.getByRole('button', { name: /Jump to latest/ }).waitFor();
    const heightOf = () => transcriptIn(page).evaluate(({ scrollHeight }) => scrollHeight);
    const before = await heightOf();
    for (let i = 0; i < 5; i += 1)
      await tenant.runner.say(run, `line ${i}\n\n`, { key: 'rest', offset: i * 8 });
    await expect.poll(heightOf).toBeGreaterThan(before + 100);
    expect(await transcriptIn(page).evaluate(({ scrollTop }) => Math.round(scrollTop))).toBe(300);
    await page.getByRole('button', { name: /Jump to latest/ }).click();
    await page.getByText('line 4', { exact: true }).waitFor();
    await tenant.end(run, 'INTERRUPTED');
    await page
      .getByText(/Run 1 interrupted/)
      .first()
      .waitFor();
    await expect.poll(() => page.getByText('line 4', { exact: true }).count()).toBe(0);
  });
});
