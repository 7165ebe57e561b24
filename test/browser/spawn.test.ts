/// <reference lib="dom" />
import type { Browser, Page, Route } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { closeContexts, hasChromium, phone, sharedChromium, storedIn, Visitor } from '../support/browser.ts';
import { apiWithNewKey, uniqueName, writeResource } from '../support/catalog.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

describe.skipIf(!hasChromium)('the dialog for a new agent', () => {
  let server: SharedServer;
  let browser: Browser;
  let api: Api;

  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer(), sharedChromium()]);
    api = apiOf(server);
    await writeResource(api, 'workspace', 'web', { repos: [], model: 'opus', persona: 'reviewer' });
    await writeResource(api, 'persona', 'porter', {
      instructions: 'You carry code to other platforms.\nSlowly.',
      model: 'gpt-5',
    });
  });
  afterAll(async () => {
    await closeContexts(browser);
    await server?.close();
  });

  const agentsIn = (workspace: string) => new Agents(api, workspace);
  const named = async (text: string): Promise<number> => {
    const { body } = await api.post<{ entries: unknown[] }>('/v1/agents', {
      account: '*',
      text,
      includeTerminal: true,
    });
    return body.entries.length;
  };
  /** A visitor with the dialog open. */
  const open = async (options: Parameters<typeof Visitor.arrive>[2] = {}) => {
    const visitor = await Visitor.arrive(browser, server, options);
    await visitor.page.getByRole('button', { name: 'New agent' }).first().click();
    await what(visitor.page).waitFor();
    return visitor;
  };
  const what = (page: Page) => dialog(page).getByLabel('What should it do?');
  const dialog = (page: Page) => page.getByRole('dialog', { name: 'New agent' });
  const start = (page: Page) => page.getByRole('button', { name: 'Start agent' }).click();
  const onAgentPage = (page: Page, name: string) => page.waitForURL(`**/agents/**/${name}`);
  /** What stands under a field, which a screen reader reads with it. */
  const noteOf = async (page: Page, label: string | RegExp): Promise<string> => {
    const id = await dialog(page).getByLabel(label).getAttribute('aria-describedby');
    return (await page.locator(`[id="${id}"]`).textContent()) ?? '';
  };

  test('opens with n or the button, closes with Escape, and keeps a text that was not sent', async () => {
    const visitor = await Visitor.arrive(browser, server);
    const { page } = visitor;
    const button = page.getByRole('button', { name: 'New agent' }).first();
    await button.focus();
    await page.keyboard.press('n');
    await expect.poll(() => what(page).evaluate((field) => field === document.activeElement)).toBe(true);
    await page.keyboard.type('Half a thought');
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    await expect.poll(() => button.evaluate((it) => it === document.activeElement)).toBe(true);
    await button.click();
    await expect.poll(() => what(page).inputValue()).toBe('Half a thought');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await dialog(page).waitFor({ state: 'detached' });
    expect(await storedIn(page)).not.toContain('Half a thought');
    await visitor.leave();
  });

  test('starts an agent with every choice, and leads to its page', async () => {
    const name = uniqueName('all');
    const visitor = await open();
    const { page } = visitor;
    await what(page).fill('!say hello');
    await dialog(page).getByLabel('Name').fill(name);
    await expect.poll(() => noteOf(page, 'Name')).toContain(`default:${name}`);
    await dialog(page).getByLabel('Workspace').selectOption('web');
    await expect.poll(() => noteOf(page, 'Name')).toContain(`web:${name}`);
    await expect.poll(() => noteOf(page, 'Model')).toContain('opus');
    await dialog(page).getByLabel('Persona').selectOption('porter');
    await expect.poll(() => noteOf(page, 'Persona')).toBe('You carry code to other platforms.');
    await expect.poll(() => noteOf(page, 'Model')).toContain('gpt-5');
    await dialog(page).getByLabel('Model').fill('rehearsal-b');

    await page.getByRole('button', { name: 'Add a task' }).click();
    await page.keyboard.type('Look');
    await page.keyboard.press('Enter');
    await page.keyboard.type('Leap');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Details of task 2' }).click();
    await dialog(page).getByLabel('Description').fill('Not too far');
    await page.getByRole('group', { name: 'Waits for' }).getByLabel('Look').check();
    await dialog(page).getByLabel('Only when a push touches certain files').check();
    await dialog(page).getByLabel('Files', { exact: true }).fill('src/**');

    await page.getByText('More options').click();
    await dialog(page).getByLabel('Effort').selectOption('none');
    await dialog(page).getByLabel('Tier').selectOption('flex');
    await dialog(page).getByLabel('Fast mode').selectOption('on');
    await dialog(page).getByLabel('Expected output').fill('A greeting');
    await page.getByRole('button', { name: 'Insert an example' }).click();
    await start(page);
    await onAgentPage(page, name);
    await dialog(page).waitFor({ state: 'detached' });
    await expect.poll(() => page.evaluate(() => document.activeElement?.closest('main') !== null)).toBe(true);

    const status = await agentsIn('web').status(name);
    expect(status).toMatchObject({
      description: '!say hello',
      expectedOutput: 'A greeting',
      persona: 'porter',
      model: 'rehearsal-b',
      reasoningEffort: 'none',
      serviceTier: 'flex',
      fastMode: true,
    });
    expect(JSON.parse(status.outputSchema)).toMatchObject({ required: ['summary', 'passed'] });
    const [look, leap, ...more] = status.tasks;
    expect(look).toMatchObject({ subject: 'Look', blocks: [leap?.id], activation: null });
    expect(leap).toMatchObject({
      subject: 'Leap',
      description: 'Not too far',
      blockedBy: [look?.id],
      activation: { filesModified: { pattern: 'src/**' } },
    });
    expect(more).toEqual([]);
    await visitor.leave();
  });

  test('remembers the last choices, says so, and forgets them when asked', async () => {
    const name = uniqueName('choice');
    const visitor = await open();
    const { page } = visitor;
    await what(page).fill('!say a secret plan');
    await dialog(page).getByLabel('Name').fill(name);
    await dialog(page).getByLabel('Workspace').selectOption('web');
    await dialog(page).getByLabel('Persona').selectOption('planner');
    await dialog(page).getByLabel('Model').fill('rehearsal-a');
    await page.getByText('More options').click();
    await dialog(page).getByLabel('Effort').selectOption('high');
    await page.keyboard.press('Control+Enter');
    await onAgentPage(page, name);

    await page.reload();
    await page.getByRole('button', { name: 'New agent' }).first().click();
    await page
      .getByText('As last time: workspace web, persona planner, model rehearsal-a, effort high.')
      .waitFor();
    await expect.poll(() => dialog(page).getByLabel('Workspace').inputValue()).toBe('web');
    await expect.poll(() => dialog(page).getByLabel('Model').inputValue()).toBe('rehearsal-a');
    await expect.poll(() => what(page).inputValue()).toBe('');
    expect(await storedIn(page)).not.toContain('secret plan');
    await page.getByRole('button', { name: 'Reset' }).click();
    await expect.poll(() => dialog(page).getByLabel('Workspace').inputValue()).toBe('');
    await expect.poll(() => dialog(page).getByLabel('Model').inputValue()).toBe('');
    await expect.poll(() => page.getByText('As last time').count()).toBe(0);
    await page.reload();
    await page.getByRole('button', { name: 'New agent' }).first().click();
    await expect.poll(() => dialog(page).getByLabel('Workspace').inputValue()).toBe('');
    await visitor.leave();
  });

  test('a double click, and a reply that was lost, start one agent', async () => {
    const mark = uniqueName('once');
    let sent = 0;
    const loseTheFirst = async (route: Route) => {
      sent += 1;
      const reply = await route.fetch();
      await (sent === 1 ? route.abort() : route.fulfill({ response: reply }));
    };
    const visitor = await open({ prepare: (context) => context.route('**/v1/agent/spawn', loseTheFirst) });
    const { page } = visitor;
    await what(page).fill(`!say ${mark}`);
    await page.getByRole('button', { name: 'Start agent' }).dblclick();
    await page.waitForURL('**/agents/**');
    expect(sent).toBe(2);
    expect(await named(mark)).toBe(1);
    await visitor.leave();
  });

  test('what is wrong stands at its field: at once, or when the service says so', async () => {
    const taken = uniqueName('taken');
    await agentsIn('default').spawn(taken, { description: '!sleep 60' });
    const visitor = await open();
    const { page } = visitor;
    const isFocused = (label: string | RegExp) =>
      dialog(page)
        .getByLabel(label)
        .evaluate((field) => field === document.activeElement);

    await start(page);
    await expect.poll(() => noteOf(page, 'What should it do?')).toContain('Say what it should do');
    await expect.poll(() => isFocused('What should it do?')).toBe(true);
    await what(page).fill('!say hello');
    await dialog(page).getByLabel('Name').fill('not a name');
    await expect.poll(() => noteOf(page, 'Name')).toContain('Only letters');
    await dialog(page).getByLabel('Name').fill(taken);

    await page.getByText('More options').click();
    await dialog(page).getByLabel('Output schema').fill('{\n  "type": "object",\n  "properties" {}\n}');
    await expect.poll(() => noteOf(page, 'Output schema')).toBe('Line 3: a colon is missing after the name.');
    await dialog(page).getByLabel('Output schema').fill('{ "type": "nonsense" }');
    await page.getByText('More options').click();

    await start(page);
    await expect.poll(() => noteOf(page, 'Output schema')).toContain('not a valid JSON Schema');
    await expect.poll(() => dialog(page).getByLabel('Output schema').isVisible()).toBe(true);
    await expect.poll(() => isFocused('Output schema')).toBe(true);
    await dialog(page).getByLabel('Output schema').fill('');

    await dialog(page).getByLabel('Model').fill('nonsense');
    await start(page);
    await expect.poll(() => noteOf(page, 'Model')).toContain('"nonsense" is unknown');
    await expect.poll(() => dialog(page).getByLabel('Model').getAttribute('aria-invalid')).toBe('true');
    await dialog(page).getByLabel('Model').fill('rehearsal-a');

    await page.getByRole('button', { name: 'Add a task' }).click();
    await page.keyboard.type('Egg');
    await page.keyboard.press('Enter');
    await page.keyboard.type('Hen');
    for (const number of [1, 2])
      await page.getByRole('button', { name: `Details of task ${number}` }).click();
    for (const other of ['Hen', 'Egg']) await dialog(page).getByLabel(other, { exact: true }).check();
    await start(page);
    await page.getByText('must not block each other in a cycle').waitFor();
    await page.getByRole('button', { name: 'Remove task 2' }).click();

    await start(page);
    await expect.poll(() => noteOf(page, 'Name')).toContain('has not ended');
    const free = uniqueName('free');
    await dialog(page).getByLabel('Name').fill(free);
    await start(page);
    await onAgentPage(page, free);
    expect((await agentsIn('default').status(free)).tasks).toMatchObject([{ subject: 'Egg', blockedBy: [] }]);
    await visitor.leave();
  });

  test('pasted lines become a task each', async () => {
    const visitor = await open();
    const { page } = visitor;
    await page.getByRole('button', { name: 'Add a task' }).click();
    await dialog(page)
      .getByLabel('Task 1', { exact: true })
      .evaluate((field) => {
        const clipboardData = new DataTransfer();
        clipboardData.setData('text/plain', '- [ ] First\n2. Second\n\nThird\n');
        field.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
      });
    await expect
      .poll(() =>
        dialog(page)
          .getByLabel(/^Task \d/)
          .evaluateAll(valuesOf),
      )
      .toEqual(['First', 'Second', 'Third']);
    await visitor.leave();
  });

  test('an admin starts an agent for another account; a member only its own', async () => {
    const name = uniqueName('bob');
    const visitor = await open();
    const { page } = visitor;
    await what(page).fill('!say hello');
    await dialog(page).getByLabel('Name').fill(name);
    await page.getByText('More options').click();
    await dialog(page).getByLabel('Owner').fill('nobody/x');
    await expect.poll(() => noteOf(page, 'Owner')).toContain('provider/account');
    await dialog(page).getByLabel('Owner').fill('bob');
    await start(page);
    await page.waitForURL(`**/agents/*/*/*/bob/default/${name}`);
    await visitor.leave();

    const member = await apiWithNewKey(api, { role: 'member', account: 'mia' });
    const other = await open({ key: member.key });
    await other.page.getByText('More options').click();
    await dialog(other.page).getByLabel('Effort').waitFor();
    await expect.poll(() => dialog(other.page).getByLabel('Owner').count()).toBe(0);
    await other.leave();
  });

  test('an agent gets a child from its page, in its workspace and with a name of what it does', async () => {
    const name = uniqueName('parent');
    const { dashboardUrl } = await agentsIn('web').spawn(name, { description: '!ask Go on?' });
    const visitor = await Visitor.arrive(browser, server, { path: new URL(dashboardUrl).pathname });
    const { page } = visitor;
    const tree = page.getByText('Tree', { exact: true });
    await tree.waitFor();
    const button = page.getByRole('button', { name: 'New child' });
    if (!(await button.isVisible())) await tree.click();
    await button.click();
    const child = page.getByRole('dialog', { name: `New agent below ${name}` });
    await expect.poll(() => child.getByLabel('Workspace').count()).toBe(0);
    await what(page).fill('Write the tests\n!say hello');
    await expect.poll(() => child.getByText(`web:${name}/write-the-tests`).count()).toBe(1);
    await start(page);
    await onAgentPage(page, `${name}/write-the-tests`);
    expect((await agentsIn('web').status(name)).children).toHaveLength(1);
    await visitor.leave();
  });

  test('another like one that ended begins with its orders', async () => {
    const name = uniqueName('old');
    const { dashboardUrl } = await agentsIn('web').spawn(name, {
      description: '!finish done',
      persona: 'planner',
      expectedOutput: 'Peace',
    });
    await agentsIn('web').wait(name);
    const visitor = await Visitor.arrive(browser, server, { path: new URL(dashboardUrl).pathname });
    const { page } = visitor;
    await page.getByRole('button', { name: 'Spawn another like it' }).click();
    await expect.poll(() => what(page).inputValue()).toBe('!finish done');
    await expect.poll(() => dialog(page).getByLabel('Workspace').inputValue()).toBe('web');
    await expect.poll(() => dialog(page).getByLabel('Persona').inputValue()).toBe('planner');
    await expect.poll(() => dialog(page).getByLabel('Expected output').inputValue()).toBe('Peace');
    await page.keyboard.press('Escape');
    await page.keyboard.press('n');
    await expect.poll(() => what(page).inputValue()).toBe('');
    await visitor.leave();
  });

  test('a viewer is told that it may look only', async () => {
    const viewer = await apiWithNewKey(api, { role: 'viewer', account: 'vera' });
    const visitor = await Visitor.arrive(browser, server, { key: viewer.key });
    const { page } = visitor;
    await page.getByText('Read-only access').waitFor();
    await expect
      .poll(() => page.getByRole('banner').getByRole('button', { name: 'New agent' }).count())
      .toBe(0);
    await page.keyboard.press('n');
    await dialog(page).getByText('it may look at agents, and start none').waitFor();
    await expect.poll(() => what(page).count()).toBe(0);
    await visitor.leave();
  });

  test('whoever has no model behind it is taught what a rehearsal does', async () => {
    const name = uniqueName('try');
    const visitor = await open();
    const { page } = visitor;
    await dialog(page).getByLabel('Name').fill(name);
    await dialog(page).getByLabel('Model').fill('rehearsal-a');
    await page.getByText('No model is behind it').waitFor();
    await page.getByRole('button', { name: 'Try it' }).click();
    await expect.poll(() => what(page).inputValue()).toContain('!ask');
    await start(page);
    await onAgentPage(page, name);
    await until(
      'the question',
      () => agentsIn('default').phase(name),
      (p) => p === 'WAITING_FOR_INPUT/QUESTION',
    );
    await visitor.leave();
  });

  test.each([
    ['on a desk', {}],
    ['on a phone', phone],
  ] as const)('everybody can use it: %s', async (_, options) => {
    const visitor = await open(options);
    const { page } = visitor;
    await start(page);
    await page.getByText('Say what it should do').waitFor();
    await page.getByRole('button', { name: 'Add a task' }).click();
    await page.keyboard.type('Look');
    await page.getByRole('button', { name: 'Details of task 1' }).click();
    await page.getByText('More options').click();
    await dialog(page).getByLabel('Output schema').fill('{');
    expect(await visitor.barriers()).toEqual([]);
    await visitor.fits();
    const body = await dialog(page).evaluate((it) => it.scrollWidth - it.clientWidth);
    expect(body).toBe(0);
    await visitor.leave();
  });
});

const valuesOf = (fields: Element[]): string[] => fields.map((field) => (field as HTMLInputElement).value);
