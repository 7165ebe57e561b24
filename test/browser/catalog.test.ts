/// <reference lib="dom" />
import { kinds } from '@muster/sdk/contract';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { kindWords } from '../../packages/dashboard/src/catalog/kind-words.ts';
import { type Api, apiOf } from '../support/api.ts';
import { closeContexts, hasChromium, phone, sharedChromium, Visitor } from '../support/browser.ts';
import { postResource, readDocument, uniqueName } from '../support/catalog.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

describe.skipIf(!hasChromium)('the catalog', () => {
  let server: SharedServer;
  let browser: Browser;
  let api: Api;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer({ runner: false }), sharedChromium()]);
    api = apiOf(server);
    await postResource(api, 'workspace', 'storefront', {
      repos: [{ url: 'https://git.example.com/shop/storefront.git', baseBranch: 'main' }],
      model: 'claude-opus-4-8',
    });
    await postResource(api, 'workspace', 'payments', {
      repos: ['https://git.example.com/shop/payments.git'],
    });
    visitor = await Visitor.arrive(browser, server, { path: '/catalog' });
    page = visitor.page;
  });
  afterAll(async () => {
    await visitor?.leave();
    await closeContexts(browser);
    await server?.close();
  });

  const heading = (name: string) => page.getByRole('heading', { name, level: 1 });
  const editor = () => page.getByRole('textbox', { name: / as (YAML|Markdown)/ });
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  /** Changes that are not saved are let go. */
  const go = async (path: string) => {
    if (await button('Discard changes').isVisible()) await visitor.goto(path);
    else await visitor.follow(path);
  };
  const open = async (kind: string, name: string) => {
    await go(`/catalog/${kind}/${name}`);
    await heading(name).waitFor();
  };
  const errors = () => page.getByRole('list', { name: 'Errors' });
  const lines = (...of: string[]) => `${of.join('\n')}\n`;
  const caretAtEnd = () => editor().press('Control+End');

  describe('is browsed', () => {
    test('by kind, each with what it is for and how many there are', async () => {
      await go('/catalog');
      await heading('Catalog').waitFor();
      const links = page.locator('main').getByRole('link');
      for (const title of ['Workspaces', 'Personas', 'Tokens', 'Share links', 'Change requests'])
        await expect.poll(() => links.filter({ hasText: title }).count()).toBeGreaterThan(0);
      await links.filter({ hasText: 'Personas' }).filter({ hasText: '3' }).waitFor();
      await links
        .filter({ hasText: 'Workspaces' })
        .filter({ hasText: 'The repositories that an agent works in' })
        .click();
      await heading('Workspaces').waitFor();
      await expect.poll(() => new URL(page.url()).pathname).toBe('/catalog/workspace');
    });

    test('with name, summary, generation, and who changed it when', async () => {
      await go('/catalog/workspace');
      const row = page.getByRole('link', { name: /^storefront/ });
      await row.waitFor();
      await expect
        .poll(() => row.innerText())
        .toMatch(/storefront · model claude-opus-4-8\s+generation 1\s+admin\s+\d+[sm] ago/);
      await expect.poll(() => page.getByRole('link', { name: /^default/ }).innerText()).toContain('builtin');
    });

    test('by a search that stands in the address', async () => {
      await go('/catalog/workspace');
      await heading('Workspaces').waitFor();
      await page.keyboard.press('/');
      await page.keyboard.type('payments');
      await page.getByRole('link', { name: /^storefront/ }).waitFor({ state: 'detached' });
      await page.waitForURL('**/catalog/workspace?q=payments');
      await page.keyboard.press('Enter');
      await page.keyboard.press('Enter');
      await heading('payments').waitFor();
      await go('/catalog?q=opus');
      await page.getByRole('link', { name: /^storefront\s*workspace/ }).waitFor();
      await go('/catalog/workspace?q=zebra');
      await page.getByText('None of the 3 has “zebra” in its name or summary.').waitFor();
    });

    test('where there is nothing yet it says what would be there', async () => {
      await go('/catalog/integration');
      await page.getByRole('heading', { name: 'No integrations yet' }).waitFor();
      await page.getByText('muster apply -f integration.yaml').waitFor();
      await go('/catalog/change-requests');
      await page.getByRole('heading', { name: 'No change requests yet' }).waitFor();
      await expect.poll(() => page.getByRole('button', { name: /^New change/ }).count()).toBe(0);
      await go('/catalog/zoo');
      await page.getByRole('heading', { name: 'There is no kind “zoo”' }).waitFor();
    });

    test('every kind has its page', async () => {
      for (const kind of kinds) {
        await go(`/catalog/${kind}`);
        await heading(kindWords[kind].title).waitFor();
        await page.getByText(kindWords[kind].purpose).waitFor();
        await expect.poll(() => page.getByRole('alert').count()).toBe(0);
      }
    });
  });

  describe('is written', () => {
    test('a new resource is named, written from an example, and stored', async () => {
      const name = uniqueName('pool');
      await go('/catalog/pool');
      await button('New pool').click();
      await page.getByLabel('Name').fill('no spaces!');
      await page.getByText('It must be 1 to 128 characters').waitFor();
      await expect.poll(() => button('Write it').isDisabled()).toBe(true);
      await page.getByLabel('Name').fill('default');
      await page.getByText('There is a pool of this name already.').waitFor();
      await page.getByLabel('Name').fill(name);
      await button('Write it').click();
      await page.getByText('There is no pool of this name yet. Saving makes it.').waitFor();
      await expect
        .poll(() => editor().inputValue())
        .toBe(lines('kind: pool', `name: ${name}`, 'vmProfile: default', 'maxRuns: 4'));
      await page.getByLabel(/^Why/).fill('For the night shift');
      await button('Make the pool').click();
      await page.getByText('Saved as generation 1.').waitFor();
      expect((await readDocument(api, 'pool', name)).document).toMatchObject({
        vmProfile: 'default',
        maxRuns: 4,
      });
      await page.getByText(/^Generation 1, saved \d+s ago by codehost_oauth\/admin$/).waitFor();
    });

    test('a persona is Markdown with its settings in front', async () => {
      const name = uniqueName('persona');
      await postResource(api, 'persona', name, { instructions: 'Be kind.', model: 'rehearsal-a' });
      await open('persona', name);
      await expect
        .poll(() => editor().inputValue())
        .toBe(lines('---', `name: ${name}`, 'model: rehearsal-a', '---', 'Be kind.'));
      await caretAtEnd();
      await page.keyboard.type('Always.');
      await page.keyboard.press('Control+s');
      await page.getByText('Saved as generation 2.').waitFor();
      expect((await readDocument(api, 'persona', name)).document).toMatchObject({
        instructions: 'Be kind.\nAlways.',
        model: 'rehearsal-a',
      });
    });

    test('fields that nobody knows are kept, with a quiet note', async () => {
      const name = uniqueName('pool');
      await postResource(api, 'pool', name, { colour: 'red' });
      await open('pool', name);
      await page.getByText('Not known to Muster, and kept as written: colour').waitFor();
      await caretAtEnd();
      await page.keyboard.type('# a remark\nmaxRuns: 2');
      await page.getByText('Comments are not stored').waitFor();
      await button('Save').click();
      await page.getByText('Saved as generation 2.').waitFor();
      expect((await readDocument(api, 'pool', name)).document).toMatchObject({ colour: 'red', maxRuns: 2 });
      await expect
        .poll(() => editor().inputValue())
        .toBe(lines('kind: pool', `name: ${name}`, 'colour: red', 'maxRuns: 2'));
    });

    test('a builtin says so, has no delete, and is shadowed by a save', async () => {
      await open('vm-profile', 'default');
      await page.getByText('It can’t be deleted. Saving makes a stored one that shadows it.').waitFor();
      await expect.poll(() => button('Delete …').count()).toBe(0);
      await caretAtEnd();
      await page.keyboard.type('cpus: 2');
      await button('Save').click();
      await page.getByText('Saved as generation 1.').waitFor();
      await button('Delete …').click();
      await button('Delete it').click();
      await heading('VM profiles').waitFor();
      await page.getByRole('link', { name: /^default\b.*builtin/ }).waitFor();
    });

    test('a delete is asked about, and does not take what somebody wrote meanwhile', async () => {
      const name = uniqueName('pool');
      await postResource(api, 'pool', name, { maxRuns: 1 });
      await open('pool', name);
      await button('Delete …').click();
      await page.getByRole('dialog', { name: `Delete ${name}?` }).waitFor();
      await postResource(api, 'pool', name, { maxRuns: 2 });
      await button('Delete it').click();
      await page.getByText('Somebody has changed it meanwhile.').waitFor();
      expect((await readDocument(api, 'pool', name)).generation).toBe('2');
      await button('Keep it').click();
      await page.getByText('Generation 2').waitFor();
      await button('Delete …').click();
      await page.getByLabel(/^Why/).last().fill('No longer used');
      await button('Delete it').click();
      await heading('Pools').waitFor();
      await expect.poll(() => page.getByRole('link', { name: new RegExp(`^${name}`) }).count()).toBe(0);
    });
  });

  describe('says what is wrong', () => {
    test('while one types, at the line and in a list to jump from', async () => {
      const name = uniqueName('pool');
      await postResource(api, 'pool', name, { maxRuns: 1 });
      await open('pool', name);
      await editor().fill(lines('kind: pool', `name: ${name}`, 'maxRuns: many', 'vmProfile: [a]'));
      await errors().getByText('maxRuns must be an integer').waitFor();
      await expect
        .poll(() => errors().getByRole('listitem').allInnerTexts())
        .toEqual(['Line 3maxRuns must be an integer', 'Line 4vmProfile must be a string']);
      await expect.poll(() => editor().getAttribute('aria-invalid')).toBe('true');
      // The message stands beside its line.
      const wrong = page.locator('.text-editor-line').nth(2);
      await expect.poll(() => wrong.innerText()).toMatch(/^maxRuns: many\s+maxRuns must be an integer$/);
      await expect.poll(() => wrong.getAttribute('data-wrong')).toBe('true');
      await button('Line 4').click();
      await expect.poll(() => selected()).toBe('vmProfile: [a]');
      await editor().fill(lines('maxRuns: 1', 'vmProfile: [a'));
      await errors()
        .getByText(/Line [23]/)
        .waitFor();
      await button('Save').click();
      await page.getByRole('alert').getByText('The text has errors. Mend them first.').waitFor();
      await editor().fill(lines('maxRuns: 3'));
      await errors().waitFor({ state: 'detached' });
      await button('Save').click();
      await page.getByText('Saved as generation 2.').waitFor();
    });

    test('what only the service knows, at its line as well', async () => {
      const name = uniqueName('env');
      await go(`/catalog/environment/${name}`);
      await editor().fill(lines('kind: environment', 'setup: []', 'deep:', '  __proto__: 1'));
      await button('Make the environment').click();
      await errors().getByText('Line 4').waitFor();
      await expect.poll(() => errors().innerText()).toContain('deep');
      await editor().fill(lines('kind: environment', 'setup: []'));
      await errors().waitFor({ state: 'detached' });
    });

    test('another kind or name in the text is an error, not another resource', async () => {
      await open('workspace', 'payments');
      await editor().fill((await editor().inputValue()).replace('name: payments', 'name: other'));
      await errors().getByText('The name stays payments.').waitFor();
      await button('Save').click();
      await page.getByRole('alert').getByText('The text has errors.').waitFor();
      expect((await readDocument(api, 'workspace', 'payments')).generation).toBe('1');
      await button('Discard changes').click();
      await button('Discard them').click();
      await errors().waitFor({ state: 'detached' });
    });
  });

  const selected = () =>
    editor().evaluate((area: HTMLTextAreaElement) =>
      area.value.slice(area.selectionStart, area.selectionEnd),
    );

  describe('helps to write', () => {
    test('with the known fields, which are put in by a click, or gone to', async () => {
      const name = uniqueName('ws');
      await go(`/catalog/workspace/${name}`);
      const hints = page.getByRole('complementary', { name: 'Known fields' });
      await hints.getByText('The pool whose runners do the work.').waitFor();
      await hints.getByRole('button', { name: 'model' }).click();
      await expect.poll(() => selected()).toBe('claude-opus-4-8');
      await page.keyboard.type('rehearsal-a');
      await expect.poll(() => editor().inputValue()).toMatch(/\nmodel: rehearsal-a\n$/);
      await hints.getByRole('listitem').filter({ hasText: 'model' }).getByText('set').waitFor();
      await hints.getByRole('button', { name: 'environment' }).click();
      await expect.poll(() => selected()).toBe('environment: default');
      // The browser's own undo knows of it.
      await page.keyboard.press('Control+z');
      expect(await editor().inputValue()).not.toContain('rehearsal-a');
    });

    test('with words for what is being typed, chosen by key', async () => {
      const name = uniqueName('ws');
      await go(`/catalog/workspace/${name}`);
      await editor().fill('kind: workspace\n');
      await caretAtEnd();
      const choices = page.getByRole('listbox', { name: 'Known words' });
      await page.keyboard.type('p');
      await choices.waitFor();
      await expect
        .poll(() => choices.getByRole('option').allInnerTexts())
        .toEqual([/^pool/, /^persona/, /^projectSettings/].map((name) => expect.stringMatching(name)));
      await page.keyboard.press('ArrowDown');
      await choices.getByRole('option', { name: /persona/, selected: true }).waitFor();
      expect(await visitor.barriers()).toEqual([]);
      await page.keyboard.press('Enter');
      await page.keyboard.type('reviewer\nre');
      await page.keyboard.press('Tab');
      await page.keyboard.type('\n- u');
      await page.keyboard.press('Tab');
      await page.keyboard.type('https://x.example/a.git');
      await expect
        .poll(() => editor().inputValue())
        .toBe('kind: workspace\npersona: reviewer\nrepos:\n  - url: https://x.example/a.git');
      await page.keyboard.type('\nzz');
      await expect.poll(() => choices.count()).toBe(0);
    });

    test('with Tab, which Escape gives back to the page', async () => {
      const name = uniqueName('pool');
      await go(`/catalog/pool/${name}`);
      await editor().fill('');
      await editor().press('Tab');
      await page.keyboard.type('x');
      await expect.poll(() => editor().inputValue()).toBe('  x');
      await page.keyboard.press('Shift+Tab');
      await expect.poll(() => editor().inputValue()).toBe('x');
      await page.keyboard.press('Escape');
      await page.keyboard.press('Tab');
      await expect.poll(() => editor().inputValue()).toBe('x');
      await expect.poll(() => editor().evaluate((area) => document.activeElement === area)).toBe(false);
    });
  });

  test('unsaved changes are asked about before they are left, whichever way', async () => {
    const name = uniqueName('pool');
    await postResource(api, 'pool', name, { maxRuns: 1 });
    await go('/catalog/pool');
    await page.getByRole('link', { name: new RegExp(`^${name}`) }).click();
    await heading(name).waitFor();
    await caretAtEnd();
    await page.keyboard.type('vmProfile: x');
    const question = page.getByRole('dialog', { name: 'Leave without saving?' });
    await page.getByRole('link', { name: 'Agents' }).click();
    await question.waitFor();
    await button('Stay').click();
    await expect.poll(() => editor().inputValue()).toContain('vmProfile: x');
    await page.evaluate(() => history.back());
    await question.waitFor();
    await button('Stay').click();
    await expect.poll(() => new URL(page.url()).pathname).toBe(`/catalog/pool/${name}`);
    await button('History').click();
    await page.getByText('stored now').waitFor();
    await button('Document').click();
    await expect.poll(() => editor().inputValue()).toContain('vmProfile: x');
    await page.getByRole('link', { name: 'Personas' }).click();
    await button('Leave and lose them').click();
    await heading('Personas').waitFor();
    await open('pool', name);
    await page.getByRole('link', { name: 'Personas' }).click();
    await heading('Personas').waitFor();
  });

  test('the history tells who, when, why and what, and brings an old text back', async () => {
    const name = uniqueName('pool');
    await postResource(api, 'pool', name, { maxRuns: 1 }, { justification: 'A start' });
    await postResource(
      api,
      'pool',
      name,
      { maxRuns: 2 },
      { justification: 'More work', updateMask: 'maxRuns' },
    );
    await api.del(`/v1/catalog/pool/${name}?justification=By%20mistake`);
    await postResource(api, 'pool', name, { maxRuns: 9 });
    await open('pool', name);
    await button('History').click();
    const writes = page.getByRole('listitem').filter({ hasText: 'codehost_oauth/admin' });
    await writes.nth(3).waitFor();
    const [fourth, third, second, first] = await writes.allInnerTexts();
    expect(fourth).toMatch(/^4\s+codehost_oauth\/admin made it \d+s ago .*with key [\w-]+\s+stored now/);
    expect(third).toMatch(/deleted it[\s\S]*By mistake/);
    expect(second).toMatch(/changed it .*only maxRuns[\s\S]*More work/);
    expect(first).toMatch(/made it[\s\S]*A start/);
    await writes.nth(2).getByText('What changed').click();
    await expect.poll(() => writes.nth(2).innerText()).toMatch(/-maxRuns: 1\s+\+maxRuns: 2/);
    await expect.poll(() => button('Bring back generation 4').count()).toBe(0);
    await button('Bring back generation 2').click();
    await page.getByText('The old text is in the editor. Nothing is changed until you save it.').waitFor();
    await expect.poll(() => editor().inputValue()).toBe(lines('kind: pool', `name: ${name}`, 'maxRuns: 2'));
    await button('Save').click();
    await page.getByText('Saved as generation 5.').waitFor();
    expect((await readDocument(api, 'pool', name)).document).toMatchObject({ maxRuns: 2 });
  });

  test('a long history is shown page by page, each change whole', async () => {
    const name = uniqueName('pool');
    for (let at = 1; at <= 55; at++) await postResource(api, 'pool', name, { maxRuns: at });
    await go(`/catalog/pool/${name}?view=history`);
    await button('Show older').click();
    await button('Bring back generation 1').waitFor();
    await expect.poll(() => page.getByRole('button', { name: /^Bring back/ }).count()).toBe(54);
    const writes = page.getByRole('listitem').filter({ hasText: 'codehost_oauth/admin' });
    const sixth = writes.nth(49);
    await sixth.getByText('What changed').click();
    await expect.poll(() => sixth.innerText()).toMatch(/-maxRuns: 5\s+\+maxRuns: 6/);
  });

  const pages = ['/catalog', '/catalog/integration', '/catalog/persona/planner'];
  const mostUsed = [
    '/catalog/workspace',
    '/catalog/workspace/storefront?view=history',
    '/catalog/workspace/storefront',
  ];
  test.each([
    ['on a desk', {}, [...pages, ...mostUsed]],
    ['on a phone', phone, ['/catalog', ...mostUsed]],
  ] as const)('axe finds nothing serious, and everything fits, %s', async (_, options, paths) => {
    const other = await Visitor.arrive(browser, server, { ...options, path: '/catalog' });
    const title = other.page.getByRole('heading', { level: 1 });
    await title.waitFor();
    for (const path of paths) {
      await other.follow(path);
      await title.waitFor();
      if (path === '/catalog/workspace/storefront') {
        const text = other.page.getByRole('textbox', { name: 'storefront as YAML' });
        await text.fill('kind: workspace\nmodel: 3\n');
        await other.page.getByRole('list', { name: 'Errors' }).waitFor();
      }
      expect([path, await other.barriers()]).toEqual([path, []]);
      await other.fits();
    }
    await other.leave();
  });
});
