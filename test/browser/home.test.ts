import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { Agents, inAnHour } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { phone } from '../support/browser.ts';
import { apiWithNewKey, writeResource } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the home page', () => {
  const fixture = browserFixture(sharedServer);

  /** Opens the page of a new tenant, so that each test has its own fleet. */
  const arrive = async (options: Parameters<typeof fixture.visit>[0] = {}) => {
    const { admin } = await newTenant(fixture.server.operator);
    const agents = new Agents(admin, 'default');
    // What is left to set up has its own tests.
    await admin.post('/v1/setup', { dismissed: true });
    const visitor = await fixture.visit({ key: admin.key, ...options });
    return { admin, agents, visitor, page: visitor.page };
  };

  const section = (page: Page, name: string) => page.getByRole('region', { name });
  const row = (page: Page, name: string) =>
    page
      .getByRole('listitem')
      .filter({ has: page.getByRole('link', { name: new RegExp(`^${name}( ?,|$)`) }) });
  const titles = (page: Page) => page.getByRole('heading', { level: 2 }).allTextContents();
  const unread = (page: Page) =>
    page.getByRole('link', { name: 'unseen' }).evaluateAll((links) => links.length);

  /** One agent in every section. */
  const everySection = async (agents: Agents) => {
    await agents.spawn('asks', { description: 'Plan the tables\n!ask Which database?\nand why' });
    await agents.spawn('breaks', { description: 'Fill the disk\n!fail There is no disk' });
    await agents.spawn('stops', { description: '!task add Sweep the floor' });
    await agents.spawn('ends', { description: 'Tidy the shed\n!finish It is tidy.' });
    await agents.spawn('limited', { description: '!limit 3600' });
    await agents.spawn('works', { description: '!sleep 600' });
    await agents.spawn('sleeps', { description: '!say Later.' });
    for (const name of ['asks', 'breaks', 'stops', 'ends', 'sleeps']) await agents.wait(name);
    await agents.queue('sleeps', { description: 'Again', deliverAt: inAnHour() });
    for (const [name, phase] of [
      ['limited', 'PENDING/PROVIDER_LIMIT'],
      ['works', 'RUNNING/WORKING'],
      ['sleeps', 'WAITING_FOR_INPUT/DEFERRED'],
    ] as const) {
      await until(
        `${name} is ${phase}`,
        () => agents.phase(name),
        (now) => now === phase,
      );
    }
  };

  test('explains how to start the first agent', async () => {
    const { admin, visitor, page } = await arrive();
    await page.getByRole('heading', { name: 'No agents yet' }).waitFor();
    await expect.poll(() => page.title()).toBe('Muster');
    await page.getByText('muster.js spawn "Fix the flaky login test."').waitFor();
    await page.getByRole('main').getByRole('button', { name: 'New agent' }).click();
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    const viewer = await apiWithNewKey(admin, {
      role: 'viewer',
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'guest',
    });
    const guest = await fixture.visit({ key: viewer.key });
    await guest.page.getByRole('heading', { name: 'No agents yet' }).waitFor();
    await expect.poll(() => guest.page.getByText('muster.js spawn').count()).toBe(0);
    await new Agents(admin, 'default').spawn('first', { description: '!sleep 600' });
    await row(page, 'first').waitFor();
    await page.getByText('This agent is a rehearsal: scripted, without a model.').waitFor();
    await expect.poll(() => page.getByText('No agents yet').count()).toBe(0);
    await guest.leave();
    await visitor.leave();
  });

  test('has a section for each status, the most urgent first, with the reason, accessible and also on a phone', async () => {
    const { admin, agents, visitor, page } = await arrive();
    await everySection(agents);
    await section(page, 'Idle or seen').waitFor();
    await expect
      .poll(() => titles(page))
      .toEqual([
        'Needs input 1',
        'Failed 1',
        'Unfinished tasks 1',
        'Finished, unseen 1',
        'Waiting 1',
        'Working 1',
        'Idle or seen 1',
      ]);
    const words = async (name: string) => (await row(page, name).innerText()).replace(/\s+/g, ' ');
    await expect.poll(() => words('asks')).toMatch(/Which database\? Plan the tables/);
    await expect.poll(() => words('breaks')).toMatch(/There is no disk Fill the disk/);
    await expect.poll(() => words('stops')).toMatch(/0 of 1 task/);
    await expect.poll(() => words('ends')).toMatch(/It is tidy\. Tidy the shed/);
    await expect.poll(() => words('limited')).toMatch(/rate limited until .*\d\d:\d\d/);
    await expect.poll(() => words('works')).toMatch(/Sleeping/);
    await expect.poll(() => words('sleeps')).toMatch(/1 queued scheduled for/);
    // The title of the tab and a live region say how many agents need attention.
    await expect.poll(() => page.title()).toBe('(3) Muster');
    await page
      .getByRole('status')
      .filter({ hasText: '3 agents need attention.' })
      .waitFor({ state: 'attached' });
    await page.getByText('All 7 agents are rehearsals: scripted, without a model.').waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);

    const pocket = await fixture.visit({ key: admin.key, ...phone });
    await section(pocket.page, 'Working').waitFor();
    await pocket.expectNoSidewaysScroll();
    expect(await pocket.accessibilityProblems()).toEqual([]);
    const asking = row(pocket.page, 'asks');
    await asking.getByText('Which database?').waitFor();
    await asking.getByRole('button', { name: 'Mark asks seen' }).tap();
    await asking.getByRole('button', { name: 'Mark asks unseen' }).waitFor();
    await asking.getByRole('link').tap();
    await pocket.page.getByRole('heading', { level: 1, name: 'asks' }).waitFor();
    await pocket.leave();

    // An answer moves the agent, without a reload.
    await agents.queue('asks', '!finish Good.');
    await section(page, 'Finished, unseen 2').getByRole('link', { name: 'asks' }).waitFor();
    await expect.poll(() => page.title()).toBe('(2) Muster');
    await page.getByRole('searchbox').fill('nobody has this');
    await page.getByRole('heading', { name: 'No matching agents' }).waitFor();
    expect(await visitor.accessibilityProblems(page.getByRole('main'))).toEqual([]);
    await visitor.leave();
  });

  test('shows which agents have no sandbox, and so does the page of each', async () => {
    const { admin, visitor, page } = await arrive();
    const tenant = await newTestTenant(admin);
    await tenant.spawn('open', { model: 'opus' });
    await tenant.end(await tenant.claim('open', { rehearses: false, capabilities: ['deferral'] }));
    await page.getByText('No sandbox: this agent runs with all permissions').waitFor();
    await row(page, 'open').getByRole('link', { name: 'open' }).click();
    await page.getByText('No sandbox', { exact: true }).waitFor();
    await visitor.leave();
  });

  test('shows the name, tree, model and cost of an agent in its row', async () => {
    const { admin, agents, visitor, page } = await arrive();
    await writeResource(admin, 'persona', 'reviewer', { model: 'rehearsal-a', instructions: 'Review.' });
    await agents.spawn('build', {
      persona: 'reviewer',
      description: 'Ship it\n!usage 20000 5000 1000 1.25\n!spawn web !usage 0 0 500 0.5\\n!sleep 600',
    });
    await agents.queue('build', { description: 'Later', deliverAt: inAnHour() });
    await row(page, 'build / web').waitFor();
    const line = (name: string) =>
      row(page, name)
        .innerText()
        .then((text) => text.replace(/\s+/g, ' '));
    await expect.poll(() => line('build / web')).toMatch(/build \/ web.*rehearsal-a.*\$0\.50.*500 tokens/);
    const parent = /^build.*1 child · 1 queued.*rehearsal-a reviewer.*\$1\.25.*\/ \$1\.75.*21k tokens/;
    await expect.poll(() => line('build')).toMatch(parent);

    // Owner and workspace are shown once there are several.
    expect(await line('build / web')).not.toContain('default');
    await writeResource(admin, 'workspace', 'shop', { repos: [] });
    const grace = await apiWithNewKey(admin, {
      role: 'member',
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'grace',
    });
    await new Agents(grace, 'shop').spawn('lint');
    await expect.poll(() => line('lint')).toContain('grace · shop');
    await expect.poll(() => line('build / web')).toContain('chief · default');
    await visitor.leave();
  });

  test('shows labels and filters by them', async () => {
    const { agents, visitor, page } = await arrive();
    const labels = { team: 'web', tier: '1' };
    await agents.spawn('one', { description: '!sleep 600', labels });
    await agents.spawn('two', { description: '!sleep 600', labels: { team: 'web' } });
    await agents.spawn('three', { description: '!sleep 600' });
    await row(page, 'one').getByText('tier=1', { exact: true }).waitFor();
    const names = async () => (await page.getByRole('list').getByRole('link').allTextContents()).sort();
    await expect.poll(names).toHaveLength(3);
    await page.getByLabel('Label', { exact: true }).selectOption('team=web');
    await expect.poll(names).toEqual(['one, unseen', 'two, unseen']);
    await page.getByLabel('Label', { exact: true }).selectOption('tier=1');
    await expect.poll(names).toEqual(['one, unseen']);
    const query = () => new URL(page.url()).searchParams.getAll('label');
    expect(query()).toEqual(['team=web', 'tier=1']);
    await page.reload();
    await expect.poll(names).toEqual(['one, unseen']);
    await page.getByRole('button', { name: 'Remove label team=web' }).click();
    await expect.poll(query).toEqual(['tier=1']);
    // A changed label changes the filtered list without a reload.
    await agents.send('agent/labels', 'three', { labels: { tier: '1' } });
    await expect.poll(names).toEqual(['one, unseen', 'three, unseen']);
    await visitor.goto('/?label=team%3Dapi');
    await page.getByText('No agent matches: label team=api.').waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).first().click();
    await expect.poll(names).toHaveLength(3);
    await row(page, 'one').getByRole('link').click();
    await page.getByRole('link', { name: 'team=web' }).click();
    await expect.poll(names).toHaveLength(2);
    await visitor.leave();
  });

  test('remembers in every tab and after a reload which agents were seen, until they have new entries', async () => {
    const { agents, visitor, page } = await arrive();
    for (const name of ['one', 'two', 'three']) await agents.spawn(name, { description: '!finish Done.' });
    await section(page, 'Finished, unseen 3').waitFor();
    await expect.poll(() => unread(page)).toBe(3);
    const other = await page.context().newPage();
    await other.goto(fixture.server.url);
    await section(other, 'Finished, unseen 3').waitFor();

    // With the button of the row.
    await page.getByRole('button', { name: 'Mark one seen' }).click();
    await section(page, 'Idle or seen 1').getByRole('link', { name: 'one' }).waitFor();
    await section(other, 'Idle or seen 1').waitFor();
    await page.getByRole('button', { name: 'Mark one unseen' }).click();
    await section(other, 'Finished, unseen 3').waitFor();
    // By opening the agent.
    await page.getByRole('link', { name: 'two' }).click();
    await expect.poll(() => page.title()).toBe('two · finished · Muster');
    await page.goBack();
    await section(page, 'Idle or seen 1').getByRole('link', { name: 'two' }).waitFor();
    // All of a section.
    await page.getByRole('button', { name: 'Mark all seen' }).click();
    await section(page, 'Idle or seen 3').waitFor();
    await expect.poll(() => titles(page)).toEqual(['Idle or seen 3']);
    await page.reload();
    await section(page, 'Idle or seen 3').waitFor();
    await expect.poll(() => unread(page)).toBe(0);

    await other.close();

    await agents.spawn('rests', { description: '!say One.' });
    await section(page, 'Finished, unseen 1').waitFor();
    await page.getByRole('button', { name: 'Mark all seen' }).click();
    await section(page, 'Idle or seen 4').waitFor();
    await agents.queue('rests', '!say Two.');
    await section(page, 'Finished, unseen 1')
      .getByRole('link', { name: /^rests ?, unseen/ })
      .waitFor();
    await visitor.leave();
  });

  test('shows on every device of a person what was seen and pinned on one of them', async () => {
    const { admin, agents, visitor, page } = await arrive();
    for (const name of ['one', 'two']) await agents.spawn(name, { description: '!finish Done.' });
    const pocket = await fixture.visit({ key: admin.key, ...phone });
    await section(pocket.page, 'Finished, unseen 2').waitFor();
    await section(page, 'Finished, unseen 2').waitFor();
    await page.getByRole('button', { name: 'Mark one seen' }).click();
    await section(pocket.page, 'Idle or seen 1').getByRole('link', { name: 'one' }).waitFor();

    await row(page, 'one').hover();
    await page.getByRole('button', { name: 'Pin one' }).click();
    await section(page, 'Pinned 1').getByRole('link', { name: 'one' }).waitFor();
    await section(pocket.page, 'Pinned 1').getByRole('link', { name: 'one' }).tap();
    await pocket.page.getByRole('button', { name: 'Unpin' }).tap();
    await section(page, 'Idle or seen 1').getByRole('link', { name: 'one' }).waitFor();
    await page.getByRole('link', { name: 'two' }).focus();
    await page.keyboard.press('p');
    await section(page, 'Pinned 1').getByRole('link', { name: 'two' }).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await pocket.page.getByRole('link', { name: 'Muster' }).tap();
    await section(pocket.page, 'Pinned 1').getByRole('link', { name: 'two' }).waitFor();
    await pocket.expectNoSidewaysScroll();
    await pocket.leave();
    await visitor.leave();
  });

  test('takes over what an earlier version stored in the browser', async () => {
    const { agents, visitor, page } = await arrive();
    for (const name of ['one', 'two']) await agents.spawn(name, { description: '!finish Done.' });
    await section(page, 'Finished, unseen 2').waitFor();
    const { dashboardUrl, createdAt } = await agents.status('one');
    await page.evaluate(
      ({ key, value }) => {
        localStorage.setItem(`muster.seen ${key}`, value);
        localStorage.setItem('muster.seen /agents/of/another', '{"not": "a mark"');
      },
      { key: new URL(dashboardUrl).pathname, value: `1000 1767225600000 ${createdAt}` },
    );
    await page.reload();
    await section(page, 'Idle or seen 1').getByRole('link', { name: 'one' }).waitFor();
    await section(page, 'Finished, unseen 1').waitFor();
    expect(
      await page.evaluate(() => Object.keys(localStorage).filter((key) => key.includes('seen'))),
    ).toEqual([]);
    await page.reload();
    await section(page, 'Idle or seen 1').getByRole('link', { name: 'one' }).waitFor();
    await visitor.leave();
  });

  test('counts in the title and the icon of the tab which of my agents need me', async () => {
    const { admin, agents, visitor, page } = await arrive();
    const icon = () =>
      page.evaluate(() => document.querySelector<HTMLLinkElement>('link[rel=icon]')?.href ?? '');
    await page.getByRole('heading', { name: 'No agents yet' }).waitFor();
    expect(await icon()).toMatch(/\.svg$/);
    const others = new Agents(await apiWithNewKey(admin, { role: 'member', account: 'other' }), 'default');
    await others.spawn('theirs', { description: '!ask Me?' });
    await agents.spawn('mine', { description: '!ask Which database?' });
    await expect.poll(() => page.title()).toBe('(1) Muster');
    await page
      .getByRole('status')
      .filter({ hasText: '2 agents need attention.' })
      .waitFor({ state: 'attached' });
    await page.keyboard.press('c');
    await expect.poll(() => page.title()).toBe('(1) Catalog · Muster');
    expect(await icon()).toMatch(/^blob:/);
    await agents.queue('mine', '!finish Good.');
    await expect.poll(() => page.title()).toBe('Catalog · Muster');
    expect(await icon()).toMatch(/\.svg$/);
    for (let n = 0; n < 10; n += 1) await agents.spawn(`q${n}`, { description: '!ask Me?' });
    await expect.poll(() => page.title()).toBe('(10) Catalog · Muster');
    await expect.poll(icon).toMatch(/^blob:/);
    await visitor.leave();
  });

  test('lists agents that ended recently, and older ones on request', async () => {
    const { agents, visitor, page } = await arrive({ path: '/healthz' });
    const { default: pg } = await import('pg');
    const database = new pg.Client({ connectionString: fixture.server.databaseUrl });
    await database.connect();
    const days = { recent: 1, month: 20, ancient: 90 };
    for (const [name, age] of Object.entries(days)) {
      await agents.spawn(name, { description: '!finish Done.' });
      await agents.wait(name);
      await database.query(`UPDATE agents SET ended_at = now() - make_interval(days => $2) WHERE path = $1`, [
        name,
        age,
      ]);
    }
    await database.end();
    await visitor.goto('/');
    const names = async () => (await page.getByRole('list').getByRole('link').allTextContents()).sort();
    await expect.poll(names).toEqual(['recent, unseen']);
    await page.getByText('Showing agents that ended in the last 7 days.').waitFor();
    await page.getByRole('link', { name: 'Show 30 days' }).click();
    await expect.poll(names).toEqual(['month, unseen', 'recent, unseen']);
    await expect.poll(() => new URL(page.url()).search).toBe('?ended=30d');
    await page.getByRole('link', { name: 'Show all' }).click();
    await expect.poll(names).toHaveLength(3);
    await page.reload();
    await expect.poll(names).toHaveLength(3);
    await page.getByRole('link', { name: 'Show 7 days' }).click();
    await expect.poll(names).toHaveLength(1);
    await visitor.leave();
  });

  test('shows the error when the list fails, and retries on request', async () => {
    const { agents, visitor, page } = await arrive({ path: '/healthz' });
    await agents.spawn('here', { description: '!sleep 600' });
    const refusal = { code: 7, message: 'Not today.', details: [] };
    await page.route('**/v1/agents/stream', (route) => route.fulfill({ status: 403, json: refusal }));
    await visitor.goto('/');
    await page.getByRole('alert').filter({ hasText: 'Not today.' }).waitFor();
    await page.unroute('**/v1/agents/stream');
    await page.getByRole('button', { name: 'Try again' }).click();
    await row(page, 'here').waitFor();
    await expect.poll(() => page.getByRole('alert').count()).toBe(0);
    await visitor.leave();
  });
});
