/// <reference lib="dom" />
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { closeContexts, hasChromium, phone, sharedChromium, Visitor } from '../support/browser.ts';
import { createKey, postResource, readDocument, uniqueName } from '../support/catalog.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

describe.skipIf(!hasChromium)('two people who edit one resource', () => {
  let server: SharedServer;
  let browser: Browser;
  let visitor: Visitor;
  let page: Page;
  let api: Api;
  /** The other one. */
  let bob: Api;

  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer({ runner: false }), sharedChromium()]);
    api = apiOf(server);
    bob = (await createKey(api, { role: 'admin', account: 'bob' })).api;
    visitor = await Visitor.arrive(browser, server, { path: '/catalog' });
    page = visitor.page;
  });
  afterAll(async () => {
    await visitor?.leave();
    await closeContexts(browser);
    await server?.close();
  });

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const editor = () => page.getByRole('textbox', { name: / as YAML$/ });
  const conflict = () => page.getByRole('region', { name: 'Somebody saved this while you were editing' });
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

  /** The editor is open with a change in it when somebody else writes this. */
  async function race(theirs: Record<string, unknown> | null, fields = mine): Promise<string> {
    const name = uniqueName('env');
    await postResource(api, 'environment', name, before);
    await visitor.goto(`/catalog/environment/${name}`);
    await editor().fill(text(name, ...fields));
    if (theirs) await postResource(bob, 'environment', name, theirs, { justification: 'It was urgent' });
    else await bob.del(`/v1/catalog/environment/${name}?justification=Nobody%20uses%20it`);
    await button('Save').click();
    return name;
  }

  test('see both changes side by side, and what fits together is put together', async () => {
    const name = await race({ ...before, allowHosts: ['x.example', 'y.example'] });
    await conflict().waitFor();
    await expect
      .poll(() => conflict().innerText())
      .toMatch(/codehost_oauth\/bob saved generation 2 \d+s ago\s*“?It was urgent”?/);
    await expect
      .poll(() => conflict().getByText('Both fit together: what your save will change now').count())
      .toBe(1);
    await expect
      .poll(() => conflict().innerText())
      .toMatch(/\+ {2}- y\.example[\s\S]*- {2}A: "1"\s+\+ {2}A: mine/);
    expect((await readDocument(api, 'environment', name)).generation).toBe('2');
    await button('Save the merge').click();
    await page.getByText('Saved as generation 3.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({
      variables: { A: 'mine', B: '2' },
      allowHosts: ['x.example', 'y.example'],
    });
  });

  test('choose where both changed the same lines: mine, theirs, both, or by hand', async () => {
    const name = await race({ ...before, variables: { A: 'theirs', B: '2' } });
    await conflict().waitFor();
    const first = page.getByRole('group', { name: 'Conflict 1 of 1' });
    await expect
      .poll(() => first.innerText())
      .toMatch(/Before\s+A: "1"\s+Theirs\s+A: theirs\s+Mine\s+A: mine/);
    await expect.poll(() => button('1 to choose').isDisabled()).toBe(true);
    await first.getByLabel('Take theirs').check();
    await conflict().getByText('No change.').waitFor();
    await first.getByLabel('Take both, mine first').check();
    await page.getByText(/This field is there twice/).waitFor();
    await expect.poll(() => button('Save the merge').isDisabled()).toBe(true);
    await first.getByLabel('Take mine', { exact: true }).check();
    await expect.poll(() => conflict().innerText()).toMatch(/- {2}A: theirs\s+\+ {2}A: mine/);
    await first.getByLabel('Write it by hand').check();
    await page.getByLabel('Conflict 1 of 1, by hand').fill('  A: agreed');
    expect(await visitor.barriers()).toEqual([]);
    await button('Save the merge').click();
    await page.getByText('Saved as generation 3.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({
      variables: { A: 'agreed', B: '2' },
    });
  });

  test('may go on in the editor, or back to their own text, or give it up', async () => {
    const name = await race({ ...before, setup: ['npm install'] });
    await button('Back to my text').click();
    await expect.poll(() => editor().inputValue()).toBe(text(name, ...mine));
    await button('Save').click();
    await button('Go on in the editor').click();
    await expect.poll(() => editor().inputValue()).toMatch(/A: mine[\s\S]*- npm install/);
    await page.keyboard.press('Control+s');
    await page.getByText('Saved as generation 3.').waitFor();
    const other = await race({ setup: ['theirs'] });
    await button('Discard mine').click();
    await expect.poll(() => editor().inputValue()).toBe(text(other, 'setup:', '  - theirs'));
    await expect.poll(() => button('Save').isDisabled()).toBe(true);
  });

  test('whoever loses the second race, too, is shown the second conflict', async () => {
    const name = await race({ ...before, setup: ['one'] });
    await conflict().waitFor();
    await postResource(bob, 'environment', name, { ...before, setup: ['two'] });
    await button('Save the merge').click();
    await conflict().getByText('saved generation 3').waitFor();
    await button('Save the merge').click();
    await page.getByText('Saved as generation 4.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({
      variables: { A: 'mine' },
      setup: ['two'],
    });
  });

  test('a text whose resource was deleted meanwhile can be made again', async () => {
    const name = await race(null);
    const gone = page.getByRole('region', { name: 'Somebody deleted this while you were editing' });
    await gone.waitFor();
    await expect
      .poll(() => gone.innerText())
      .toMatch(/codehost_oauth\/bob deleted it \d+s ago\s*“?Nobody uses it/);
    await button('Back to my text').click();
    await expect.poll(() => editor().inputValue()).toBe(text(name, ...mine));
    await button('Save').or(button('Make the environment')).click();
    await button('Make it again with my text').click();
    await page.getByText('Saved as generation 3.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({
      variables: { A: 'mine' },
    });
    await race(null);
    await button('Let it go').click();
    await page.getByRole('heading', { name: 'Environments', level: 1 }).waitFor();
  });

  test('two who make the same name meet, too', async () => {
    const name = uniqueName('env');
    await visitor.goto(`/catalog/environment/${name}`);
    await editor().fill(text(name, 'setup:', '  - mine'));
    await postResource(bob, 'environment', name, { setup: ['theirs'] });
    await button('Make the environment').click();
    await conflict().waitFor();
    await page.getByLabel('Take theirs').check();
    await button('Save the merge').click();
    await page.getByText('Saved as generation 2.').waitFor();
    expect((await readDocument(api, 'environment', name)).document).toMatchObject({ setup: ['theirs'] });
  });

  test('a text that nobody has touched follows what is stored; one with changes says that it is old', async () => {
    const name = uniqueName('env');
    await postResource(api, 'environment', name, before);
    await visitor.goto(`/catalog/environment/${name}`);
    await editor().waitFor();
    const patience = { timeout: 20_000 };
    const look = () => page.evaluate(() => dispatchEvent(new Event('visibilitychange')));
    await postResource(bob, 'environment', name, { setup: ['new'] });
    await expect
      .poll(() => look().then(() => editor().inputValue()), patience)
      .toBe(text(name, 'setup:', '  - new'));
    await editor().fill(text(name, 'setup:', '  - mine'));
    await postResource(bob, 'environment', name, { setup: ['newer'] });
    const notice = page.getByText('Somebody saved this while you were editing. Your text is untouched');
    await expect.poll(() => look().then(() => notice.isVisible()), patience).toBe(true);
    await expect.poll(() => editor().inputValue()).toBe(text(name, 'setup:', '  - mine'));
  });

  test.each([
    ['on a desk', {}],
    ['on a phone', phone],
  ] as const)('the conflict is readable %s', async (_, options) => {
    const name = uniqueName('env');
    await postResource(api, 'environment', name, before);
    const other = await Visitor.arrive(browser, server, { path: `/catalog/environment/${name}`, ...options });
    await other.page.getByRole('textbox', { name: `${name} as YAML` }).fill(text(name, ...mine));
    await postResource(bob, 'environment', name, { ...before, variables: { A: 'theirs' } });
    await other.page.getByRole('button', { name: 'Save', exact: true }).click();
    await other.page.getByRole('group', { name: /^Conflict 1/ }).waitFor();
    expect(await other.barriers()).toEqual([]);
    await other.fits();
    await other.leave();
  });
});
