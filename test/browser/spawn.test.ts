/// <reference lib="dom" />
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { until } from '../support/async.ts';
import { phone, storedIn, type Visitor } from '../support/browser.ts';
import { apiWithNewKey, uniqueName, writeResource } from '../support/catalog.ts';
import { png } from '../support/images.ts';
import { sharedServer } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the dialog for a new agent', () => {
  const fixture = browserFixture(sharedServer);
  let api: Api;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    api = fixture.api;
    await writeResource(api, 'workspace', 'web', { repos: [], model: 'opus', persona: 'reviewer' });
    await writeResource(api, 'persona', 'porter', {
      instructions: 'You carry code to other platforms.\nSlowly.',
      model: 'gpt-5',
    });
    visitor = await fixture.visit();
    page = visitor.page;
  });
  afterEach(async () => {
    const cancel = page.getByRole('button', { name: 'Cancel' });
    if (await cancel.isVisible()) await cancel.click();
    await page.evaluate(() => localStorage.clear());
  });
  afterAll(() => visitor?.leave());

  const agentsIn = (workspace: string) => new Agents(api, workspace);
  const named = async (text: string): Promise<number> => {
    const { body } = await api.post<{ entries: unknown[] }>('/v1/agents', {
      account: '*',
      text,
      includeTerminal: true,
    });
    return body.entries.length;
  };
  const openDialog = async (page: Page) => {
    await page.getByRole('button', { name: 'New agent' }).first().click();
    await description(page).waitFor();
  };
  const description = (page: Page) => dialog(page).getByLabel('Task description');
  const dialog = (page: Page) => page.getByRole('dialog', { name: 'New agent' });
  const start = (page: Page) => page.getByRole('button', { name: 'Start agent' }).click();
  const onAgentPage = (page: Page, name: string) => page.waitForURL(`**/agents/**/${name}`);
  /** The text below a field, which a screen reader reads with it. */
  const noteOf = async (page: Page, label: string | RegExp): Promise<string> => {
    const id = await dialog(page).getByLabel(label).getAttribute('aria-describedby');
    return (await page.locator(`[id="${id}"]`).textContent()) ?? '';
  };

  test('opens with n or the button, closes with Escape, and keeps an unsent text', async () => {
    const button = page.getByRole('button', { name: 'New agent' }).first();
    await button.focus();
    await page.keyboard.press('n');
    await expect
      .poll(() => description(page).evaluate((field) => field === document.activeElement))
      .toBe(true);
    await page.keyboard.type('Half a thought');
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    await expect.poll(() => button.evaluate((it) => it === document.activeElement)).toBe(true);
    await button.click();
    await expect.poll(() => description(page).inputValue()).toBe('Half a thought');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await dialog(page).waitFor({ state: 'detached' });
    expect(await storedIn(page)).not.toContain('Half a thought');
  });

  test('starts an agent with every choice and opens its page', async () => {
    const name = uniqueName('all');
    await openDialog(page);
    await description(page).fill('!say hello');
    await dialog(page).getByLabel('Name').fill(name);
    await expect.poll(() => noteOf(page, 'Name')).toContain(`default:${name}`);
    await dialog(page).getByLabel('Workspace').selectOption('web');
    await expect.poll(() => noteOf(page, 'Name')).toContain(`web:${name}`);
    await expect.poll(() => noteOf(page, 'Model')).toContain('opus');
    await dialog(page).getByLabel('Persona').selectOption('porter');
    await expect.poll(() => noteOf(page, 'Persona')).toBe('You carry code to other platforms.');
    await expect.poll(() => noteOf(page, 'Model')).toContain('gpt-5');
    // A name that the operator added: the form offers it and knows its backend, which has the effort `none`.
    await dialog(page).getByLabel('Model').click();
    await dialog(page).getByRole('option', { name: 'opus', exact: true }).waitFor();
    await dialog(page).getByLabel('Model').fill('team-g');
    await dialog(page).getByRole('option', { name: 'team-gpt' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await expect.poll(() => dialog(page).getByLabel('Model').inputValue()).toBe('team-gpt');
    await dialog(page)
      .getByLabel('Images', { exact: true })
      .setInputFiles({ name: 'one.png', mimeType: 'image/png', buffer: png() });
    await dialog(page).getByRole('img', { name: 'one.png' }).waitFor();

    await page.getByRole('button', { name: 'Add task' }).click();
    await page.keyboard.type('Look');
    await page.keyboard.press('Enter');
    await page.keyboard.type('Leap');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Details of task 2' }).click();
    await dialog(page).getByLabel('Description', { exact: true }).fill('Not too far');
    await page.getByRole('group', { name: 'Blocked by' }).getByLabel('Look').check();
    await dialog(page).getByLabel('Activate when a push changes matching files').check();
    await dialog(page).getByLabel('Files', { exact: true }).fill('src/**');

    await dialog(page).getByText('More options').click();
    await dialog(page).getByLabel('Effort').selectOption('none');
    await dialog(page).getByLabel('Tier').selectOption('flex');
    await dialog(page).getByLabel('Fast mode').selectOption('on');
    await dialog(page).getByLabel('Labels').fill('team');
    await start(page);
    await expect.poll(() => noteOf(page, 'Labels')).toContain('key=value');
    await dialog(page).getByLabel('Labels').fill('team=web, area=shop');
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
      model: 'team-gpt',
      backend: 'BACKEND_B',
      reasoningEffort: 'none',
      serviceTier: 'flex',
      fastMode: true,
      labels: { team: 'web', area: 'shop' },
    });
    const queued = await agentsIn('web').timeline(name, 'FOLLOW_UP_QUEUED');
    expect(queued).toMatchObject([
      { text: 'Images for the task.', data: { attachmentIds: [expect.any(String)] } },
    ]);
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
  });

  test('remembers the last choices, says so, and forgets them when asked', async () => {
    const name = uniqueName('choice');
    await openDialog(page);
    await description(page).fill('!say a secret plan');
    await dialog(page).getByLabel('Name').fill(name);
    await dialog(page).getByLabel('Workspace').selectOption('web');
    await dialog(page).getByLabel('Persona').selectOption('planner');
    await dialog(page).getByLabel('Model').fill('rehearsal-a');
    await dialog(page).getByText('More options').click();
    await dialog(page).getByLabel('Effort').selectOption('high');
    await page.keyboard.press('Control+Enter');
    await onAgentPage(page, name);

    await page.reload();
    await page.getByRole('button', { name: 'New agent' }).first().click();
    await page
      .getByText('Same as last time: workspace web, persona planner, model rehearsal-a, effort high.')
      .waitFor();
    await expect.poll(() => dialog(page).getByLabel('Workspace').inputValue()).toBe('web');
    await expect.poll(() => dialog(page).getByLabel('Model').inputValue()).toBe('rehearsal-a');
    await expect.poll(() => description(page).inputValue()).toBe('');
    expect(await storedIn(page)).not.toContain('secret plan');
    await page.getByRole('button', { name: 'Reset' }).click();
    await expect.poll(() => dialog(page).getByLabel('Workspace').inputValue()).toBe('');
    await expect.poll(() => dialog(page).getByLabel('Model').inputValue()).toBe('');
    await expect.poll(() => page.getByText('Same as last time').count()).toBe(0);
    await page.reload();
    await page.getByRole('button', { name: 'New agent' }).first().click();
    await expect.poll(() => dialog(page).getByLabel('Workspace').inputValue()).toBe('');
  });

  test('a double click, and a reply that was lost, start one agent', async () => {
    const mark = uniqueName('once');
    let sent = 0;
    // Set up before the page is loaded: the first request after a new route may still bypass it.
    await page.route('**/v1/agent/spawn', async (route) => {
      sent += 1;
      const reply = await route.fetch();
      await (sent === 1 ? route.abort() : route.fulfill({ response: reply }));
    });
    await visitor.goto('/');
    await openDialog(page);
    await description(page).fill(`!say ${mark}`);
    await page.getByRole('button', { name: 'Start agent' }).dblclick();
    await page.waitForURL('**/agents/**');
    await page.unrouteAll();
    expect(sent).toBe(2);
    expect(await named(mark)).toBe(1);
  });

  test('problems are shown at their fields, while typing or after the service replied', async () => {
    const taken = uniqueName('taken');
    await agentsIn('default').spawn(taken, { description: '!sleep 60' });
    await openDialog(page);
    const isFocused = (label: string | RegExp) =>
      dialog(page)
        .getByLabel(label)
        .evaluate((field) => field === document.activeElement);

    await start(page);
    await expect.poll(() => noteOf(page, 'Task description')).toContain('Describe the task');
    await expect.poll(() => isFocused('Task description')).toBe(true);
    await description(page).fill('!say hello');
    await dialog(page).getByLabel('Name').fill('not a name');
    await expect.poll(() => noteOf(page, 'Name')).toContain('Use letters');
    await dialog(page).getByLabel('Name').fill(taken);

    await dialog(page).getByText('More options').click();
    await dialog(page).getByLabel('Output schema').fill('{\n  "type": "object",\n  "properties" {}\n}');
    await expect
      .poll(() => noteOf(page, 'Output schema'))
      .toBe('Line 3: expected a colon after the property name.');
    await dialog(page).getByLabel('Output schema').fill('{ "type": "nonsense" }');
    await dialog(page).getByText('More options').click();

    await start(page);
    await expect.poll(() => noteOf(page, 'Output schema')).toContain('not a valid JSON Schema');
    await expect.poll(() => dialog(page).getByLabel('Output schema').isVisible()).toBe(true);
    await expect.poll(() => isFocused('Output schema')).toBe(true);
    await dialog(page).getByLabel('Output schema').fill('');

    await dialog(page).getByLabel('Model').fill('nonsense');
    await start(page);
    await expect.poll(() => noteOf(page, 'Model')).toContain('“nonsense” is unknown');
    await expect.poll(() => dialog(page).getByLabel('Model').getAttribute('aria-invalid')).toBe('true');
    await dialog(page).getByLabel('Model').fill('rehearsal-a');

    await page.getByRole('button', { name: 'Add task' }).click();
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
  });

  test('pasted lines become one task each', async () => {
    await openDialog(page);
    await page.getByRole('button', { name: 'Add task' }).click();
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
  });

  test('an admin starts an agent for another account; a member only its own', async () => {
    const name = uniqueName('bob');
    await openDialog(page);
    await description(page).fill('!say hello');
    await dialog(page).getByLabel('Name').fill(name);
    await dialog(page).getByText('More options').click();
    await dialog(page).getByLabel('Owner').fill('nobody/x');
    await expect.poll(() => noteOf(page, 'Owner')).toContain('provider/account');
    await dialog(page).getByLabel('Owner').fill('bob');
    await start(page);
    await page.waitForURL(`**/agents/*/*/*/bob/default/${name}`);

    const member = await apiWithNewKey(api, { role: 'member', account: 'mia' });
    const other = await fixture.visit({ key: member.key });
    await openDialog(other.page);
    await dialog(other.page).getByText('More options').click();
    await dialog(other.page).getByLabel('Effort').waitFor();
    await expect.poll(() => dialog(other.page).getByLabel('Owner').count()).toBe(0);
    await other.leave();
  });

  test('a child started from the page of an agent is in the same workspace and named after its task', async () => {
    const name = uniqueName('parent');
    const { dashboardUrl } = await agentsIn('web').spawn(name, { description: '!ask Go on?' });
    await visitor.follow(new URL(dashboardUrl).pathname);
    const tree = page.getByText('Tree', { exact: true });
    await tree.waitFor();
    const button = page.getByRole('button', { name: 'Spawn child' });
    if (!(await button.isVisible())) await tree.click();
    await button.click();
    const child = page.getByRole('dialog', { name: `New child of ${name}` });
    await expect.poll(() => child.getByLabel('Workspace').count()).toBe(0);
    await child.getByLabel('Task description').fill('Write the tests\n!say hello');
    await expect.poll(() => child.getByText(`web:${name}/write-the-tests`).count()).toBe(1);
    await start(page);
    await onAgentPage(page, `${name}/write-the-tests`);
    expect((await agentsIn('web').status(name)).children).toHaveLength(1);
  });

  test('an agent like one that ended starts with the same values', async () => {
    const name = uniqueName('old');
    const { dashboardUrl } = await agentsIn('web').spawn(name, {
      description: '!finish done',
      persona: 'planner',
      expectedOutput: 'Peace',
    });
    await agentsIn('web').wait(name);
    await visitor.follow(new URL(dashboardUrl).pathname);
    await page.getByRole('button', { name: 'Spawn a copy' }).click();
    await expect.poll(() => description(page).inputValue()).toBe('!finish done');
    await expect.poll(() => dialog(page).getByLabel('Workspace').inputValue()).toBe('web');
    await expect.poll(() => dialog(page).getByLabel('Persona').inputValue()).toBe('planner');
    await expect.poll(() => dialog(page).getByLabel('Expected output').inputValue()).toBe('Peace');
    await page.keyboard.press('Escape');
    await page.keyboard.press('n');
    await expect.poll(() => description(page).inputValue()).toBe('');
  });

  test('a viewer sees that access is read-only', async () => {
    const viewer = await apiWithNewKey(api, { role: 'viewer', account: 'vera' });
    const guest = await fixture.visit({ key: viewer.key });
    const { page } = guest;
    await page.getByText('Read-only access').waitFor();
    await expect
      .poll(() => page.getByRole('banner').getByRole('button', { name: 'New agent' }).count())
      .toBe(0);
    await page.keyboard.press('n');
    await dialog(page).getByText('ask an admin for a key with the member role').waitFor();
    await expect.poll(() => description(page).count()).toBe(0);
    await guest.leave();
  });

  test('the dialog explains the rehearsal if no model runs the agent', async () => {
    const name = uniqueName('try');
    await openDialog(page);
    await dialog(page).getByLabel('Name').fill(name);
    await dialog(page).getByLabel('Model').fill('rehearsal-a');
    await page.getByText('This agent is a rehearsal: it uses no model and costs nothing.').waitFor();
    await page.getByRole('button', { name: 'Insert example' }).click();
    await expect.poll(() => description(page).inputValue()).toContain('!ask');
    await start(page);
    await onAgentPage(page, name);
    await until(
      'the question',
      () => agentsIn('default').phase(name),
      (p) => p === 'WAITING_FOR_INPUT/QUESTION',
    );
  });

  test('is accessible with errors and all options, also on a phone', async () => {
    const onPhone = await fixture.visit(phone);
    for (const reader of [visitor, onPhone]) {
      const { page } = reader;
      await openDialog(page);
      await start(page);
      await page.getByText('Describe the task').waitFor();
      await page.getByRole('button', { name: 'Add task' }).click();
      await page.keyboard.type('Look');
      await page.getByRole('button', { name: 'Details of task 1' }).click();
      await dialog(page).getByText('More options').click();
      await dialog(page).getByLabel('Output schema').fill('{');
      expect(await reader.accessibilityProblems()).toEqual([]);
      await reader.expectNoSidewaysScroll();
      const body = await dialog(page).evaluate((it) => it.scrollWidth - it.clientWidth);
      expect(body).toBe(0);
    }
    await onPhone.leave();
  });
});

const valuesOf = (fields: Element[]): string[] => fields.map((field) => (field as HTMLInputElement).value);
