/// <reference lib="dom" />
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, agent, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { closeContexts, hasChromium, phone, sharedChromium, storedIn, Visitor } from '../support/browser.ts';
import {
  createKey,
  createShareLink,
  postResource,
  readDocument,
  secretOfLink,
  uniqueName,
} from '../support/catalog.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

describe.skipIf(!hasChromium)('secrets of the catalog, and who may what', () => {
  let server: SharedServer;
  let browser: Browser;
  let visitor: Visitor;
  let page: Page;
  let api: Api;

  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer({ runner: false }), sharedChromium()]);
    api = apiOf(server);
    await api.post('/v1/agent/spawn', { agentId: agent('shown'), description: 'Work.' });
    visitor = await Visitor.arrive(browser, server, { path: '/catalog' });
    page = visitor.page;
  });
  afterAll(async () => {
    await visitor?.leave();
    await closeContexts(browser);
    await server?.close();
  });

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const dialog = () => page.getByRole('dialog');
  const make = async (kind: string, one: string, name: string) => {
    await visitor.follow(`/catalog/${kind}`);
    await button(`New ${one}`).click();
    await dialog().getByLabel('Name').fill(name);
  };
  const whoami = (key: string) =>
    api.as(key).get<{ role: string; account: string; expiresAt: string | null }>('/v1/whoami');

  /** Everywhere that a page could keep something. */
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

  test('a token is made by a form, its key shown once, copied, and gone after', async () => {
    const name = uniqueName('token');
    await make('token', 'token', name);
    await page.getByLabel('Role').selectOption('viewer');
    await page.getByLabel('Account').fill('ada');
    await page.getByLabel('Expires', { exact: true }).selectOption('7 days');
    await page.getByText('As YAML').click();
    await expect
      .poll(() => dialog().innerText())
      .toMatch(new RegExp(`kind: token\\s+name: ${name}\\s+role: viewer\\s+account: ada\\s+expiresAt: `));
    await button('Make the token').click();
    await page.getByRole('dialog', { name: `The token ${name} is made` }).waitFor();
    const secret = await page.getByLabel('Key', { exact: true }).inputValue();
    expect(secret).toMatch(/^mst_\w+\.[\w-]+$/);
    await page.getByText("It won't be shown again.").waitFor();
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
    const why = page.getByLabel(/^Why/);
    await why.press('Control+v');
    await expect.poll(() => why.inputValue()).toBe(secret);
    await why.fill('');
    await button('History').click();
    await page.getByText('made it').waitFor();
    expect(await everything()).not.toContain(secret.split('.')[1]);
    await page.reload();
    await page.getByText('made it').waitFor();
    expect(await everything()).not.toContain(secret.split('.')[1]);
  });

  test('a key is rotated after a question, and the old one ends', async () => {
    const { name, key } = await createKey(api, { role: 'viewer' });
    await visitor.follow(`/catalog/token/${name}`);
    await button('New key …').click();
    await dialog().getByText('The old one stops working within 5 seconds').waitFor();
    await button('Make a new key').click();
    await page.getByRole('dialog', { name: `The key of ${name}` }).waitFor();
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
    await dialog().getByText('Its key stops working within 5 seconds').waitFor();
    await button('Revoke it').click();
    await page.getByRole('heading', { name: 'Tokens', level: 1 }).waitFor();
    await until(
      'the key to end',
      () => whoami(fresh),
      ({ status }) => status === 401,
    );
  });

  test('the form can be left for the text, and a secret comes from there as well', async () => {
    const name = uniqueName('token');
    await make('token', 'token', name);
    await page.getByLabel('Role').selectOption('runner');
    await page.getByLabel('Pool').fill('night');
    await page.getByLabel('Expires', { exact: true }).selectOption('Never');
    await page.getByText('As YAML').click();
    await button('Go on in the editor').click();
    const editor = page.getByRole('textbox', { name: `${name} as YAML` });
    await expect
      .poll(() => editor.inputValue())
      .toBe(`kind: token\nname: ${name}\nrole: runner\npool: night\n`);
    await button('Make the token').click();
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

  test('a share link shows one agent until it ends; its address is shown once', async () => {
    const name = uniqueName('link');
    await make('share-link', 'share link', name);
    await page.getByLabel('Agent').fill('shown · default · admin');
    await page.getByLabel('Expires', { exact: true }).selectOption('Custom …');
    await page.getByLabel('Expires at').fill('2050-01-31T09:00');
    await button('Make the share link').click();
    const url = await page.getByLabel('Link', { exact: true }).inputValue();
    expect(url).toMatch(/\/share#mst_/);
    const shown = await api.as(secretOfLink(url)).post('/v1/agent/status', { agentId: agent('shown') });
    expect(shown.status).toBe(200);
    await button('Done').click();
    expect(await everything()).not.toContain(secretOfLink(url).split('.')[1]);
    await page
      .getByRole('link', { name: new RegExp(`^${name}.*until .*2050.*shown · of admin · in default`) })
      .click();
    await page.getByRole('link', { name: 'shown · of admin · in default' }).waitFor();
    expect(
      await page.getByRole('link', { name: 'shown · of admin · in default' }).getAttribute('href'),
    ).toMatch(/^\/agents\/.*\/default\/shown$/);
  });

  test('an integration has a signing key', async () => {
    const name = uniqueName('hook');
    await make('integration', 'integration', name);
    await page.getByLabel('Type').fill('webhook');
    await button('Make the integration').click();
    const secret = await page.getByLabel('Signing key', { exact: true }).inputValue();
    expect(secret.length).toBeGreaterThan(20);
    await button('Done').click();
    expect(await everything()).not.toContain(secret);
    expect((await readDocument(api, 'integration', name)).document).toMatchObject({ type: 'webhook' });
  });

  test('what has expired is marked', async () => {
    const name = uniqueName('old');
    await postResource(api, 'token', name, { role: 'viewer', expiresAt: '2020-01-01T00:00:00Z' });
    await visitor.follow('/catalog/token');
    await page.getByRole('link', { name: new RegExp(`^${name}\\s+expired`) }).click();
    await page.getByText('expired', { exact: true }).waitFor();
  });

  test('a name that is taken, and a time in a wrong form, are said at their fields', async () => {
    const { name } = await createKey(api, { role: 'viewer' });
    await make('token', 'token', name);
    await page.getByText('There is a token of this name already.').waitFor();
    const later = uniqueName('token');
    await page.getByLabel('Name').fill(later);
    await createKey(api, { role: 'viewer' }, {}, later);
    await button('Make the token').click();
    await page.getByText('There is a token of this name already.').waitFor();
    await page.getByLabel('Name').fill(uniqueName('token'));
    await page.getByLabel('Account').fill('a/b');
    await button('Make the token').click();
    await dialog().getByText('must be at most 256 characters without control characters').first().waitFor();
    await expect.poll(() => page.getByLabel('Account').getAttribute('aria-invalid')).toBe('true');
  });

  test('a viewer reads everything and is offered nothing', async () => {
    const { key } = await createKey(api, { role: 'viewer' });
    const guest = await Visitor.arrive(browser, server, { path: '/catalog/persona', key });
    const why = 'Your key is a viewer’s: it reads the catalog and changes nothing.';
    await guest.page.getByText(why).waitFor();
    await expect.poll(() => guest.page.getByRole('button', { name: /^New persona/ }).count()).toBe(0);
    await guest.page.getByRole('link', { name: /^planner/ }).click();
    const text = guest.page.getByRole('textbox', { name: /as Markdown/ });
    await text.waitFor();
    await expect.poll(() => text.getAttribute('readonly')).not.toBeNull();
    await guest.page.getByText(why).waitFor();
    await expect.poll(() => guest.page.getByRole('button', { name: /^(Save|Delete|Make)/ }).count()).toBe(0);
    await guest.page.getByRole('button', { name: 'History' }).click();
    await guest.page.getByRole('heading', { name: 'Nobody has written it yet' }).waitFor();
    expect(await guest.barriers()).toEqual([]);
    await guest.follow('/catalog/pool/nowhere');
    await guest.page.getByRole('heading', { name: 'There is no pool “nowhere”' }).waitFor();
    await guest.leave();
  });

  test('a member writes personas, its own tokens and links, and is told why not the rest', async () => {
    const { api: bob, key } = await createKey(api, { role: 'member', account: 'bob' });
    const other = await createKey(api, { role: 'member', account: 'ada' });
    const own = await createKey(bob, { role: 'viewer' });
    const link = await createShareLink(api, agent('shown'));
    const member = await Visitor.arrive(browser, server, { path: '/catalog/pool/default', key });
    const at = (name: string) => member.page.getByRole('button', { name, exact: true });
    await member.page.getByText('Members write personas, share links and their own tokens.').waitFor();
    await expect.poll(() => at('Save').count()).toBe(0);
    await member.follow(`/catalog/token/${other.name}`);
    await member.page.getByText('This token belongs to another account.').waitFor();
    await expect.poll(() => at('Revoke …').count()).toBe(0);
    await member.follow(`/catalog/share-link/${link.name}`);
    await member.page.getByText('This link shows another account’s agent.').waitFor();
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
    await at('Make the persona').click();
    await member.page.getByText('Saved as generation 1.').waitFor();
    await member.leave();
  });

  test('an operator gives a reason, and is told so at the field', async () => {
    const key = server.operator.key;
    const operator = await Visitor.arrive(browser, server, { path: '/catalog/persona/noted', key });
    const at = (name: string) => operator.page.getByRole('button', { name, exact: true });
    await at('Make the persona').click();
    await operator.page.getByText("is required for an operator's write").waitFor();
    const why = operator.page.getByLabel('Why');
    await expect.poll(() => why.getAttribute('aria-invalid')).toBe('true');
    await why.fill('A request by mail');
    await at('Make the persona').click();
    await operator.page.getByText('Saved as generation 1.').waitFor();
    await at('History').click();
    await operator.page.getByText('A request by mail').waitFor();
    await operator.leave();
  });

  test.each([
    ['on a desk', {}],
    ['on a phone', phone],
  ] as const)('the forms and the secret pass axe, and fit, %s', async (_, options) => {
    const other = await Visitor.arrive(browser, server, { path: '/catalog/token', ...options });
    await other.page.getByRole('button', { name: 'New token' }).click();
    await other.page.getByLabel('Name').fill(uniqueName('token'));
    await other.page.getByText('As YAML').click();
    expect(await other.barriers()).toEqual([]);
    await other.fits();
    await other.page.getByRole('button', { name: 'Make the token' }).click();
    await other.page.getByLabel('Key', { exact: true }).waitFor();
    expect(await other.barriers()).toEqual([]);
    await other.fits();
    await other.leave();
  });
});
