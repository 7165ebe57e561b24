import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import type { Visitor } from '../support/browser.ts';
import { sharedServer } from '../support/shared-server.ts';
import { openQueue, openWorking, StatusRequests } from './agent-page.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser("the queue on an agent's page", () => {
  const fixture = browserFixture(sharedServer);
  let agents: Agents;
  let visitor: Visitor;
  let page: Page;
  const statusRequests = new StatusRequests();

  beforeAll(async () => {
    agents = new Agents(fixture.api, 'default');
    visitor = await fixture.visit({ path: '/healthz' });
    page = visitor.page;
    await statusRequests.watch(page);
    await visitor.goto('/');
  });
  afterAll(() => visitor?.leave());

  const working = (path: string) => openWorking(agents, visitor, path);
  const queue = () => page.getByRole('region', { name: 'Queue' });
  const dialog = () => page.getByRole('dialog');

  test('edits a message: what the agent got meanwhile is reported, and the text is kept', async () => {
    await working('late');
    await agents.queue('late', { description: '!say old', reasoningEffort: 'high' });
    await agents.queue('late', 'second');
    await openQueue(page, '2 queued');
    const field = dialog().getByLabel('Message');
    const edit = () =>
      queue()
        .getByRole('button', { name: /^Edit message: !say/ })
        .click();
    await edit();
    await field.fill('!say new');
    await page.keyboard.press('Control+Enter');
    await dialog().waitFor({ state: 'detached' });
    await queue().getByText('!say new').waitFor();
    expect((await agents.status('late')).followUps).toMatchObject([
      { description: '!say new', reasoningEffort: 'high' },
      { description: 'second' },
    ]);

    await edit();
    await field.fill('!say newer');
    // Closing the dialog by mistake does not lose the text.
    await page.keyboard.press('Escape');
    await edit();
    await expect.poll(() => field.inputValue()).toBe('!say newer');
    const release = statusRequests.hold();
    await agents.stop('late', 1);
    await until(
      'it was delivered',
      () => agents.status('late'),
      ({ followUps }) => followUps.length === 0,
    );
    await dialog().getByText('The agent got this message before your change').waitFor();
    await release();
    await expect.poll(() => field.inputValue()).toBe('!say newer');
    await dialog().getByRole('button', { name: 'Send as new message' }).click();
    await until(
      'the new text is answered',
      () => agents.status('late'),
      ({ response }) => response === 'newer',
    );
    await queue().waitFor({ state: 'detached' });
  });

  test('moves messages by button and key, which other pages see, and sends one now', async () => {
    await working('ordered');
    for (const text of ['one', 'two', 'three'])
      await agents.queue('ordered', { followUpId: text, description: `!say ${text}` });
    await openQueue(page, '3 queued');
    const texts = () => queue().locator('.queued-text').allTextContents();
    await page.getByRole('button', { name: 'Move up: !say three' }).click();
    await expect.poll(texts).toEqual(['!say one', '!say three', '!say two']);
    // The button keeps the focus where the message is now.
    await page.keyboard.press('Alt+ArrowUp');
    await expect.poll(texts).toEqual(['!say three', '!say one', '!say two']);
    await page.getByRole('button', { name: 'Move down: !say three' }).press('Enter');
    await expect.poll(texts).toEqual(['!say one', '!say three', '!say two']);
    expect(await agents.timeline('ordered', 'QUEUE_ORDERED')).toHaveLength(3);
    await agents.send('agent/queue/order', 'ordered', { followUpIds: ['two', 'one', 'three'] });
    await expect.poll(texts).toEqual(['!say two', '!say one', '!say three']);

    // The queue has changed, and the page does not know it yet.
    const release = statusRequests.hold();
    await agents.remove('ordered', 'two');
    await page.getByRole('button', { name: 'Move up: !say three' }).click();
    await queue().getByText('Nothing was moved: the queue has changed.').waitFor();
    await release();
    await expect.poll(texts).toEqual(['!say one', '!say three']);

    await page.getByRole('button', { name: 'Send now: !say three' }).click();
    await page.getByRole('menuitem', { name: 'Add to this turn' }).click();
    await queue().getByText('for this turn').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await agents.queue('ordered', { followUpId: 'four', description: '!say four' });
    await page.getByRole('button', { name: 'Send now: !say four' }).click();
    await page.getByRole('menuitem', { name: 'Interrupt the turn' }).click();
    await until(
      'all are delivered, the last one first',
      () => agents.status('ordered'),
      ({ followUps, phaseReason }) => followUps.length === 0 && phaseReason === 'RESTING',
    );
    const delivered = await agents.timeline('ordered', 'FOLLOW_UP_DELIVERED');
    expect(delivered.map(({ followUpId }) => followUpId)[0]).toBe('four');
  });
});
