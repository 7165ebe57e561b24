/// <reference lib="dom" />
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { createKey, postResource, readDocument, uniqueName } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser, onEveryScreen } from './fixture.ts';

describeInBrowser('two people who edit one resource', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let api: Api;
  /** The other person. */
  let bob: Api;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    api = fixture.api;
    bob = (await createKey(api, { role: 'admin', account: 'bob' })).api;
    visitor = await fixture.visit({ path: '/catalog' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const editor = () => page.getByRole('textbox', { name: / as YAML$/ });
  /** Discards unsaved changes. */
  const open = async (name: string) => {
    const path = `/catalog/environment/${name}?view=document`;
    if (await button('Discard changes').isVisible()) await visitor.goto(path);
    else await visitor.follow(path);
    await page.getByRole('heading', { name, level: 1 }).waitFor();
  };
  const conflict = () =>
    page.getByRole('region', { name: 'Another person saved this while you were editing' });
  const lines = (...of: string[]) => `${of.join('\n')}\n`;
  const text = (name: string, ...fields: string[]) => lines('kind: environment', `name: ${name}`, ...fields);

  const before = { variables: { A: '1', B: '2' }, setup: ['npm ci'], allowHosts: ['x.example'] };
  const mine = [
    'variables:',
    '  A: mine',
    '  B: "2"',
    'setup:',
    '  - npm ci',
    'allowHosts:',
    '  - x.example',
  ];

  /** The other person writes this while the editor has unsaved changes. */
  async function race(theirs: Record<string, unknown> | null, fields = mine): Promise<string> {
    const name = uniqueName('env');
    await postResource(api, 'environment', name, before);
    await open(name);
    await editor().fill(text(name, ...fields));
    if (theirs) await postResource(bob, 'environment', name, theirs, { justification: 'It was urgent' });
    else await bob.del(`/v1/catalog/environment/${name}?justification=Nobody%20uses%20it`);
    await button('Save').click();
    return name;
  }

  test('see both changes side by side, and changes of different lines are merged', async () => {
    const name = await race({ ...before, allowHosts: ['x.example', 'y.example'] });
    await conflict().waitFor();
    await expect
      .poll(() => conflict().innerText())
      .toMatch(/bob saved this \d+s ago \(generation 2\)\s*“?It was urgent”?/);
    await expect.poll(() => conflict().getByRole('heading', { name: 'Result' }).count()).toBe(1);
    await expect
      .poll(() => conflict().innerText())
      .toMatch(/\+ {2}- y\.example[\s\S]*- {2}A: "1"\s+\+ {2}A: mine/);
    expect((await readDocument(api, 'environment', name)).generation).toBe('2');
    await button('Save merge').click();
    await page.getByText('Saved as generation 3.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({
      variables: { A: 'mine', B: '2' },
      allowHosts: ['x.example', 'y.example'],
    });
  });

  test('resolve lines that both changed: mine, theirs, both, or edited; the conflict is accessible', async () => {
    const name = await race({ ...before, variables: { A: 'theirs', B: '2' } });
    await conflict().waitFor();
    const first = page.getByRole('group', { name: 'Conflict 1 of 1' });
    await expect
      .poll(() => first.innerText())
      .toMatch(/Before\s+A: "1"\s+Theirs\s+A: theirs\s+Mine\s+A: mine/);
    await expect.poll(() => button('1 unresolved').isDisabled()).toBe(true);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await visitor.expectNoSidewaysScroll();
    await first.getByLabel('Use theirs').check();
    await conflict().getByText('No change.').waitFor();
    await first.getByLabel('Use both, mine first').check();
    await page.getByText(/Duplicate field/).waitFor();
    await expect.poll(() => button('Save merge').isDisabled()).toBe(true);
    await first.getByLabel('Use mine', { exact: true }).check();
    await expect.poll(() => conflict().innerText()).toMatch(/- {2}A: theirs\s+\+ {2}A: mine/);
    await first.getByLabel('Edit', { exact: true }).check();
    await page.getByLabel('Conflict 1 of 1, edited').fill('  A: agreed');
    expect(await visitor.accessibilityProblems(first)).toEqual([]);
    await button('Save merge').click();
    await page.getByText('Saved as generation 3.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({
      variables: { A: 'agreed', B: '2' },
    });
  });

  test('may continue in the editor, go back to their text, or discard it', async () => {
    const name = await race({ ...before, setup: ['npm install'] });
    await button('Back to editor').click();
    await expect.poll(() => editor().inputValue()).toBe(text(name, ...mine));
    await button('Save').click();
    await button('Continue in editor').click();
    await expect.poll(() => editor().inputValue()).toMatch(/A: mine[\s\S]*- npm install/);
    await page.keyboard.press('Control+s');
    await page.getByText('Saved as generation 3.').waitFor();
    const other = await race({ setup: ['theirs'] });
    await button('Discard my changes').click();
    await expect.poll(() => editor().inputValue()).toBe(text(other, 'setup:', '  - theirs'));
    await expect.poll(() => button('Save').isDisabled()).toBe(true);
  });

  test('a second conflict is shown when another save comes before the merge', async () => {
    const name = await race({ ...before, setup: ['one'] });
    await conflict().waitFor();
    await postResource(bob, 'environment', name, { ...before, setup: ['two'] });
    await button('Save merge').click();
    await conflict()
      .getByText(/saved this .*\(generation 3\)/)
      .waitFor();
    await button('Save merge').click();
    await page.getByText('Saved as generation 4.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({
      variables: { A: 'mine' },
      setup: ['two'],
    });
  });

  test('a resource that was deleted during the edit can be created again', async () => {
    const name = await race(null);
    const deleted = page.getByRole('region', { name: 'Another person deleted this while you were editing' });
    await deleted.waitFor();
    await expect.poll(() => deleted.innerText()).toMatch(/bob deleted this \d+s ago\s*“?Nobody uses it/);
    await button('Back to editor').click();
    await expect.poll(() => editor().inputValue()).toBe(text(name, ...mine));
    await button('Save').or(button('Create environment')).click();
    await button('Create with my text').click();
    await page.getByText('Saved as generation 3.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({
      variables: { A: 'mine' },
    });
    await race(null);
    await button('Discard my text').click();
    await page.getByRole('heading', { name: 'Environments', level: 1 }).waitFor();
  });

  test('two people who create the same name see the conflict', async () => {
    const name = uniqueName('env');
    await open(name);
    await editor().fill(text(name, 'setup:', '  - mine'));
    await postResource(bob, 'environment', name, { setup: ['theirs'] });
    await button('Create environment').click();
    await conflict().waitFor();
    await page.getByLabel('Use theirs').check();
    await button('Save merge').click();
    await page.getByText('Saved as generation 2.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({ setup: ['theirs'] });
  });

  test('an unchanged text follows the stored one; a changed text shows that it is outdated', async () => {
    const name = uniqueName('env');
    await postResource(api, 'environment', name, before);
    await open(name);
    await editor().waitFor();
    const options = { timeout: 20_000 };
    const look = () => page.evaluate(() => dispatchEvent(new Event('visibilitychange')));
    await postResource(bob, 'environment', name, { setup: ['new'] });
    await expect
      .poll(() => look().then(() => editor().inputValue()), options)
      .toBe(text(name, 'setup:', '  - new'));
    await editor().fill(text(name, 'setup:', '  - mine'));
    await postResource(bob, 'environment', name, { setup: ['newer'] });
    const notice = page.getByText('saved a newer version');
    await expect.poll(() => look().then(() => notice.isVisible()), options).toBe(true);
    await expect.poll(() => editor().inputValue()).toBe(text(name, 'setup:', '  - mine'));
  });

  if (onEveryScreen)
    test('the conflict is accessible and does not scroll sideways on a phone', async () => {
      const name = uniqueName('env');
      await postResource(api, 'environment', name, before);
      const other = await fixture.visit({ path: `/catalog/environment/${name}`, ...phone });
      await other.page.getByRole('textbox', { name: `${name} as YAML` }).fill(text(name, ...mine));
      await postResource(bob, 'environment', name, { ...before, variables: { A: 'theirs' } });
      await other.page.getByRole('button', { name: 'Save', exact: true }).click();
      await other.page.getByRole('group', { name: /^Conflict 1/ }).waitFor();
      expect(await other.accessibilityProblems()).toEqual([]);
      await other.expectNoSidewaysScroll();
      await other.leave();
    });
});
