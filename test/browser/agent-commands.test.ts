import { agentPage } from '@muster/sdk/contract';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Agents, inAnHour, inMs } from '../support/agents.ts';
import { until } from '../support/async.ts';
import type { Visitor } from '../support/browser.ts';
import { apiWithNewKey } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { png } from '../support/images.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant, newWorkingTenant } from '../support/test-tenant.ts';
import { addressOf, choose, openQueue, openWorking, StatusRequests } from './agent-page.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser("the commands on an agent's page", () => {
  const fixture = browserFixture(sharedServer);
  let agents: Agents;
  let visitor: Visitor;
  let page: Page;
  const statusRequests = new StatusRequests();

  beforeAll(async () => {
    agents = new Agents(fixture.api, 'default');
    visitor = await fixture.visit({ path: '/healthz' });
    page = visitor.page;
    await statusRequests.watch(page);
    await visitor.goto('/');
  });
  afterAll(() => visitor?.leave());

  const open = async (path: string) => visitor.follow(await addressOf(agents, path));
  const working = (path: string) => openWorking(agents, visitor, path);
  const header = (text: string) => page.getByRole('region', { name: 'Status' }).filter({ hasText: text });
  const stop = () => page.getByRole('button', { name: 'Stop turn', exact: true }).click();
  const queue = () => page.getByRole('region', { name: 'Queue' });
  const dialog = () => page.getByRole('dialog');

  test('interrupts a turn', async () => {
    await working('gentle');
    await stop();
    await page.getByRole('region', { name: 'Stop run 1' }).getByText('Ends the turn cleanly').waitFor();
    await page.getByRole('button', { name: 'Interrupt turn', exact: true }).click();
    await header('interrupted').waitFor();
    await page.getByText('The turn was stopped. Send a message to continue.').waitFor();
    expect((await agents.runs('gentle')).map(({ outcome }) => outcome)).toEqual(['INTERRUPTED']);
    await expect.poll(() => page.getByRole('button', { name: 'Stop turn', exact: true }).count()).toBe(0);
  });

  test('kills a turn immediately; the agent stays', async () => {
    await working('rough');
    await stop();
    await page.getByRole('button', { name: 'Kill turn' }).click();
    await header('interrupted').waitFor();
    expect((await agents.runs('rough')).map(({ outcome }) => outcome)).toEqual(['KILLED']);
    await page.getByLabel('Message to the agent').fill('!say still here');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await until(
      'the answer',
      () => agents.status('rough'),
      ({ response }) => response === 'still here',
    );
  });

  test('shows that a turn is stopping, and can still kill it', async () => {
    // This runner never ends the turn after a stop.
    const tenant = await newTestTenant(fixture.api);
    await tenant.spawn('stubborn');
    await tenant.start('stubborn');
    await visitor.follow(await addressOf(tenant, 'stubborn'));
    await stop();
    await page.getByRole('button', { name: 'Interrupt turn', exact: true }).click();
    await header('stopping').waitFor();
    await page.getByRole('button', { name: 'Stopping …' }).click();
    await expect
      .poll(() => page.getByRole('button', { name: 'Interrupt turn', exact: true }).isDisabled())
      .toBe(true);
    await page.getByRole('button', { name: 'Kill turn' }).click();
    await header('interrupted').waitFor();
    expect((await tenant.runs('stubborn')).map(({ outcome }) => outcome)).toEqual(['KILLED']);
  });

  test('stops only the turn that the menu was opened for', async () => {
    await working('quick');
    await stop();
    await agents.stop('quick', 1);
    await page.getByText('Run 1 has already ended.').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('region', { name: 'Stop run 1' }).waitFor({ state: 'detached' });

    await agents.queue('quick', '!sleep 600');
    await header('working').waitFor();
    await stop();
    const release = statusRequests.hold();
    await agents.queue('quick', { description: '!sleep 600', preempt: true });
    await until(
      'run 3',
      () => agents.status('quick'),
      ({ runCount }) => runCount === '3',
    );
    await page.getByRole('button', { name: 'Interrupt turn', exact: true }).click();
    await page.getByText('Nothing was stopped. Run 2 has already ended: the current run is 3.').waitFor();
    await release();
    await expect.poll(() => agents.phase('quick')).toBe('RUNNING/WORKING');
    expect((await agents.status('quick')).runCount).toBe('3');
  });

  test('shows queued and scheduled messages, counts down, and removes one', async () => {
    await working('queue');
    await agents.queue('queue', 'first in line');
    await agents.queue('queue', { description: 'with settings', reasoningEffort: 'max', fastMode: true });
    await openQueue(page, '2 queued');
    await queue().getByText('effort max').waitFor();
    await queue().getByText('fast mode on').waitFor();
    await queue()
      .getByText(/queued \d+s ago/)
      .first()
      .waitFor();

    await page.getByRole('button', { name: 'Options' }).click();
    await page.getByRole('button', { name: 'Schedule', exact: true }).click();
    await page.getByRole('button', { name: 'In 10 minutes' }).click();
    await page.getByLabel('Message to the agent').fill('much later');
    await page.getByRole('button', { name: 'Send later' }).click();
    await page.getByRole('button', { name: '2 queued, 1 scheduled' }).waitFor();
    const later = queue().getByRole('listitem').filter({ hasText: 'much later' });
    const left = () => later.getByText(/, in (9|10)m \d\ds/).textContent();
    const before = await left();
    await until('the countdown moves', left, (text) => text !== before);

    await page.getByRole('button', { name: 'Remove message: first in line' }).click();
    await page.getByRole('button', { name: '1 queued, 1 scheduled' }).waitFor();
    await later.getByRole('button', { name: 'Remove' }).click();
    await later.waitFor({ state: 'detached' });
    expect((await agents.status('queue')).followUps.map(({ description }) => description)).toEqual([
      'with settings',
    ]);
  });

  test('adds a message to the running turn, or queues it after the turn', async () => {
    await working('steered');
    const send = async (text: string) => {
      await page.getByLabel('Message to the agent').fill(text);
      await page.getByRole('button', { name: 'Send', exact: true }).click();
    };
    await page.getByLabel('Message to the agent').focus();
    await page.getByText('Will be added to this turn.').waitFor();
    await send('!say now');
    await openQueue(page, '1 queued');
    const message = (text: string) => queue().getByRole('listitem').filter({ hasText: text });
    await message('!say now').getByText('for this turn').waitFor();
    await page.getByLabel('Delivery').selectOption('After this turn');
    await page.getByText('Queued until this turn ends.').waitFor();
    await send('!say later');
    await message('!say later').waitFor();
    expect(await message('!say later').getByText('for this turn').count()).toBe(0);
    expect((await agents.status('steered')).followUps.map(({ steer }) => steer)).toEqual([true, false]);
  });

  test('sends images that were chosen or pasted, after a preview; the transcript shows them', async () => {
    await agents.spawn('pictured', { description: '!say Ready.' });
    await agents.wait('pictured');
    await open('pictured');
    const drafts = page.getByRole('list', { name: 'Images of the message' });
    const file = (name: string, mimeType: string, buffer: Buffer) => ({ name, mimeType, buffer });
    const choose = page.getByLabel('Images', { exact: true }).first();
    await choose.setInputFiles([file('one.png', 'image/png', png()), file('two.png', 'image/png', png('2'))]);
    await drafts.getByRole('img', { name: 'two.png' }).waitFor();
    await drafts.getByRole('button', { name: 'Remove image: two.png' }).click();
    await choose.setInputFiles(file('note.txt', 'text/plain', Buffer.from('x')));
    await page.getByText('Only PNG, JPEG, WebP and GIF images can be added.').waitFor();
    await page.getByLabel('Message to the agent').evaluate(
      (field, bytes) => {
        const clipboardData = new DataTransfer();
        clipboardData.items.add(new File([new Uint8Array(bytes)], 'pasted.png', { type: 'image/png' }));
        field.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
      },
      [...png('pasted')],
    );
    await drafts.getByRole('img', { name: 'pasted.png' }).waitFor();
    expect(await drafts.getByRole('img').count()).toBe(2);
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await drafts.waitFor({ state: 'detached' });
    const shown = page.getByRole('list', { name: 'Images', exact: true }).getByRole('img');
    await shown.nth(1).waitFor();
    const isDrawn = (image: HTMLImageElement) => image.decode().then(() => image.naturalWidth);
    expect(await shown.nth(0).evaluate(isDrawn)).toBe(1);
    expect(await shown.nth(1).evaluate(isDrawn)).toBe(1);
    const [delivered] = (await agents.timeline('pictured', 'FOLLOW_UP_DELIVERED')).slice(-1);
    const { attachmentIds } = delivered?.data ?? {};
    await agents.queue('pictured', { description: 'Look again.', deliverAt: inAnHour(), attachmentIds });
    await openQueue(page, '1 scheduled');
    await page.getByText('2 images', { exact: true }).waitFor();
  });

  test('shows the images that a tool returned', async () => {
    const { t, run } = await newWorkingTenant(fixture.api);
    const { attachmentId } = expectOk(await t.runner.saveAttachment(run, png()));
    const data = { tool: 'Read', id: 'call' };
    const result = { type: 'TOOL_RESULT', data: { ...data, attachmentIds: [attachmentId, 'deleted'] } };
    await t.report(run, { items: [{ type: 'TOOL_CALL', text: 'Read shot.png', data }, result] });
    await visitor.follow(await addressOf(t, 'a'));
    const shown = page.getByRole('list', { name: 'Images', exact: true });
    await shown.getByRole('img', { name: /^Image 1: .*shot\.png$/ }).waitFor();
    await shown.getByText('was deleted').waitFor();
  });

  test('clears queued messages, and keeps scheduled ones', async () => {
    await working('cleared');
    await agents.queue('cleared', 'one');
    await agents.queue('cleared', 'two');
    await agents.queue('cleared', { description: 'stays', deliverAt: inMs(3_600_000) });
    await openQueue(page, '2 queued, 1 scheduled');
    await queue().getByRole('button', { name: 'Clear queue' }).click();
    await dialog().getByText('2 queued messages will be discarded').waitFor();
    await dialog().getByText('1 scheduled message will stay.').waitFor();
    await dialog().getByRole('button', { name: 'Clear 2 messages' }).click();
    await dialog().waitFor({ state: 'detached' });
    await page.getByRole('button', { name: '1 scheduled', exact: true }).waitFor();
    expect((await agents.timeline('cleared', 'FOLLOW_UP_CLEARED')).length).toBe(2);
  });

  test('copies the link, exports and shares from the menu', async () => {
    await agents.spawn('linked', { description: '!say Ready.' });
    await agents.wait('linked');
    await open('linked');
    await page.context().grantPermissions(['clipboard-write']);
    await choose(page, 'Copy link');
    await page.getByText('Link copied').waitFor();
    await choose(page, 'Export transcript');
    await page.getByRole('dialog', { name: 'Export transcript' }).waitFor();
    await page.keyboard.press('Escape');
    await choose(page, 'Share');
    await page.getByRole('dialog', { name: 'Share' }).getByRole('button', { name: 'Create link' }).waitFor();
    await page.keyboard.press('Escape');
    // The arrow keys move in the menu, and Escape returns to its button.
    await page.getByRole('button', { name: 'More actions' }).press('Enter');
    await page.keyboard.press('ArrowUp');
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('Kill agent');
    await page.keyboard.press('Escape');
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.getAttribute('aria-label')))
      .toBe('More actions');
  });

  test('shows the full text of a message that the status shortens', async () => {
    await working('wordy');
    const text = `${'word '.repeat(2000)}end`;
    const schema = JSON.stringify({ type: 'object', description: 'x'.repeat(5000) });
    await agents.queue('wordy', { description: text, outputSchema: schema });
    await agents.queue('wordy', 'short');
    await openQueue(page, '2 queued');
    await queue().getByText('shortened').waitFor();
    await expect
      .poll(() =>
        queue()
          .getByRole('button', { name: /^Show full text/ })
          .count(),
      )
      .toBe(1);
    await queue()
      .getByRole('button', { name: /^Show full text: word/ })
      .click();
    await dialog()
      .getByText(/word end$/)
      .waitFor();
    await dialog().getByText('output schema').waitFor();
    await dialog().getByText(/"xxx/).waitFor();
    await visitor.expectNoSidewaysScroll();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.keyboard.press('Escape');
    await dialog().waitFor({ state: 'detached' });
  });

  test('lists the agents that a kill would end', async () => {
    await agents.spawn('tree', {
      description:
        '!spawn left !spawn leaf !sleep 600\\n!sleep 600\n!spawn right !ask go on?\n!spawn gone !finish\n!sleep 600',
    });
    await until(
      'all are there',
      async () => (await agents.timeline('tree', 'CHILD_SPAWNED')).length,
      (children) => children === 3,
    );
    await agents.wait('tree/right');
    await agents.wait('tree/gone');
    await until(
      'its grandchild works',
      () => agents.send('agent/status', 'tree/left/leaf'),
      ({ body }) => body.phaseReason === 'WORKING',
    );
    await agents.queue('tree', 'never delivered');
    await agents.queue('tree/left', { description: 'nor this', deliverAt: inMs(3_600_000) });
    await open('tree');
    await choose(page, 'Kill agent');
    const listed = dialog().getByRole('list', { name: 'Agents to kill' }).getByRole('listitem');
    await dialog().getByText('2 undelivered messages will be cleared.').waitFor();
    await dialog().getByText('A turn in progress may have changed more than its last checkpoint').waitFor();
    const texts = async () => (await listed.allTextContents()).map((text) => text.replace(/\d+s/, 'a while'));
    await expect
      .poll(texts)
      .toEqual([
        expect.stringMatching(/^tree ?working for a while ?1 message$/),
        expect.stringMatching(/^tree\/left ?working for a while ?1 message$/),
        expect.stringMatching(/^tree\/left\/leaf ?working for a while$/),
        expect.stringMatching(/^tree\/right ?needs input for a while: go on\?$/),
      ]);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await dialog().getByRole('button', { name: 'Cancel' }).click();
    expect(await agents.phase('tree')).toBe('RUNNING/WORKING');

    await choose(page, 'Kill agent');
    await dialog().getByRole('button', { name: 'Kill 4 agents' }).click();
    await dialog().waitFor({ state: 'detached' });
    await header('killed').waitFor();
    expect(await agents.phase('tree/left/leaf')).toBe('CANCELED/PARENT_KILLED');
    expect(await agents.phase('tree/gone')).toBe('COMPLETED/FINISHED');
  });

  test('kills live agents below an ended one', async () => {
    await agents.spawn('survived', { description: '!spawn child !sleep 600\n!fail too early' });
    await until(
      'it failed',
      () => agents.phase('survived'),
      (phase) => phase === 'FAILED/ERROR',
    );
    await open('survived');
    await choose(page, 'Kill agent');
    await dialog().getByText('The agent itself has already ended.').waitFor();
    await dialog().getByRole('button', { name: 'Kill 1 agent', exact: true }).click();
    await until(
      'the child is dead',
      () => agents.phase('survived/child'),
      (phase) => phase.startsWith('CANCELED'),
    );
    expect(await agents.phase('survived')).toBe('FAILED/ERROR');
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Kill agent' }).waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
  });

  test('retries a blocked agent, and says what to fix', async () => {
    await agents.spawn('stuck', { description: '!sleep soon' });
    await agents.wait('stuck');
    await open('stuck');
    await header('blocked').waitFor();
    await page
      .getByText('Blocked: Retry, or send a message with a correct directive: then the agent skips this one.')
      .waitFor();
    await page.getByRole('button', { name: 'Retry', exact: true }).click();
    await until(
      'another run',
      () => agents.status('stuck'),
      ({ runCount, phaseReason }) => runCount === '2' && phaseReason === 'RESTING',
    );
  });

  test('reopens a finished agent and sends it a message', async () => {
    await agents.spawn('done', { description: '!finish that was all' });
    await agents.wait('done');
    await open('done');
    await page.getByRole('button', { name: 'Reopen' }).click();
    await header('idle').waitFor();
    await page.getByLabel('Message to the agent').fill('!say once more');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await until(
      'the answer',
      () => agents.status('done'),
      ({ response }) => response === 'once more',
    );
  });

  const expectReadOnly = async (watcher: Visitor, why: string | RegExp) => {
    await watcher.page.getByText(why).waitFor();
    await openQueue(watcher.page, '1 queued');
    await watcher.page.getByText('a message').first().waitFor();
    for (const name of ['Stop turn', 'Remove', 'Edit', 'Move', 'Clear queue', 'Send', 'Options'])
      await expect.poll(() => watcher.page.getByRole('button', { name }).count(), { message: name }).toBe(0);
    await watcher.page.getByRole('button', { name: 'More actions' }).click();
    await watcher.page.getByRole('menuitem', { name: 'Copy link' }).waitFor();
    expect(await watcher.page.getByRole('menuitem', { name: /Kill|Share/ }).count()).toBe(0);
    await watcher.page.keyboard.press('Escape');
    await watcher.page.keyboard.press('m');
    await expect.poll(() => watcher.page.getByRole('textbox', { name: 'Message' }).count()).toBe(0);
  };

  test('a viewer has read-only access, and a member of agents that are not theirs; a member controls their own', async () => {
    await agents.spawn('watched', { description: '!sleep 600' });
    await until(
      'it works',
      () => agents.phase('watched'),
      (phase) => phase === 'RUNNING/WORKING',
    );
    await agents.queue('watched', 'a message');
    const path = await addressOf(agents, 'watched');
    const { key } = await apiWithNewKey(fixture.api, { role: 'viewer' });
    const viewer = await fixture.visit({ path, key });
    await expectReadOnly(viewer, /^Your key can only read agents. Ask \S+, who owns this agent/);
    await viewer.leave();

    const ada = await apiWithNewKey(fixture.api, { role: 'member', account: 'ada' });
    const own = new Agents(ada, 'default');
    await own.spawn('own', { description: '!say mine' });
    const { agentId } = await own.wait('own');
    const member = await fixture.visit({ path, key: ada.key });
    await expectReadOnly(member, 'owns this agent.');
    await member.follow(agentPage(agentId));
    await member.page.getByLabel('Message to the agent').fill('!say as you like');
    await member.page.getByRole('button', { name: 'Send', exact: true }).click();
    await until(
      'the answer',
      () => own.status('own'),
      ({ response }) => response === 'as you like',
    );
    await member.leave();
    await agents.kill('watched');
  });
});
