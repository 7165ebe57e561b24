/// <reference lib="dom" />
import { kinds, kindTable } from '@muster/sdk/contract';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { postResource, readDocument, uniqueName } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

describeInBrowser('the catalog', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let api: Api;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    api = fixture.api;
    await postResource(api, 'workspace', 'storefront', {
      repos: [{ url: 'https://git.example.com/shop/storefront.git', baseBranch: 'main' }],
      model: 'claude-opus-4-8',
    });
    await postResource(api, 'workspace', 'payments', {
      repos: ['https://git.example.com/shop/payments.git'],
    });
    visitor = await fixture.visit({ path: '/catalog' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const heading = (name: string) => page.getByRole('heading', { name, level: 1 });
  const editor = () => page.getByRole('textbox', { name: / as (YAML|Markdown)/ });
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  /** Discards unsaved changes. */
  const go = async (path: string) => {
    if (await button('Discard changes').isVisible()) await visitor.goto(path);
    else await visitor.follow(path);
  };
  const open = async (kind: string, name: string) => {
    await go(`/catalog/${kind}/${name}`);
    await heading(name).waitFor();
  };
  const errors = () => page.getByRole('list', { name: 'Errors' });
  const warnings = () => page.getByRole('list', { name: 'Warnings' });
  const lines = (...of: string[]) => `${of.join('\n')}\n`;
  const marked = () => page.locator('.text-editor-line[data-mark]');
  const caretAtEnd = () => editor().press('Control+End');

  describe('browsing', () => {
    test('lists each kind with its purpose and the number of resources', async () => {
      await go('/catalog');
      await heading('Catalog').waitFor();
      const links = page.locator('main').getByRole('link');
      for (const title of ['Workspaces', 'Personas', 'Tokens', 'Share links', 'Change requests'])
        await expect.poll(() => links.filter({ hasText: title }).count()).toBeGreaterThan(0);
      await links.filter({ hasText: 'Personas' }).filter({ hasText: '3' }).waitFor();
      await links.filter({ hasText: 'Workspaces' }).filter({ hasText: 'Repositories for agents' }).click();
      await heading('Workspaces').waitFor();
      await expect.poll(() => new URL(page.url()).pathname).toBe('/catalog/workspace');
    });

    test('lists resources with name, summary, generation, and who changed them when', async () => {
      await go('/catalog/workspace');
      const row = page.getByRole('link', { name: /^storefront/ });
      await row.waitFor();
      await expect
        .poll(() => row.innerText())
        .toMatch(/storefront · model claude-opus-4-8\s+generation 1\s+admin\s+\d+[sm] ago/);
      await expect.poll(() => page.getByRole('link', { name: /^default/ }).innerText()).toContain('builtin');
    });

    test('stores the search in the URL', async () => {
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
      await page.getByText('None of 3 has “zebra” in its name or summary.').waitFor();
    });

    test('explains an empty kind and offers the first action', async () => {
      await go('/catalog/integration');
      await page.getByRole('heading', { name: 'No integrations yet' }).waitFor();
      await page.getByText('muster apply -f integration.yaml').waitFor();
      await go('/catalog/change-requests');
      await page.getByRole('heading', { name: 'No change requests yet' }).waitFor();
      await expect.poll(() => page.getByRole('button', { name: /^New change/ }).count()).toBe(0);
      await go('/catalog/zoo');
      await page.getByRole('heading', { name: 'Unknown kind “zoo”' }).waitFor();
    });

    test('has a page for every kind', async () => {
      for (const kind of kinds) {
        await go(`/catalog/${kind}`);
        await heading(kindTable[kind].title).waitFor();
        await page.getByText(kindTable[kind].purpose).waitFor();
        await expect.poll(() => page.getByRole('alert').count()).toBe(0);
      }
    });
  });

  describe('writing', () => {
    test('a new resource gets a name, starts from a template, and is stored', async () => {
      const name = uniqueName('pool');
      await go('/catalog/pool');
      await button('New pool').click();
      await page.getByLabel('Name').fill('no spaces!');
      await page.getByText('The name must be 1 to 128 characters').waitFor();
      await expect.poll(() => button('Open editor').isDisabled()).toBe(true);
      await page.getByLabel('Name').fill('default');
      await page.getByText('A pool with this name exists.').waitFor();
      await page.getByLabel('Name').fill(name);
      await button('Open editor').click();
      await page.getByText('This pool does not exist yet. Save to create it.').waitFor();
      await expect
        .poll(() => editor().inputValue())
        .toBe(lines('kind: pool', `name: ${name}`, 'vmProfile: default', 'maxRuns: 4'));
      await page.getByLabel(/^Reason/).fill('For the night shift');
      await button('Create pool').click();
      await page.getByText('Saved as generation 1.').waitFor();
      expect((await readDocument(api, 'pool', name)).document).toMatchObject({
        vmProfile: 'default',
        maxRuns: 4,
      });
      await page.getByText(/^Generation 1, saved \d+s ago by admin$/).waitFor();
    });

    test('a persona is Markdown with front matter', async () => {
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

    test('unknown fields and comments are stored, with a warning at the line', async () => {
      const name = uniqueName('pool');
      await postResource(api, 'pool', name, { colour: 'red' });
      await open('pool', name);
      await warnings().getByText('colour is not a known field').waitFor();
      await caretAtEnd();
      await page.keyboard.type('# a remark\nmaxRuns: 2');
      await expect
        .poll(() => marked().nth(0).innerText())
        .toMatch(/^colour: red\s+colour is not a known field/);
      await button('1 warning').click();
      await expect.poll(() => selected()).toBe('colour: red');
      await button('Save').click();
      await page.getByText('Saved as generation 2.').waitFor();
      expect((await readDocument(api, 'pool', name)).document).toMatchObject({ colour: 'red', maxRuns: 2 });
      const text = lines('kind: pool', `name: ${name}`, 'colour: red', '# a remark', 'maxRuns: 2').trimEnd();
      await expect.poll(() => editor().inputValue()).toBe(text);
      // A change through the API keeps the comment; the page follows it.
      await postResource(api, 'pool', name, { maxRuns: 3 }, { updateMask: 'maxRuns' });
      await expect.poll(() => editor().inputValue()).toBe(`${text.replace('maxRuns: 2', 'maxRuns: 3')}\n`);
    });

    test("a builtin can't be deleted, and a save overrides it", async () => {
      await open('vm-profile', 'default');
      await page.getByText('It can’t be deleted. Save to override it.').waitFor();
      await expect.poll(() => button('Delete …').count()).toBe(0);
      await caretAtEnd();
      await page.keyboard.type('cpus: 2');
      await button('Save').click();
      await page.getByText('Saved as generation 1.').waitFor();
      await button('Delete …').click();
      await button('Delete').click();
      await heading('VM profiles').waitFor();
      await page.getByRole('link', { name: /^default\b.*builtin/ }).waitFor();
    });

    test('a delete asks first, and does not delete a newer version', async () => {
      const name = uniqueName('pool');
      await postResource(api, 'pool', name, { maxRuns: 1 });
      await open('pool', name);
      await button('Delete …').click();
      await page.getByRole('dialog', { name: `Delete ${name}?` }).waitFor();
      await postResource(api, 'pool', name, { maxRuns: 2 });
      await button('Delete').click();
      await page.getByText('Another person changed it.').waitFor();
      expect((await readDocument(api, 'pool', name)).generation).toBe('2');
      await button('Cancel').click();
      await page.getByText('Generation 2').waitFor();
      await button('Delete …').click();
      await page
        .getByLabel(/^Reason/)
        .last()
        .fill('No longer used');
      await button('Delete').click();
      await heading('Pools').waitFor();
      await expect.poll(() => page.getByRole('link', { name: new RegExp(`^${name}`) }).count()).toBe(0);
    });
  });

  describe('errors', () => {
    test('are shown while typing, at the line and in a list with links to the lines', async () => {
      const name = uniqueName('pool');
      await postResource(api, 'pool', name, { maxRuns: 1 });
      await open('pool', name);
      await editor().fill(lines('kind: pool', `name: ${name}`, 'maxRuns: many', 'vmProfile: [a]'));
      await errors().getByText('maxRuns must be an integer').waitFor();
      await expect
        .poll(() => errors().getByRole('listitem').allInnerTexts())
        .toEqual(['Line 3maxRuns must be an integer', 'Line 4vmProfile must be a string']);
      await expect.poll(() => editor().getAttribute('aria-invalid')).toBe('true');
      const wrong = page.locator('.text-editor-line').nth(2);
      await expect.poll(() => wrong.innerText()).toMatch(/^maxRuns: many\s+maxRuns must be an integer$/);
      await expect.poll(() => wrong.getAttribute('data-mark')).toBe('error');
      await button('Line 4').click();
      await expect.poll(() => selected()).toBe('vmProfile: [a]');
      await editor().fill(lines('maxRuns: 1', 'vmProfile: [a'));
      await expect.poll(() => errors().innerText()).toMatch(/^Line 2\s*This list has no closing \]\.$/);
      await button('Save').click();
      await page.getByRole('alert').getByText('The text has errors. Fix them before you save.').waitFor();
      await editor().fill(lines('maxRuns: 3'));
      await errors().waitFor({ state: 'detached' });
      await button('Save').click();
      await page.getByText('Saved as generation 2.').waitFor();
    });

    test('of the service are shown at their lines', async () => {
      const name = uniqueName('env');
      await go(`/catalog/environment/${name}?view=document`);
      await editor().fill(lines('kind: environment', 'setup: []', 'deep:', '  __proto__: 1'));
      await button('Create environment').click();
      await errors().getByText('Line 4').waitFor();
      await expect.poll(() => errors().innerText()).toContain('deep');
      await editor().fill(lines('kind: environment', 'setup: []'));
      await errors().waitFor({ state: 'detached' });
    });

    test('include a changed kind or name in the text', async () => {
      await open('workspace', 'payments');
      await editor().fill((await editor().inputValue()).replace('name: payments', 'name: other'));
      await errors().getByText("The name can't be changed from payments.").waitFor();
      await button('Save').click();
      await page.getByRole('alert').getByText('The text has errors.').waitFor();
      expect((await readDocument(api, 'workspace', 'payments')).generation).toBe('1');
      await button('Discard changes').click();
      await page.getByRole('dialog').getByRole('button', { name: 'Discard changes' }).click();
      await errors().waitFor({ state: 'detached' });
    });
  });

  const selected = () =>
    editor().evaluate((area: HTMLTextAreaElement) =>
      area.value.slice(area.selectionStart, area.selectionEnd),
    );

  describe('the editor', () => {
    test('inserts known fields by a click, or moves to them', async () => {
      const name = uniqueName('ws');
      await go(`/catalog/workspace/${name}?view=document`);
      const hints = page.getByRole('complementary', { name: 'Known fields' });
      await hints.getByText(kindTable.workspace.schema.properties.pool?.description ?? '').waitFor();
      await hints.getByRole('button', { name: 'model' }).click();
      await expect.poll(() => selected()).toBe('claude-opus-4-8');
      await page.keyboard.type('rehearsal-a');
      await expect.poll(() => editor().inputValue()).toMatch(/\nmodel: rehearsal-a\n$/);
      await hints
        .getByRole('listitem')
        .filter({ hasText: 'model' })
        .getByText('set', { exact: true })
        .waitFor();
      await hints.getByRole('button', { name: 'environment' }).click();
      await expect.poll(() => selected()).toBe('environment: default');
      // The browser's undo includes the insertion.
      await page.keyboard.press('Control+z');
      expect(await editor().inputValue()).not.toContain('rehearsal-a');
    });

    test('completes words, chosen by keyboard', async () => {
      const name = uniqueName('ws');
      await go(`/catalog/workspace/${name}?view=document`);
      await editor().fill('kind: workspace\n');
      await caretAtEnd();
      const choices = page.getByRole('listbox', { name: 'Suggestions' });
      await page.keyboard.type('p');
      await choices.waitFor();
      await expect
        .poll(() => choices.getByRole('option').allInnerTexts())
        .toEqual(
          [/^pool/, /^persona/, /^policy/, /^projectSettings/].map((name) => expect.stringMatching(name)),
        );
      await page.keyboard.press('ArrowDown');
      await choices.getByRole('option', { name: /persona/, selected: true }).waitFor();
      expect(await visitor.accessibilityProblems(page.locator('.text-editor'))).toEqual([]);
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

    test('indents with Tab, and leaves with Escape and Tab', async () => {
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

  test('leaving unsaved changes asks first, whichever way the user leaves', async () => {
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
    await page.getByText('current', { exact: true }).waitFor();
    await button('Text').click();
    await expect.poll(() => editor().inputValue()).toContain('vmProfile: x');
    await page.getByRole('link', { name: 'Personas' }).click();
    await button('Leave').click();
    await heading('Personas').waitFor();
    await open('pool', name);
    await page.getByRole('link', { name: 'Personas' }).click();
    await heading('Personas').waitFor();
  });

  test('the history shows who, when, why and what changed, and restores an old version', async () => {
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
    const writes = page.getByRole('listitem').filter({ hasText: /^\d+\s*admin/ });
    await writes.nth(3).waitFor();
    const [fourth, third, second, first] = await writes.allInnerTexts();
    expect(fourth).toMatch(/^4\s+admin created \d+s ago .*with key [\w-]+\s+current/);
    expect(third).toMatch(/deleted[\s\S]*By mistake/);
    expect(second).toMatch(/saved .*only maxRuns[\s\S]*More work/);
    expect(first).toMatch(/created[\s\S]*A start/);
    await writes.nth(2).getByText('Changes', { exact: true }).click();
    await expect.poll(() => writes.nth(2).innerText()).toMatch(/-maxRuns: 1\s+\+maxRuns: 2/);
    await expect.poll(() => button('Restore generation 4').count()).toBe(0);
    await button('Restore generation 2').click();
    await page.getByText('The old version is in the editor. Save to make it the current one.').waitFor();
    await expect.poll(() => editor().inputValue()).toBe(lines('kind: pool', `name: ${name}`, 'maxRuns: 2'));
    await button('Save').click();
    await page.getByText('Saved as generation 5.').waitFor();
    expect((await readDocument(api, 'pool', name)).document).toMatchObject({ maxRuns: 2 });
  });

  test('a long history is loaded in pages, each change complete', async () => {
    const name = uniqueName('pool');
    for (let at = 1; at <= 55; at++) await postResource(api, 'pool', name, { maxRuns: at });
    await go(`/catalog/pool/${name}?view=history`);
    await button('Show older').click();
    await button('Restore generation 1').waitFor();
    await expect.poll(() => page.getByRole('button', { name: /^Restore/ }).count()).toBe(54);
    const writes = page.getByRole('listitem').filter({ hasText: /^\d+\s*admin/ });
    const sixth = writes.nth(49);
    await sixth.getByText('Changes', { exact: true }).click();
    await expect.poll(() => sixth.innerText()).toMatch(/-maxRuns: 5\s+\+maxRuns: 6/);
  });

  const pages = ['/catalog', '/catalog/integration', '/catalog/persona/planner'];
  const mostUsed = [
    '/catalog/workspace',
    '/catalog/workspace/storefront?view=history',
    '/catalog/workspace/storefront',
  ];
  test('the pages are accessible and do not scroll sideways', async () => {
    await go('/catalog');
    const phones = onEveryScreen ? [await fixture.visit({ ...phone, path: '/catalog' })] : [];
    for (const reader of [visitor, ...phones]) {
      const paths = reader === visitor ? [...pages, ...mostUsed] : ['/catalog', ...mostUsed];
      const title = reader.page.getByRole('heading', { level: 1 });
      await title.waitFor();
      for (const path of paths) {
        await reader.follow(path);
        await title.waitFor();
        if (path === '/catalog/workspace/storefront') {
          const text = reader.page.getByRole('textbox', { name: 'storefront as YAML' });
          await text.fill('kind: workspace\nmodel: 3\n');
          await reader.page.getByRole('list', { name: 'Errors' }).waitFor();
        }
        // The header is the same on all pages.
        const part = path === '/catalog' ? undefined : reader.page.getByRole('main');
        expect([path, await reader.accessibilityProblems(part)]).toEqual([path, []]);
        await reader.expectNoSidewaysScroll();
      }
    }
    for (const each of phones) await each.leave();
  });
});
