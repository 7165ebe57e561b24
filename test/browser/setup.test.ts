/// <reference lib="dom" />
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { phone, type Visitor } from '../support/browser.ts';
import { createKey, readDocument, writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { startServer } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('first run', () => {
  const folder = mkdtempSync(join(tmpdir(), 'muster-first-run-'));
  const repository = join(folder, 'shop');
  const fixture = browserFixture(() => startServer());
  let visitor: Visitor;

  beforeAll(async () => {
    const git = (...args: string[]) => execFileSync('git', ['-C', repository, ...args]);
    execFileSync('git', ['init', '--quiet', '--initial-branch=main', repository]);
    writeFileSync(join(repository, 'README.md'), '# Shop\n');
    git('add', '.');
    git('-c', 'user.name=a', '-c', 'user.email=a@example.com', 'commit', '--quiet', '-m', 'Start');
    visitor = await fixture.visit();
  });
  afterAll(async () => {
    await visitor?.leave();
    rmSync(folder, { recursive: true, force: true });
  });

  const cardOf = ({ page }: Visitor) => page.getByRole('region', { name: 'Set up Muster' });
  const card = () => cardOf(visitor);
  const states = () =>
    card()
      .getByRole('listitem')
      .evaluateAll((all) => all.map((li) => li.firstChild?.textContent));
  const isAccessible = async (): Promise<void> => {
    const { page } = visitor;
    expect(await visitor.accessibilityProblems(card())).toEqual([]);
    const before = page.viewportSize();
    if (phone.viewport) await page.setViewportSize(phone.viewport);
    await visitor.expectNoSidewaysScroll();
    if (before) await page.setViewportSize(before);
  };

  test('the key: the commands are those of this installation', async () => {
    await card().waitFor();
    expect(await states()).toEqual(['to do', 'to do', 'to do', 'to do', 'to do']);
    const command = card().locator('.setup-command');
    await expect.poll(() => command.textContent()).toBe('ANTHROPIC_API_KEY_FILE=./anthropic.key npm start');
    await card().getByRole('button', { name: 'OpenAI' }).press('Enter');
    await expect.poll(() => command.textContent()).toBe('OPENAI_API_KEY_FILE=./openai.key npm start');
    const example = visitor.page.locator('.empty code');
    await expect
      .poll(() => example.textContent())
      .toMatch(/^node .*packages\/service\/bin\/muster\.js spawn "Fix the flaky login test\." --follow$/);
    await isAccessible();
  });

  test('a repository that can’t be read says why, also after a reload, and one that can gets a workspace', async () => {
    const { page } = visitor;
    await card().getByRole('button', { name: 'Repository' }).press('Enter');
    const field = card().getByRole('textbox', { name: 'Repository' });
    await field.fill(join(folder, 'shpo'));
    await field.press('Enter');
    const problem = card().getByText('The repository was not found.');
    await problem.waitFor();
    expect(await states()).toEqual(['to do', 'failing', 'to do', 'to do', 'to do']);
    await page.reload();
    await expect.poll(states).toEqual(['to do', 'failing', 'to do', 'to do', 'to do']);
    await card().getByRole('button', { name: 'Repository' }).click();
    await problem.waitFor();
    expect(await card().getByRole('link', { name: 'Set up an integration' }).getAttribute('href')).toBe(
      '/catalog/integration',
    );
    await isAccessible();

    await field.fill(repository);
    await card().getByRole('button', { name: 'Check and add' }).click();
    await card().getByText('The repository can be read.').waitFor();
    await expect.poll(states).toEqual(['to do', 'done', 'to do', 'to do', 'to do']);
    const written = await fixture.api.get<{ resources: { ref: { name: string } }[] }>(
      '/v1/catalog/workspace',
    );
    const names = JSON.stringify(expectOk(written));
    expect(names).toContain('"shop"');
    expect(names).not.toContain('"shpo"');
    // The agents of both checks are gone, in the list of this page too.
    await page.getByText('repository-check').waitFor({ state: 'detached' });
    await expect
      .poll(async () => expectOk(await fixture.api.post('/v1/agents', { includeTerminal: true })))
      .toMatchObject({ entries: [] });
  });

  test('a workspace that was there before stays when its repository can’t be read', async () => {
    const { page } = visitor;
    const gone = join(folder, 'gone');
    await writeResource(fixture.api, 'workspace', 'gone', { repos: [gone] });
    await page.reload();
    await card().getByRole('button', { name: 'Repository' }).click();
    const field = card().getByRole('textbox', { name: 'Repository' });
    await field.fill(gone);
    await field.press('Enter');
    await card().getByText('The repository was not found.').waitFor();
    await field.fill(repository);
    await card().getByRole('button', { name: 'Check and add' }).click();
    await card().getByText('The repository can be read.').waitFor();
    expect(await readDocument(fixture.api, 'workspace', 'gone')).toMatchObject({
      generation: '1',
      document: { repos: [gone] },
    });
  });

  test('the first agent is started there with a suggested message, and the page shows it at work', async () => {
    const { page } = visitor;
    await card().getByRole('button', { name: 'First agent' }).press('Enter');
    await card().getByRole('button', { name: 'Start first agent' }).press('Enter');
    const dialog = page.getByRole('dialog', { name: 'New agent' });
    expect(await dialog.getByRole('textbox', { name: 'Task description' }).inputValue()).toMatch(
      /^Read this repository\./,
    );
    expect(await dialog.getByRole('combobox', { name: 'Workspace' }).inputValue()).toBe('shop');
    await dialog.getByRole('button', { name: 'Start agent' }).click();
    await expect.poll(() => new URL(page.url()).pathname).toMatch(/^\/agents\/.*\/shop\//);
    await page.getByText('Read this repository.').first().waitFor();
    await visitor.goto('/');
    await expect.poll(states).toEqual(['to do', 'done', 'done', 'to do', 'to do']);
  });

  test('the runner says whether the provider accepts the key', async () => {
    const { admin } = await newTenant(await operatorOf(fixture.server));
    const fresh = await fixture.visit({ key: admin.key });
    const account = { account: 'anthropic/default', runs: 0, pausedUntil: null };
    const { runner } = await newTestTenant(admin);
    const poll = (state: object) =>
      runner.poll({ rehearses: false, accountStates: [{ ...account, ...state }] as never });
    await poll({ state: 'PAUSED', accepted: false, error: 'anthropic refused the credentials (401)' });
    await cardOf(fresh).getByText('anthropic/default: anthropic refused the credentials (401)').waitFor();
    await cardOf(fresh).getByText('failing').waitFor();
    await poll({ state: 'FREE', accepted: true, error: '' });
    await cardOf(fresh).getByText('anthropic/default: accepted by the provider').waitFor();
    await fresh.leave();
  });

  test('a member sees the steps, and who may do them', async () => {
    const { admin } = await newTenant(await operatorOf(fixture.server));
    const { key } = await createKey(admin, { role: 'member', account: 'mia' });
    const mia = await fixture.visit({ key });
    await cardOf(mia).getByText('The person who runs Muster sets the key. Ask an admin.').waitFor();
    expect(await cardOf(mia).getByRole('button', { name: 'Dismiss' }).count()).toBe(0);
    expect(await cardOf(mia).getByRole('listitem').count()).toBe(3);
    await cardOf(mia).getByRole('button', { name: 'Repository' }).click();
    await cardOf(mia).getByText('Ask an admin to add your repository.').waitFor();
    await mia.leave();
  });
});
