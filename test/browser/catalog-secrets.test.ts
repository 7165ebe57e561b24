/// <reference lib="dom" />
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Api, agent } from '../support/api.ts';
import { until } from '../support/async.ts';
import { phone, storedIn, type Visitor } from '../support/browser.ts';
import {
  createKey,
  createShareLink,
  postResource,
  readDocument,
  secretOfLink,
  uniqueName,
} from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

describeInBrowser('secrets and permissions of the catalog', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let api: Api;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    api = fixture.api;
    await api.post('/v1/agent/spawn', { agentId: agent('shown'), description: 'Work.' });
    visitor = await fixture.visit({ path: '/catalog' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const dialog = () => page.getByRole('dialog');
  const fillNew = async (kind: string, one: string, name: string) => {
    await visitor.follow(`/catalog/${kind}`);
    await button(`New ${one}`).click();
    await dialog().getByLabel('Name').fill(name);
  };
  const whoami = (key: string) =>
    api.as(key).get<{ role: string; account: string; expiresAt: string | null }>('/v1/whoami');

  /** Everything on the page and in its storage. */
  const everything = async () => {
    const shown = await page.evaluate(() =>
      [
        document.documentElement.outerHTML,
        ...Array.from(
          document.querySelectorAll('input, textarea'),
          (field) => (field as HTMLInputElement).value,
        ),
        location.href,
        JSON.stringify(history.state),
      ].join('\n'),
    );
    return `${shown}\n${await storedIn(page)}`;
  };

  test('a form creates a token, and its key is shown once, can be copied, and is not stored; both are accessible', async () => {
    const name = uniqueName('token');
    await fillNew('token', 'token', name);
    await page.getByLabel('Role').selectOption('viewer');
    await page.getByLabel('Account').fill('ada');
    await page.getByLabel('Expires', { exact: true }).selectOption('7 days');
    await page.getByText('As YAML').click();
    await expect
      .poll(() => dialog().innerText())
      .toMatch(new RegExp(`kind: token\\s+name: ${name}\\s+role: viewer\\s+account: ada\\s+expiresAt: `));
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await visitor.expectNoSidewaysScroll();
    await button('Create token').click();
    await page.getByRole('dialog', { name: `Key of ${name}` }).waitFor();
    const secret = await page.getByLabel('Key', { exact: true }).inputValue();
    expect(secret).toMatch(/^mst_\w+\.[\w-]+$/);
    await page.getByText("It won't be shown again.").waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await visitor.expectNoSidewaysScroll();
    await button('Copy key').click();
    await page.getByText('Copied').waitFor();
    expect((await whoami(secret)).body).toMatchObject({ role: 'viewer', account: 'ada' });
    expect(Date.parse((await whoami(secret)).body.expiresAt ?? '')).toBeGreaterThan(
      Date.now() + 6.9 * 86_400_000,
    );
    await button('Done').click();
    await page.getByRole('link', { name: new RegExp(`^${name}`) }).waitFor();
    expect(await everything()).not.toContain(secret.split('.')[1]);
    await page.getByRole('link', { name: new RegExp(`^${name}`) }).click();
    await page.getByText(`key id ${secret.slice(4).split('.')[0]}`).waitFor();
    const why = page.getByLabel(/^Reason/);
    await why.press('Control+v');
    await expect.poll(() => why.inputValue()).toBe(secret);
    await why.fill('');
    await button('History').click();
    await page.getByText('created').waitFor();
    expect(await everything()).not.toContain(secret.split('.')[1]);
    await page.reload();
    await page.getByText('created').waitFor();
    expect(await everything()).not.toContain(secret.split('.')[1]);
  });

  test('rotating a key asks first, and the old key stops working', async () => {
    const { name, key } = await createKey(api, { role: 'viewer' });
    await visitor.follow(`/catalog/token/${name}`);
    await button('New key …').click();
    await dialog().getByText('The old key stops working within 5 seconds').waitFor();
    await button('Create new key').click();
    await page.getByRole('dialog', { name: `Key of ${name}` }).waitFor();
    const fresh = await page.getByLabel('Key', { exact: true }).inputValue();
    expect(fresh).not.toBe(key);
    await page.keyboard.press('Escape');
    await page.getByText('Generation 2').waitFor();
    expect(await everything()).not.toContain(fresh.split('.')[1]);
    expect((await whoami(fresh)).status).toBe(200);
    await until(
      'the old key to end',
      () => whoami(key),
      ({ status }) => status === 401,
    );
    await button('Revoke …').click();
    await dialog().getByText('The key stops working within 5 seconds').waitFor();
    await button('Revoke').click();
    await page.getByRole('heading', { name: 'Tokens', level: 1 }).waitFor();
    await until(
      'the key to end',
      () => whoami(fresh),
      ({ status }) => status === 401,
    );
  });

  test('the form can be continued as text, which shows the secret as well', async () => {
    const name = uniqueName('token');
    await fillNew('token', 'token', name);
    await page.getByLabel('Role').selectOption('runner');
    await page.getByLabel('Pool').fill('night');
    await page.getByLabel('Expires', { exact: true }).selectOption('Never');
    await page.getByText('As YAML').click();
    await button('Continue in editor').click();
    const editor = page.getByRole('textbox', { name: `${name} as YAML` });
    await expect
      .poll(() => editor.inputValue())
      .toBe(`kind: token\nname: ${name}\nrole: runner\npool: night\n`);
    await button('Create token').click();
    const secret = await page.getByLabel('Key', { exact: true }).inputValue();
    expect((await whoami(secret)).body).toMatchObject({ role: 'runner', expiresAt: null });
    await button('Done').click();
    expect(await everything()).not.toContain(secret.split('.')[1]);
    await editor.press('Control+End');
    await page.keyboard.type('rotate: true\n');
    await button('Save').click();
    const fresh = await page.getByLabel('Key', { exact: true }).inputValue();
    expect(fresh).not.toBe(secret);
    await button('Done').click();
    expect(await editor.inputValue()).not.toContain('rotate');
  });

  test('a share link shows one agent until it expires; its URL is shown once', async () => {
    const name = uniqueName('link');
    await fillNew('share-link', 'share link', name);
    await page.getByLabel('Agent').fill('shown · default · admin');
    await page.getByLabel('Expires', { exact: true }).selectOption('Custom …');
    await page.getByLabel('Expires at').fill('2050-01-31T09:00');
    await button('Create share link').click();
    const url = await page.getByLabel('Link', { exact: true }).inputValue();
    expect(url).toMatch(/\/share#mst_/);
    const shown = await api.as(secretOfLink(url)).post('/v1/agent/status', { agentId: agent('shown') });
    expect(shown.status).toBe(200);
    await button('Done').click();
    expect(await everything()).not.toContain(secretOfLink(url).split('.')[1]);
    await page
      .getByRole('link', { name: new RegExp(`^${name}.*expires .*2050.*shown · of admin · in default`) })
      .click();
    await page.getByRole('link', { name: 'shown · of admin · in default' }).waitFor();
    expect(
      await page.getByRole('link', { name: 'shown · of admin · in default' }).getAttribute('href'),
    ).toMatch(/^\/agents\/.*\/default\/shown$/);
  });

  test('an integration has a signing key', async () => {
    const name = uniqueName('hook');
    await fillNew('integration', 'integration', name);
    await page.getByLabel('Type').fill('webhook');
    await button('Create integration').click();
    const secret = await page.getByLabel('Signing key', { exact: true }).inputValue();
    expect(secret.length).toBeGreaterThan(20);
    await button('Done').click();
    expect(await everything()).not.toContain(secret);
    expect((await readDocument(api, 'integration', name)).document).toMatchObject({ type: 'webhook' });
  });

  test('the value of a secret is set and replaced, and never shown again', async () => {
    const name = uniqueName('secret');
    const fingerprintOf = async () => String((await readDocument(api, 'secret', name)).document.fingerprint);
    await fillNew('secret', 'secret', name);
    await dialog().getByLabel('Value').fill('the first value\nof two lines');
    expect(await visitor.accessibilityProblems()).toEqual([]);
    expect(await page.getByText('As YAML').count()).toBe(0);
    await button('Create secret').click();
    await page.getByText(/^Generation 1, saved/).waitFor();
    const first = await fingerprintOf();
    await page.getByText(`fingerprint ${first}`).waitFor();
    expect(await everything()).not.toContain('the first value');
    await button('Replace value …').click();
    expect(await button('Save value').isDisabled()).toBe(true);
    await dialog().getByLabel('Value').fill('the second value');
    await button('Save value').click();
    await page.getByText(/^Generation 2, saved/).waitFor();
    expect(await fingerprintOf()).not.toBe(first);
    expect(await everything()).not.toContain('the second value');
    await page.getByText(`fingerprint ${await fingerprintOf()}`).waitFor();
  });

  test('the page of a secret has no editor; its other fields are shown, and a value is hidden while it is typed', async () => {
    const name = uniqueName('secret');
    await visitor.follow(`/catalog/secret/${name}`);
    await page.getByText('No value is stored yet.').waitFor();
    expect(await page.locator('textarea').count()).toBe(0);
    await button('Set value …').click();
    const value = dialog().getByLabel('Value');
    const style = () =>
      value.evaluate((area) => getComputedStyle(area).getPropertyValue('-webkit-text-security'));
    await value.fill('the typed value');
    expect(await style()).toBe('disc');
    await dialog().getByLabel('Show').check();
    expect(await style()).toBe('none');
    await button('Save value').click();
    await page.getByText(/^Generation 1, saved/).waitFor();
    expect(await everything()).not.toContain('the typed value');
    await postResource(api, 'secret', name, { note: 'ours' }, { updateMask: 'note' });
    await visitor.goto(`/catalog/secret/${name}`);
    await page.getByText('note: ours').waitFor();
    expect(await page.locator('textarea').count()).toBe(0);
    expect(await visitor.accessibilityProblems(page.locator('main'))).toEqual([]);
  });

  test('a new token says as whom it acts, also if it is named like somebody', async () => {
    await createKey(api, { role: 'member', account: 'nora' });
    await fillNew('token', 'token', 'nora');
    await expect.poll(() => dialog().getByLabel('Account').inputValue()).toBe('');
    await dialog().getByText('The key acts as you, admin.').waitFor();
    await dialog().getByText('nora is an account of this tenant, but this key acts as you.').waitFor();
    expect(await visitor.accessibilityProblems(dialog())).toEqual([]);
    await button('Act as nora').click();
    await dialog().getByText('The key acts as nora: what it does is done in that name.').waitFor();
    await button('Create token').click();
    const secret = await page.getByLabel('Key', { exact: true }).inputValue();
    expect((await whoami(secret)).body).toMatchObject({ account: 'nora', role: 'member' });
    await button('Done').click();
    await visitor.follow('/catalog');
  });

  test('expired tokens are marked', async () => {
    const name = uniqueName('old');
    await postResource(api, 'token', name, { role: 'viewer', expiresAt: '2020-01-01T00:00:00Z' });
    await visitor.follow('/catalog/token');
    await page.getByRole('link', { name: new RegExp(`^${name}\\s+expired`) }).click();
    await page.getByText('expired', { exact: true }).waitFor();
  });

  test('a taken name and an invalid account are reported at their fields', async () => {
    const { name } = await createKey(api, { role: 'viewer' });
    await fillNew('token', 'token', name);
    await page.getByText('A token with this name exists.').waitFor();
    const later = uniqueName('token');
    await page.getByLabel('Name').fill(later);
    await createKey(api, { role: 'viewer' }, {}, later);
    await button('Create token').click();
    await page.getByText('A token with this name exists.').waitFor();
    await page.getByLabel('Name').fill(uniqueName('token'));
    await page.getByLabel('Account').fill('a/b');
    await button('Create token').click();
    await dialog().getByText('must be at most 256 characters without control characters').first().waitFor();
    await expect.poll(() => page.getByLabel('Account').getAttribute('aria-invalid')).toBe('true');
  });

  test('a viewer can read everything and change nothing', async () => {
    const { key } = await createKey(api, { role: 'viewer' });
    const guest = await fixture.visit({ path: '/catalog/persona', key });
    const why = 'Read-only access. Your key has the viewer role.';
    await guest.page.getByText(why).waitFor();
    await expect.poll(() => guest.page.getByRole('button', { name: /^New persona/ }).count()).toBe(0);
    await guest.page.getByRole('link', { name: /^planner/ }).click();
    const text = guest.page.getByRole('textbox', { name: /as Markdown/ });
    await text.waitFor();
    await expect.poll(() => text.getAttribute('readonly')).not.toBeNull();
    await guest.page.getByText(why).waitFor();
    await expect
      .poll(() => guest.page.getByRole('button', { name: /^(Save|Delete|Create)/ }).count())
      .toBe(0);
    await guest.page.getByRole('button', { name: 'History' }).click();
    await guest.page.getByRole('heading', { name: 'No history yet' }).waitFor();
    expect(await guest.accessibilityProblems(guest.page.getByRole('main'))).toEqual([]);
    await guest.follow('/catalog/pool/nowhere');
    await guest.page.getByRole('heading', { name: 'No pool “nowhere”' }).waitFor();
    await guest.leave();
  });

  test('a member can write personas, own tokens and own links, and sees why nothing else', async () => {
    const { api: bob, key } = await createKey(api, { role: 'member', account: 'bob' });
    const other = await createKey(api, { role: 'member', account: 'ada' });
    const own = await createKey(bob, { role: 'viewer' });
    const link = await createShareLink(api, agent('shown'));
    const member = await fixture.visit({ path: '/catalog/pool/default', key });
    const at = (name: string) => member.page.getByRole('button', { name, exact: true });
    await member.page
      .getByText(
        'Members can write their own personas, triggers, notifications, tokens, share links and schedules.',
      )
      .waitFor();
    await expect.poll(() => at('Save').count()).toBe(0);
    await member.follow(`/catalog/token/${other.name}`);
    await member.page.getByText('This token belongs to another account.').waitFor();
    await expect.poll(() => at('Revoke …').count()).toBe(0);
    await member.follow(`/catalog/share-link/${link.name}`);
    await member.page.getByText('This share link belongs to another account.').waitFor();
    await member.follow(`/catalog/token/${own.name}`);
    await at('Revoke …').waitFor();
    await member.follow('/catalog/token');
    await at('New token').click();
    await expect
      .poll(() => member.page.getByLabel('Role').locator('option').allInnerTexts())
      .toEqual(['viewer', 'member']);
    await expect.poll(() => member.page.getByLabel('Account').inputValue()).toBe('bob');
    await expect.poll(() => member.page.getByLabel('Account').getAttribute('readonly')).not.toBeNull();
    await member.follow(`/catalog/persona/${uniqueName('mine')}`);
    await at('Create persona').click();
    await member.page.getByText('Saved as generation 1.').waitFor();
    await member.leave();
  });

  test('an operator must give a reason', async () => {
    const key = fixture.server.operator.key;
    const operator = await fixture.visit({ path: '/catalog/persona/noted', key });
    const at = (name: string) => operator.page.getByRole('button', { name, exact: true });
    await at('Create persona').click();
    await operator.page.getByText("is required for an operator's write").waitFor();
    const why = operator.page.getByLabel('Reason', { exact: true });
    await expect.poll(() => why.getAttribute('aria-invalid')).toBe('true');
    await why.fill('A request by mail');
    await at('Create persona').click();
    await operator.page.getByText('Saved as generation 1.').waitFor();
    await at('History').click();
    await operator.page.getByText('A request by mail').waitFor();
    await operator.leave();
  });

  if (onEveryScreen)
    test('the form and the secret are accessible and do not scroll sideways on a phone', async () => {
      const other = await fixture.visit({ path: '/catalog/token', ...phone });
      await other.page.getByRole('button', { name: 'New token' }).click();
      await other.page.getByLabel('Name').fill(uniqueName('token'));
      await other.page.getByText('As YAML').click();
      expect(await other.accessibilityProblems()).toEqual([]);
      await other.expectNoSidewaysScroll();
      await other.page.getByRole('button', { name: 'Create token' }).click();
      await other.page.getByLabel('Key', { exact: true }).waitFor();
      expect(await other.accessibilityProblems()).toEqual([]);
      await other.expectNoSidewaysScroll();
      await other.leave();
    });
});
