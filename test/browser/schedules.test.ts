/// <reference lib="dom" />
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { phone, type Visitor } from '../support/browser.ts';
import { writeResource } from '../support/catalog.ts';
import { sharedServer } from '../support/shared-server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the pages of schedules', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    visitor = await fixture.visit({ path: '/schedules' });
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const fitsPhone = async (): Promise<void> => {
    const { viewport } = phone;
    const before = page.viewportSize();
    if (viewport) await page.setViewportSize(viewport);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    expect(await visitor.accessibilityProblems()).toEqual([]);
    if (before) await page.setViewportSize(before);
  };

  test('without any, the list says what they are for', async () => {
    await page.getByRole('heading', { name: 'No schedules' }).waitFor();
    expect(await page.title()).toBe('Schedules · Muster');
    expect(await visitor.accessibilityProblems()).toEqual([]);
  });

  test('the list has the next time in both zones and the last outcome; t opens it', async () => {
    const spawn = { agentId: { agent: ['update-{date}-{n}'] }, description: 'Update.', model: 'rehearsal-a' };
    await writeResource(fixture.api, 'schedule', 'nightly', {
      ...{ cron: '0 7 * * 1-5', zone: 'Asia/Kathmandu', spawn },
    });
    await writeResource(fixture.api, 'schedule', 'never', { cron: '0 7 1 1 *', spawn, paused: true });
    await visitor.goto('/');
    await expect
      .poll(async () => {
        await page.keyboard.press('t');
        return page.url();
      })
      .toContain('/schedules');
    const entries = page.getByRole('list', { name: 'Schedules' }).getByRole('listitem');
    await expect.poll(() => entries.count()).toBe(2);
    const first = await entries.first().innerText();
    expect(first).toContain('Every weekday at 07:00, Asia/Kathmandu');
    expect(first).toMatch(/Next: \w{3},? \d+ \w+ \d{4},? (at )?07:00 · .* here/);
    expect(first).toContain('has not fired yet');
    expect(await entries.last().innerText()).toContain('paused');
    await fitsPhone();
  });

  test('one is fired, paused and resumed, and has its history', async () => {
    await page.getByRole('link', { name: 'nightly' }).click();
    await page.getByRole('heading', { name: 'nightly', level: 1 }).waitFor();
    await expect
      .poll(() => page.getByRole('region', { name: 'Next runs' }).getByRole('listitem').count())
      .toBe(5);
    await page.getByText('It has not fired yet.').waitFor();
    await page.getByRole('button', { name: 'Run now' }).click();
    await page.getByText('Spawned').waitFor();
    const history = page.getByRole('list', { name: 'History' }).getByRole('listitem');
    await expect.poll(() => history.count()).toBe(1);
    expect(await history.first().innerText()).toMatch(/fired[\s\S]*run by hand[\s\S]*update-.*-1/);
    await page.getByRole('button', { name: 'Run now' }).click();
    await page.getByText('Not fired: the agent of an earlier time is still busy').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByText('None while it is paused.').waitFor();
    await fitsPhone();
    await page.getByRole('button', { name: 'Resume' }).click();
    await expect
      .poll(() => page.getByRole('region', { name: 'Next runs' }).getByRole('listitem').count())
      .toBe(5);
  });

  test('the editor of the catalog says in words when it fires, while one types', async () => {
    await page.getByRole('link', { name: 'Edit', exact: true }).click();
    const preview = page.getByRole('region', { name: 'When it fires' });
    await preview.getByText('Every weekday at 07:00, Asia/Kathmandu').waitFor();
    expect(await preview.getByRole('listitem').count()).toBe(5);
    const text = page.getByRole('textbox', { name: 'nightly as YAML' });
    await text.fill('cron: 0 8 * * 1\nzone: Europe/Berlin\nmessage: x\n');
    await preview.getByText('Every Monday at 08:00, Europe/Berlin').waitFor();
    await text.fill('cron: 0 8 30 2 *\n');
    await preview.getByText(/never fires/).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
  });

  test('an unknown one is said to be unknown', async () => {
    await visitor.goto('/schedules/unknown');
    await page.getByRole('heading', { name: 'No schedule “unknown”' }).waitFor();
  });
});
