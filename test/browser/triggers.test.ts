/// <reference lib="dom" />
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Visitor } from '../support/browser.ts';
import { sharedServer } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

const run = promisify(execFile);

describeInBrowser('triggers', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    visitor = await fixture.visit({ path: '/catalog/trigger' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const requests = () => page.getByRole('list', { name: 'Requests' });
  const picture = async (name: string) => {
    const folder = process.env.MUSTER_PICTURES;
    if (folder) await page.screenshot({ path: `${folder}/triggers-${name}.png`, fullPage: true });
  };

  test('a new one shows its secret once, with commands that send a request', async () => {
    await page.getByRole('button', { name: 'New trigger' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('alerts');
    await dialog.getByRole('button', { name: 'Open editor' }).click();
    await page.getByRole('button', { name: 'Create trigger' }).click();
    const secret = page.getByRole('dialog', { name: 'Secret of alerts' });
    expect(await secret.getByLabel('Secret', { exact: true }).inputValue()).toMatch(/^whsec_/);
    await secret.getByRole('button', { name: 'Copy commands' }).click();
    await secret.getByText('Copied').waitFor();
    await picture('secret');
    expect(await visitor.accessibilityProblems()).toEqual([]);
    const { stdout } = await run('bash', ['-c', await secret.locator('pre').innerText()]);
    expect(JSON.parse(stdout)).toEqual({});
    await secret.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Connection' }).click();
    await requests()
      .getByRole('link', { name: /^alerts-[0-9a-f]{8}$/ })
      .waitFor();
    expect(await page.content()).not.toMatch(/whsec_\w/);
  });

  test.each([
    ['hmac-sha256', undefined],
    ['hmac-sha256', 'X-Signature'],
    ['bearer', undefined],
    ['bearer', 'X-Token'],
  ])('the commands for %s with the header %s work', async (auth, signatureHeader) => {
    const name = `with-${auth}-${signatureHeader ?? 'default'}`.toLowerCase();
    const document = JSON.stringify({ spawn: {}, auth, signatureHeader });
    const payload = Buffer.from(document).toString('base64');
    await fixture.api.post(`/v1/catalog/trigger/${name}`, { payload });
    await visitor.follow(`/catalog/trigger/${name}`);
    await page.getByRole('button', { name: 'New secret …' }).click();
    await page.getByRole('button', { name: 'Create new secret' }).click();
    const secret = page.getByRole('dialog', { name: `Secret of ${name}` });
    const { stdout } = await run('bash', ['-c', await secret.locator('pre').innerText()]);
    expect(JSON.parse(stdout)).toEqual({});
    await secret.getByRole('button', { name: 'Done' }).click();
  });

  test('its page shows the address, checks, and what became of each request', async () => {
    await visitor.follow('/catalog/trigger/alerts?view=connection');
    const address = page.getByText(/^http\S+\/hooks\/\S+$/).first();
    await page.getByRole('button', { name: 'Copy address' }).click();
    await page.getByText('Copied').waitFor();
    expect(await visitor.copied()).toBe(await address.innerText());
    const checks = page.getByRole('list', { name: 'Checks' });
    await checks
      .getByRole('listitem')
      .filter({ hasText: /^ok\s*request/ })
      .waitFor();
    const done = requests().getByRole('listitem').filter({ hasText: 'done' });
    await done.getByRole('button', { name: /^Redeliver msg_/ }).click();
    await done.waitFor();
    const paused = Buffer.from('{"paused":true}').toString('base64');
    await fixture.api.post('/v1/catalog/trigger/alerts', { payload: paused, updateMask: 'paused' });
    await page.getByRole('button', { name: 'Test', exact: true }).click();
    await checks.getByText(/^The trigger is paused/).waitFor();
    await picture('page-light');
    expect(await visitor.accessibilityProblems(page.getByRole('main'))).toEqual([]);
    await page.emulateMedia({ colorScheme: 'dark' });
    await picture('page-dark');
    expect(await visitor.accessibilityProblems(page.getByRole('main'))).toEqual([]);
    await page.emulateMedia({ colorScheme: 'light' });
    await done.getByRole('link').click();
    await page.getByRole('heading', { name: /^alerts-/ }).waitFor();
  });

  test('nothing is cut off on a phone', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await visitor.follow('/catalog/trigger/alerts?view=connection');
    await requests().getByRole('listitem').first().waitFor();
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(width).toBeLessThanOrEqual(390);
    await picture('page-phone');
    expect(await visitor.accessibilityProblems(page.getByRole('main'))).toEqual([]);
  });
});
