/// <reference lib="dom" />
import type { ChildProcess } from 'node:child_process';
import { hostname } from 'node:os';
import type { Page } from 'playwright-core';
import { afterAll, expect, test } from 'vitest';
import { resultOf, TestUser } from '../cli/cli.ts';
import { until } from '../support/async.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { createKey, uniqueName } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { useTwoNodes } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

const { secondUrl, ...node } = await useTwoNodes();
const account = uniqueName('mia');
const mia = await createKey(node.api, { role: 'member', account });
const user = new TestUser();
afterAll(() => user.remove());

/** `muster login` at the other node than the one of the page. */
async function startLogin() {
  const child: ChildProcess = user.start(['login', '--url', secondUrl]);
  const done = resultOf(child);
  let text = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  const found = await until(
    'the code',
    async () => /approve the code (\S+)\./.exec(text),
    (match) => match !== null,
  );
  return { code: found?.[1] ?? '', done };
}

describeInBrowser('the sign-in of a command line', () => {
  const fixture = browserFixture(async () => ({ ...node, close: async () => {} }));
  const open = (path: string): Promise<Visitor> => fixture.visit({ path, key: mia.key });
  const fact = (page: Page, term: string) =>
    page.locator('dt', { hasText: term }).locator('xpath=following-sibling::dd[1]');

  test('shows who asks, from where and when, and is approved with the keyboard on another node', async () => {
    const { code, done } = await startLogin();
    const visitor = await open('/device');
    const { page } = visitor;
    await page.getByRole('heading', { name: 'Sign in a command line' }).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await expect
      .poll(() => page.getByLabel('Code').evaluate((field) => field === document.activeElement))
      .toBe(true);
    await page.keyboard.type('zzzz-zzzz');
    await page.keyboard.press('Enter');
    await expect
      .poll(() => page.getByRole('alert').textContent())
      .toContain('no command line waits with this code');
    await page.getByLabel('Code').fill(code.toLowerCase().replace('-', ' '));
    await page.keyboard.press('Enter');
    await page.getByText(code, { exact: true }).waitFor();
    await expect.poll(() => fact(page, 'Program').textContent()).toContain(hostname());
    await expect.poll(() => fact(page, 'Program').textContent()).toContain('It is not verified');
    await expect.poll(() => fact(page, 'Address').textContent()).toBe('127.0.0.1');
    await expect.poll(() => fact(page, 'Asked').textContent()).toMatch(/^\d+s ago/);
    await expect
      .poll(() => fact(page, 'It gets').textContent())
      .toContain(`a key of ${account} with the role member`);
    await page.getByText('If somebody sent you the code').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    if (phone.viewport) await page.setViewportSize(phone.viewport);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await visitor.expectNoSidewaysScroll();
    await page.getByRole('button', { name: 'Deny' }).focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Approved' }).waitFor();
    expect(await done).toMatchObject({ code: 0, out: `${account} (member) at ${secondUrl}\n` });
    await visitor.leave();
  });

  test('opening a link approves nothing, and the person can deny it', async () => {
    const { code, done } = await startLogin();
    const visitor = await open(`/device#${code}`);
    const { page } = visitor;
    await expect.poll(() => page.getByLabel('Code').inputValue()).toBe(code);
    await page.reload();
    const state = async () => (await node.api.as(mia.key).post('/v1/device/show', { userCode: code })).status;
    expect(await state()).toBe(200);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('button', { name: 'Deny' }).click();
    await page.getByRole('heading', { name: 'Denied' }).waitFor();
    expect(await state()).toBe(404);
    expect(await done).toMatchObject({ code: 4 });
    await visitor.leave();
  });

  test('a signed-out person signs in first and then has the code of the link', async () => {
    const { code, done } = await startLogin();
    const visitor = await fixture.visit({ path: `/device#${code}`, key: '' });
    const { page } = visitor;
    await page.getByLabel('Key', { exact: true }).fill(mia.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('button', { name: 'Approve' }).click();
    expect(await done).toMatchObject({ code: 0 });

    await page.getByRole('button', { name: 'Account' }).click();
    await page.getByRole('button', { name: 'Sessions and keys' }).click();
    const rows = page.getByRole('list', { name: 'Keys' }).getByRole('listitem');
    await rows.filter({ hasText: `Command line muster` }).first().waitFor();
    const { keyId } = await user.data<{ keyId: string }>(['whoami']);
    const row = rows.filter({ hasText: keyId });
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await row.getByRole('button', { name: /^Revoke/ }).click();
    await row.getByRole('button', { name: 'Revoke now' }).click();
    await row.waitFor({ state: 'detached' });
    await until(
      'the end of the key',
      () => user.muster(['whoami']),
      ({ code: exitCode }) => exitCode === 4,
    );
    expectOk(await node.api.as(mia.key).get('/v1/whoami'));
    await visitor.leave();
  });
});
