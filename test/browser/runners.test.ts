/// <reference lib="dom" />
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { phone, type Visitor } from '../support/browser.ts';
import { newFakeRunner } from '../support/fake-runner.ts';
import { sharedServer } from '../support/shared-server.ts';
import { TestTenant } from '../support/test-tenant.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the page of the runners', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    visitor = await fixture.visit({ path: '/runners' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const runner = (name: string) =>
    page.getByRole('listitem').filter({ has: page.getByRole('heading', { name, level: 3 }) });

  test('without any, it says what to do', async () => {
    await page.getByRole('heading', { name: 'No runner' }).waitFor();
    expect(await page.title()).toBe('Runners · Muster');
    expect(await visitor.accessibilityProblems()).toEqual([]);
  });

  test('a runner shows its runs, slots, disk, machine and accounts, and is drained', async () => {
    const fake = await newFakeRunner(fixture.api, 'default');
    const tenant = new TestTenant(fixture.api, 'shop', fake);
    const paused = { state: 'PAUSED', runs: 0, error: 'The provider refused the key (401)' };
    const described = {
      machine: { system: 'linux x64, Node v20.20.2', freeBytes: 40e9, totalBytes: 250e9 },
      accountStates: [
        { account: 'anthropic/default', ...paused, pausedUntil: null },
        { account: 'anthropic/team', state: 'IN_USE', runs: 1, pausedUntil: null, error: '' },
      ],
    };
    await tenant.spawn('builder');
    await tenant.start('builder');
    await fake.poll({ ...described, free: { real: 0, rehearsed: 255 } });
    await visitor.goto('/runners');
    const shown = runner(fake.name);
    for (const text of [
      'ready',
      '1 run, 255 more slots free',
      '40 GB of 250 GB free',
      'linux x64, Node v20.20.2',
      'paused',
      'until its credentials are changed',
      'The provider refused the key (401)',
      'used by 1 run',
    ])
      await shown.getByText(text, { exact: true }).waitFor();
    await expect.poll(() => shown.getByRole('link', { name: 'builder' }).count()).toBe(1);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    if (phone.viewport) await page.setViewportSize(phone.viewport);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    await shown.getByRole('button', { name: 'Drain' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
    await shown.getByText('draining', { exact: true }).waitFor();
    expect((await fake.poll(described)).body).toMatchObject({ drain: true });
  });
});
