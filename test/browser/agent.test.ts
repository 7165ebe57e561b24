import type { ReplyOf } from '@muster/sdk/contract';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Agents, inMs } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { phone, type Visitor } from '../support/browser.ts';
import { writeResource } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { addressOf, openQueue } from './agent-page.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser("an agent's page", () => {
  const fixture = browserFixture(sharedServer);
  let agents: Agents;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    agents = new Agents(fixture.api, 'default');
    visitor = await fixture.visit();
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const open = async (path: string) => visitor.follow(await addressOf(agents, path));
  const spawned = async (path: string, description: string, more = {}) => {
    await agents.spawn(path, { description, ...more });
    await open(path);
  };
  const rested = async (path: string, description = '!say ready', more = {}) => {
    await agents.spawn(path, { description, ...more });
    await agents.wait(path);
    await open(path);
  };
  const composer = () => page.getByLabel('Message to the agent');
  const header = (text: string) => page.getByRole('region', { name: 'Status' }).filter({ hasText: text });
  const options = () => page.getByRole('button', { name: 'Options' }).click();
  const entries = async (path: string, type: 'FOLLOW_UP_DELIVERED' | 'FOLLOW_UP_CLEARED') =>
    (await agents.timeline(path, type)).length;

  test('shows the path, status, settings and cost of the agent', async () => {
    await agents.spawn('shop', {
      description: '!usage 12000 8000 300 1.5\n!spawn checkout !usage 1000 0 20 0.25\\n!sleep 600',
      reasoningEffort: 'high',
    });
    await until(
      'both to work',
      () => agents.status('shop'),
      ({ treeCost }) => treeCost === 1.75,
    );
    await open('shop/checkout');
    await page.getByRole('heading', { name: 'checkout', level: 1 }).waitFor();
    const trail = page.getByRole('navigation', { name: 'Parent agents' });
    await trail.getByRole('link', { name: 'shop' }).click();

    await page.getByRole('heading', { name: 'shop', level: 1 }).waitFor();
    const head = header('waiting for children');
    for (const text of [
      'rehearsal-a',
      'effort high',
      'scripted, no model',
      '$1.50',
      '$1.75 with children',
      '12k in (8k cached)',
      '300 out',
      '1 run',
      'continues automatically',
    ])
      await head.getByText(text).waitFor();
    await head.getByText('Owner').locator('..').getByText('admin').waitFor();
    await head.getByText('Workspace').locator('..').getByText('default').waitFor();
    await page.getByText('It continues when one needs input or fails, or when none is working.').waitFor();
    await expect.poll(() => page.title()).toMatch(/shop · waiting for children · Muster$/);
    await agents.kill('shop');
    await header('killed').waitFor();
    await expect.poll(() => page.title()).toMatch(/shop · killed · Muster$/);
  });

  test('shows the current activity, or why the agent is waiting', async () => {
    await spawned('busy', '!sleep 600');
    const now = page.getByRole('region', { name: 'Activity' });
    await now.getByText('Sleeping 600 s').waitFor();
    await now.getByText(/run 1 for \d+s on \S+/).waitFor();
    await agents.kill('busy');

    await writeResource(fixture.api, 'pool', 'nobody', {});
    await writeResource(fixture.api, 'workspace', 'unmanned', { pool: 'nobody' });
    const unmanned = new Agents(fixture.api, 'unmanned');
    await unmanned.spawn('alone', { description: 'wait' });
    await visitor.follow(await addressOf(unmanned, 'alone'));
    await now.getByText('can run rehearsal-a (Claude Code). Start one: muster token create').waitFor();
    await header('needs a runner').waitFor();

    await spawned('limited', '!limit 3600');
    await now.getByText('The agent retries automatically at').waitFor();
    await header('rate limited until')
      .getByText(/starts in 59m \d\ds/)
      .waitFor();
  });

  test('sends a message by keyboard, and keeps the draft during a visit to another page', async () => {
    await rested('keys');
    await header('idle').waitFor();
    await page.keyboard.press('m');
    await page.keyboard.type('!say first');
    await page.keyboard.press('Enter');
    await page.keyboard.type('!say second');
    await page.keyboard.press('Escape');
    await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).toBe('BODY');

    await page.keyboard.press('g');
    await page.waitForURL(`${fixture.server.url}/`);
    await page.goBack();
    await expect.poll(() => composer().inputValue()).toBe('!say first\n!say second');
    await page.keyboard.press('m');
    await page.keyboard.press('Control+Enter');
    await page.getByText('second', { exact: true }).first().waitFor();
    await expect.poll(() => composer().inputValue()).toBe('');
    await until(
      'the answer',
      () => agents.status('keys'),
      ({ response }) => response === 'second',
    );
  });

  test('sends one message for a double click', async () => {
    await spawned('twice', '!sleep 600');
    await header('working').waitFor();
    await composer().fill('only once');
    await page.getByRole('button', { name: 'Send', exact: true }).dblclick();
    await page.getByRole('button', { name: '1 queued', exact: true }).waitFor();
    expect((await agents.status('twice')).followUps.map(({ description }) => description)).toEqual([
      'only once',
    ]);
    await agents.kill('twice');
  });

  test('sends persona, model, effort, fast mode, schema and tasks', async () => {
    await writeResource(fixture.api, 'persona', 'tester', {
      instructions: 'You test.',
      model: 'rehearsal-a',
    });
    await rested('settings');
    await options();
    await page.getByLabel('Persona').selectOption('tester');
    const models = page.locator('datalist option');
    await expect
      .poll(() => models.evaluateAll((all) => all.map((one) => (one as HTMLOptionElement).value)))
      .toContain('rehearsal-a');
    await page.getByLabel('Model').fill('rehearsal-a');
    await page.getByLabel('Effort').selectOption('max');
    await page.getByLabel('Fast mode').selectOption('on');
    const chip = (name: string) => page.getByRole('button', { name, exact: true }).click();
    await chip('Output schema');
    await page.getByRole('textbox', { name: 'Output schema' }).fill('{"type":"object"}');
    await chip('Tasks');
    await page.getByLabel('Tasks to add').fill('Look around\nTell what you saw');
    await options();
    // What is set stays visible.
    for (const name of ['Persona', 'Effort', 'Fast mode', 'Model']) await page.getByLabel(name).waitFor();
    expect(await page.getByRole('button', { name: 'Schedule', exact: true }).count()).toBe(0);
    await composer().fill('!task done Look around\n!output {"seen": 2}');
    await page.getByRole('button', { name: 'Send', exact: true }).click();

    await header('unfinished tasks').getByText('effort max').waitFor();
    const status = await agents.status('settings');
    expect(status).toMatchObject({
      persona: 'tester',
      reasoningEffort: 'max',
      fastMode: true,
      outputSchema: '{"type":"object"}',
      structuredOutput: { seen: 2 },
    });
    expect(status.tasks.map(({ subject }) => subject)).toEqual(['Look around', 'Tell what you saw']);
    await page.getByText('The agent stopped with 1 open task.').waitFor();
  });

  test('offers service tiers only for a backend that has them', async () => {
    await rested('tiered', '!say ready', { model: 'rehearsal-b' });
    await options();
    await page.getByLabel('Tier').selectOption('flex');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await header('tier flex').waitFor();
    await open('keys');
    await options();
    await page.getByLabel('Effort').waitFor();
    await expect.poll(() => page.getByLabel('Tier').count()).toBe(0);
  });

  test('shows errors at their fields, and sends the message after they are fixed', async () => {
    await rested('strict');
    await options();
    await composer().fill('!say fixed');
    await page.getByLabel('Model').fill('gpt-6');
    await options();
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    const model = page.getByLabel('Model');
    await page.getByText('“gpt-6” is a model of Codex; this agent runs on Claude Code').waitFor();
    await expect.poll(() => model.getAttribute('aria-invalid')).toBe('true');
    await model.fill('');

    await options();
    await page.getByRole('button', { name: 'Schedule', exact: true }).click();
    await page.getByLabel('Deliver at').fill('2020-01-01T09:00');
    await page.getByRole('button', { name: 'Send later' }).click();
    await page.getByText('Must be in the future').waitFor();
    await expect.poll(() => page.getByLabel('Interrupt').isDisabled()).toBe(true);
    await page.getByRole('button', { name: 'As soon as possible' }).click();
    await expect.poll(() => composer().inputValue()).toBe('!say fixed');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await until(
      'the answer',
      () => agents.status('strict'),
      ({ response }) => response === 'fixed',
    );
  });

  test('interrupts the turn and clears the queue for a preempting message', async () => {
    await spawned('hurried', '!sleep 600');
    await header('working').waitFor();
    await agents.queue('hurried', 'never delivered');
    await options();
    await page.getByLabel('Interrupt').check();
    await page.getByRole('button', { name: 'Schedule', exact: true }).click();
    await expect.poll(() => page.getByLabel('Deliver at').isDisabled()).toBe(true);
    await page.getByText('Queued messages are discarded, scheduled ones stay.').waitFor();
    await composer().fill('!say at once');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await header('idle').waitFor();
    expect(await agents.status('hurried')).toMatchObject({ response: 'at once', runCount: '2' });
    expect(await entries('hurried', 'FOLLOW_UP_CLEARED')).toBe(1);
  });

  test('answers a question in place', async () => {
    await rested('asker', '!ask Which **database**?');
    const question = page.getByRole('region', { name: 'Question' });
    await question.getByText('Which database?').waitFor();
    await expect.poll(() => question.locator('strong').textContent()).toBe('database');
    // It is shown in full once.
    await page.getByText('shown below').waitFor();
    await header('needs input').waitFor();
    // Once in the head, and there for screen readers.
    expect(await page.getByText(/needs input/i).count()).toBe(2);
    await expect.poll(() => page.title()).toMatch(/^\(\d+\) asker · needs input · Muster$/);
    await page.keyboard.press('m');
    await page.keyboard.type('!say the second one');
    await expect.poll(() => page.getByLabel('Your answer').inputValue()).toBe('!say the second one');
    await page.getByRole('button', { name: 'Send answer' }).click();
    await question.waitFor({ state: 'detached' });
    await header('idle').waitFor();
    expect(await agents.status('asker')).toMatchObject({ response: 'the second one', needsInput: '' });
    expect(await entries('asker', 'FOLLOW_UP_DELIVERED')).toBe(1);
  });

  test('has no message form after the agent ended, and offers to spawn a copy', async () => {
    await rested('done', '!finish well');
    await page.getByText('The agent declared itself finished. The agent accepts no more messages.').waitFor();
    await expect.poll(() => composer().count()).toBe(0);
    await page.getByRole('button', { name: 'Spawn a copy' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('!finish well').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });

    await rested('broken', '!fail the disk is full');
    await page.getByText('the disk is full The agent accepts no more messages.').waitFor();
  });

  test('marks the agent as seen while its page is open', async () => {
    await rested('looked-at', '!finish well');
    await header('finished').waitFor();
    const { length } = await agents.timeline('looked-at');
    const seen = async () => {
      const { body } = await fixture.api.post<ReplyOf<'list'>>('/v1/agents', {
        includeTerminal: true,
        text: 'looked-at',
      });
      return body.entries[0]?.seen;
    };
    await expect.poll(seen).toBe(String(length));
  });

  test('reports an unknown agent, another tenant and an invalid address', async () => {
    await visitor.goto((await addressOf(agents, 'done')).replace(/done$/, 'nobody'));
    await page.getByRole('heading', { name: 'No agent named nobody' }).waitFor();
    await visitor.follow(
      (await addressOf(agents, 'done')).replace(`/${fixture.server.tenant.org}/`, '/elsewhere/'),
    );
    await page.getByRole('heading', { name: 'No access to this agent' }).waitFor();
    await visitor.follow('/agents/local/x');
    await page.getByRole('heading', { name: 'Not an agent address' }).waitFor();
    await page.getByRole('link', { name: 'Go to agents' }).click();
    await page.waitForURL(`${fixture.server.url}/`);
  });

  test('shows a new agent that reuses the name of an ended one', async () => {
    await rested('reborn', '!finish the first life');
    await page.getByText('the first life').first().waitFor();
    await agents.spawn('reborn', { description: '!say the second life' });
    await header('idle').waitFor();
    await page.getByText('the second life', { exact: true }).first().waitFor();
    await composer().waitFor();
    await page.getByText('the first life').waitFor({ state: 'detached' });
  });

  test('is accessible with every menu open, also on a phone', async () => {
    await spawned('looked-over', '!sleep 600');
    await header('working').waitFor();
    await agents.queue('looked-over', 'queued');
    await agents.queue('looked-over', { description: 'scheduled', deliverAt: inMs(600_000) });
    const onPhone = await fixture.visit({ ...phone, path: await addressOf(agents, 'looked-over') });
    for (const reader of [visitor, onPhone]) {
      await openQueue(reader.page, '1 queued, 1 scheduled');
      await reader.page.getByRole('button', { name: 'Options' }).click();
      await reader.page.getByRole('button', { name: 'Schedule', exact: true }).click();
      await reader.page.getByLabel('Deliver at').waitFor();
      await reader.page.getByRole('button', { name: 'Stop turn' }).click();
      await reader.page.getByRole('button', { name: 'Kill turn' }).waitFor();
      expect(await reader.accessibilityProblems()).toEqual([]);
      await reader.expectNoSidewaysScroll();
      await reader.page.keyboard.press('Escape');
      await reader.page.getByRole('button', { name: 'Options' }).click();
      await reader.page.getByRole('button', { name: 'More actions' }).click();
      expect(await reader.accessibilityProblems()).toEqual([]);
      await reader.page.keyboard.press('Escape');
    }
    await onPhone.page.getByRole('button', { name: 'Tasks and more' }).click();
    const panels = onPhone.page.getByRole('complementary', { name: 'About this agent' });
    await panels.getByRole('heading', { name: 'Checklist' }).waitFor();
    expect(await onPhone.accessibilityProblems(panels)).toEqual([]);
    await onPhone.expectNoSidewaysScroll();
    await onPhone.leave();
    await agents.kill('looked-over');
  });

  test('leaves the transcript most of the window, also with queued messages and open options, on a phone and zoomed in', async () => {
    await spawned('on-a-phone', '!sleep 600');
    for (const text of ['one', 'two', 'three']) await agents.queue('on-a-phone', text);
    const zoomed = { viewport: { width: 720, height: 450 } };
    const screens: [options: object, least: number][] = [
      [{}, 0.6],
      [phone, 0.6],
      [zoomed, 0.35],
    ];
    for (const [options, least] of screens) {
      const reader = await fixture.visit({ ...options, path: await addressOf(agents, 'on-a-phone') });
      await reader.page.getByRole('button', { name: '3 queued' }).waitFor();
      await reader.page.getByRole('button', { name: 'Options' }).click();
      await reader.page.getByRole('button', { name: 'Schedule', exact: true }).waitFor();
      const part = await reader.page
        .getByRole('region', { name: 'Transcript' })
        .evaluate((element) => element.clientHeight / innerHeight);
      expect(part).toBeGreaterThan(least);
      await reader.leave();
    }
    await agents.kill('on-a-phone');
  });
});
