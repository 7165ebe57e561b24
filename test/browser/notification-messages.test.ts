import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Receiver } from '../notify/receiver.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { startServer } from '../support/server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the messages of a notification', () => {
  let receiver: Receiver;
  const fixture = browserFixture(async () => {
    receiver = await Receiver.start();
    return startServer({
      runner: false,
      env: { MUSTER_ALLOW_INNER_HOSTS: new URL(receiver.url).host, MUSTER_SANDBOX: 'off' },
    });
  });
  let visitor: Visitor;
  let page: Page;
  beforeAll(async () => {
    const payload = Buffer.from(JSON.stringify({ url: `${receiver.url}/team` })).toString('base64');
    await fixture.api.post('/v1/catalog/notification/team', { payload });
    visitor = await fixture.visit({ path: '/catalog/notification/team' });
    page = visitor.page;
  });
  afterAll(async () => {
    await visitor?.leave();
    await receiver?.close();
  });

  const picture = async (of: Page, name: string) => {
    const folder = process.env.MUSTER_PICTURES;
    if (folder) await of.screenshot({ path: `${folder}/notification-${name}.png`, fullPage: true });
  };

  test('are listed with what became of them, after a test that says whether it arrived', async () => {
    await page.getByRole('button', { name: 'Connection' }).click();
    await page.getByText('None yet.').waitFor();
    const test = page.getByRole('button', { name: 'Send test message' });
    await test.click();
    const messages = page.getByRole('list', { name: 'Messages' });
    await messages.getByText('sent', { exact: true }).waitFor();
    receiver.answers.set('/team', [{ status: 500, body: 'the disk is full' }]);
    await test.click();
    await page.getByRole('status').getByText('answered 500: the disk is full').waitFor();
    await messages.getByText('failed', { exact: true }).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await picture(page, 'light');
    await messages
      .getByRole('button', { name: /^Redeliver test / })
      .first()
      .click();
    await expect.poll(() => receiver.to('/team').length).toBe(3);
    await page.emulateMedia({ colorScheme: 'dark' });
    await picture(page, 'dark');
    expect(await visitor.accessibilityProblems()).toEqual([]);
  });

  test('fit on a phone', async () => {
    const small = await fixture.visit({ path: '/catalog/notification/team?view=connection', ...phone });
    await small.page.getByRole('list', { name: 'Messages' }).waitFor();
    await picture(small.page, 'phone');
    expect(await small.accessibilityProblems()).toEqual([]);
    await small.leave();
  });
});
