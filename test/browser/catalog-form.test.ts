/// <reference lib="dom" />
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { postResource, readDocument, uniqueName } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('forms, suggestions and marks of the catalog', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let api: Api;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    api = fixture.api;
    visitor = await fixture.visit({ path: '/catalog' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const editor = () => page.getByRole('textbox', { name: / as (YAML|Markdown)/ });
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const form = () => page.getByRole('group', { name: /^Settings of/ });
  const lines = (...of: string[]) => `${of.join('\n')}\n`;
  const go = (path: string) => visitor.goto(path);
  const warnings = () => page.getByRole('list', { name: 'Warnings' });
  const marked = () => page.locator('.text-editor-line[data-mark]');
  const caretAtEnd = () => editor().press('Control+End');

  test('changes only what is edited: comments and unknown fields stay, and the text is one click away', async () => {
    const name = uniqueName('ws');
    const url = 'https://git.example.com/shop/storefront.git';
    const text = lines(
      '# Ask the web team.',
      'kind: workspace',
      `name: ${name}`,
      'repos:',
      `  - ${url} # main`,
      'model: opus # large',
      'team: web',
    );
    await postResource(api, 'workspace', name, { repos: [url], model: 'opus', team: 'web' }, { text });
    await go(`/catalog/workspace/${name}`);
    await editor().waitFor();
    await button('Form').click();
    await form().getByLabel('Model').fill('rehearsal-a');
    await form().getByLabel('Environment').fill('nowhere');
    await form().getByText('environment names the environment "nowhere", which does not exist').waitFor();
    await form().getByLabel('Environment').fill('default');
    await form().getByRole('group', { name: 'Repositories' }).getByRole('button', { name: 'Add' }).click();
    await form().getByLabel('URL').nth(1).fill('https://git.example.com/shop/tools.git');
    await form().getByLabel('Base branch').nth(1).fill('main');
    await form().getByText('More settings').click();
    await form().getByLabel('Project settings').selectOption('false');
    expect(await visitor.accessibilityProblems(page.locator('main'))).toEqual([]);
    await button('Text').click();
    const changed = lines(
      ...text
        .trimEnd()
        .replace('opus', 'rehearsal-a')
        .replace('\nmodel', '\n  - url: https://git.example.com/shop/tools.git\n    baseBranch: main\nmodel')
        .split('\n'),
      'environment: default',
      'projectSettings: false',
    );
    await expect.poll(() => editor().inputValue()).toBe(changed);
    // The choice is remembered.
    await button('Form').click();
    await button('Save').click();
    await page.getByText('Saved as generation 2.').waitFor();
    await go('/catalog/environment/default');
    await form().getByRole('group', { name: 'Variables' }).getByRole('button', { name: 'Add' }).click();
    await button('Text').click();
    await editor().waitFor();
  });

  test('a new resource begins with it, and a text with errors leads back to the text', async () => {
    const name = uniqueName('env');
    await page.evaluate(() => localStorage.clear());
    await go(`/catalog/environment/${name}`);
    const variables = form().getByRole('group', { name: 'Variables' });
    await variables.getByLabel('Name').last().fill('MODE');
    await form().getByLabel('Setup', { exact: true }).fill('npm ci\n\nnpm test\n');
    await button('Create environment').click();
    await page.getByText('Saved as generation 1.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({
      setup: ['npm ci', 'npm test'],
      variables: { MODE: { fromSecret: 'npm-token' } },
    });
    await button('Text').click();
    await editor().fill('setup: [');
    await button('Form').click();
    await page.getByText('The text has errors. Fix them there to use the form.').waitFor();
    await button('Edit in text').click();
    await expect.poll(() => editor().inputValue()).toBe('setup: [');
    await button('Discard changes').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Discard changes' }).click();
  });

  test('has every kind of input, accessible and without scrolling sideways on a phone', async () => {
    for (const path of ['integration/gh', 'token/mine', 'persona/planner']) {
      await go(`/catalog/${path}?view=form`);
      await form().waitFor();
      expect(await visitor.accessibilityProblems(page.locator('main'))).toEqual([]);
    }
    await page.setViewportSize(phone.viewport ?? { width: 390, height: 844 });
    await go('/catalog/environment/default?view=form');
    await form().waitFor();
    await visitor.expectNoSidewaysScroll();
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  test('suggests names, models and fields on Ctrl+Space, and says what a field is for', async () => {
    await postResource(api, 'environment', 'suggested', {});
    const name = uniqueName('ws');
    await go(`/catalog/workspace/${name}?view=document`);
    await editor().fill('environment: ');
    const options = () =>
      page.getByRole('listbox', { name: 'Suggestions' }).getByRole('option').allInnerTexts();
    await caretAtEnd();
    await page.keyboard.press('Control+Space');
    await expect.poll(options).toEqual(expect.arrayContaining(['default', 'suggested']));
    await page.keyboard.type('sug');
    await expect.poll(options).toEqual(['suggested']);
    await page.keyboard.press('Enter');
    await page.keyboard.type('\nmodel: ');
    await expect.poll(options).toContain('rehearsal-a');
    await page.keyboard.press('Escape');
    await page.getByText('The model, if neither the agent nor its persona sets one.').first().waitFor();
    await page.keyboard.type('opus\ntools:\n- ');
    await expect.poll(options).toEqual(['web_search', 'web_fetch', 'sub_agents']);
    await page.keyboard.press('Enter');
    await page.keyboard.type('\n');
    await page.keyboard.press('Backspace');
    await page.keyboard.press('Backspace');
    await page.keyboard.press('Control+Space');
    await expect.poll(async () => (await options()).length).toBeGreaterThan(3);
    await page.keyboard.press('Escape');
    await page.locator('.text-editor-line [data-as="key"]').first().hover({ force: true });
    await page.getByRole('tooltip').getByText('name of an environment').waitFor();
  });

  test('what can have no effect is shown while typing: misspelt fields, missing names, what a policy forbids', async () => {
    await postResource(api, 'policy', 'small', { models: ['claude-haiku-*'] });
    const name = uniqueName('code');
    await go(`/catalog/workspace/${name}?view=document`);
    const repo = 'repo: https://example.com/a.git';
    await editor().fill(lines(repo, 'environment: defualt', 'policy: small', 'model: opos'));
    await expect
      .poll(() => warnings().getByRole('listitem').allInnerTexts())
      .toEqual([
        'Line 1repo is not a known field; did you mean "repos"?',
        'Line 2environment names the environment "defualt", which does not exist; did you mean "default"?',
        'Line 4model "opos" is a model of no backend; did you mean "opus"?',
        'Line 4model is refused: the policy "small" does not allow "opos", only claude-haiku-*',
      ]);
    await expect.poll(() => marked().count()).toBe(3);
    await expect.poll(() => editor().getAttribute('aria-invalid')).toBe('false');
    expect(await visitor.accessibilityProblems(page.locator('.resource-text'))).toEqual([]);
    // Warnings keep nobody from saving.
    await button('Create workspace').click();
    await page.getByText('Saved as generation 1.').waitFor();
    await expect.poll(() => marked().count()).toBe(3);
  });
});
