import type { AgentStatus } from '@muster/sdk/contract';
import type { Page, Route } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import type { Visitor } from '../support/browser.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { addressOf, choose, fileDiff, panel, push, repo } from './agent-page.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser("the panels of an agent's page", () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let t: TestTenant;
  let visitor: Visitor;
  let page: Page;

  beforeAll(async () => {
    t = await newTestTenant(fixture.api, {}, { repos: [repo] });
    visitor = await fixture.visit();
    page = visitor.page;
  });
  afterAll(() => visitor?.leave());

  const open = async (path: string) => visitor.follow(await addressOf(t, path));

  test('runs show outcome, time, cost and attempt, and link to the transcript', async () => {
    await t.spawn('restless');
    for (let run = 1; run <= 21; run += 1) await t.end(await t.claim('restless'), 'HANDED_BACK');
    const claim = await t.start('restless');
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    await t.report(claim, {
      traceId,
      usage: { inputTokens: 42_000, cachedInputTokens: 30_000, outputTokens: 2_100, costUsd: 0.18 },
    });
    // Pages of 20 runs instead of 100. Set up before the page is loaded: the first request after a new route may bypass it.
    const limits: number[] = [];
    await page.route('**/v1/agent/runs', (route) => {
      const body = route.request().postDataJSON();
      limits.push(body.limit);
      return route.continue(body.limit === 100 ? { postData: { ...body, limit: 20 } } : {});
    });
    await visitor.goto(await addressOf(t, 'restless'));
    const runs = await panel(page, 'Runs');
    await runs.getByText('22 · working').waitFor();
    expect(limits).toContain(100);
    // The newest run is in the first row.
    const live = runs.getByRole('row').nth(1);
    await live.getByRole('rowheader', { name: '22' }).waitFor();
    await live.getByText('working').waitFor();
    await live.getByText('$0.18').waitFor();
    await live.getByText('44k tokens').waitFor();
    await live.getByText(`on ${t.runner.name}`).waitFor();
    await live.getByText('22nd attempt of run 1').waitFor();
    await live.getByText(`trace ${traceId}`).waitFor();
    expect(await runs.getByText(/^trace /).count()).toBe(1);
    const seconds = async () => Number(/(\d+)s/.exec(await live.innerText())?.[1]);
    const before = await seconds();
    await until('the time to increase', seconds, (now) => now > before);

    await expect.poll(() => runs.getByRole('row').count()).toBe(21);
    await runs.getByRole('button', { name: 'Show earlier runs' }).click();
    await runs.getByRole('rowheader', { name: '1', exact: true }).waitFor();
    await expect.poll(() => runs.getByRole('row').count()).toBe(23);
    await expect.poll(() => runs.getByRole('button', { name: 'Show earlier runs' }).count()).toBe(0);
    await runs.getByText('handed back by runner').first().waitFor();

    const started = (await t.timeline('restless', 'RUN_STARTED')).find(({ runId }) => runId === '10');
    await runs.getByRole('rowheader', { name: '10', exact: true }).getByRole('link').click();
    await expect.poll(() => new URL(page.url()).hash).toBe(`#e${started?.sequence}`);

    await t.end(claim);
    await live.getByText('completed').waitFor();
    await page.unroute('**/v1/agent/runs');
  });

  test('runs show their responses, and a shortened one in full', async () => {
    const long = `${'word '.repeat(2000)}end`;
    await t.rested('talker', {}, { response: 'First *answer*.\nMore.', structuredOutput: { verdict: 'ok' } });
    await t.queue('talker', 'again');
    await t.turn('talker', { response: long });
    await t.queue('talker', 'again');
    await t.end(await t.start('talker'), 'FAILED', { error: { code: 'NO', message: 'it broke' } });
    await open('talker');
    const runs = await panel(page, 'Runs');
    await runs.getByText('it broke').waitFor();
    await runs.getByText('First *answer*.').click();
    const first = runs.getByRole('region', { name: 'Response of run 1' });
    await first.getByText('answer', { exact: true }).waitFor();
    await first.getByText('More.').waitFor();
    await runs.getByRole('region', { name: 'Structured output of run 1' }).getByText('"ok"').waitFor();
    await runs.getByText(/^word/).first().click();
    await runs.getByText('The response is shortened.').waitFor();
    expect(await visitor.accessibilityProblems(runs)).toEqual([]);
    await runs.getByRole('button', { name: 'Show full response' }).click();
    await page
      .getByRole('dialog')
      .getByText(/word end$/)
      .waitFor();
  });

  describe('the tree', () => {
    test('shows the agents from the root, with own and total cost and a link to each', async () => {
      for (const path of ['oak', 'oak/branch', 'oak/branch/leaf', 'oak/twig']) {
        await t.spawn(path);
        const claim = await t.start(path);
        await t.report(claim, {
          usage: { inputTokens: 1, cachedInputTokens: 0, outputTokens: 1, costUsd: 1.5 },
        });
      }
      await open('oak/branch');
      const tree = await panel(page, 'Tree');
      await tree.getByText('$3.00 with children').waitFor();
      const link = (name: string) => tree.getByRole('link', { name, exact: true });
      await link('leaf').waitFor();
      await expect
        .poll(() => tree.getByRole('link').allInnerTexts())
        .toEqual(['oak', 'branch', 'leaf', 'twig']);
      await expect.poll(() => link('branch').getAttribute('aria-current')).toBe('page');
      const root = tree.getByRole('listitem').first();
      await root.getByText('$6.00').waitFor();

      await tree.getByRole('button', { name: 'Children of oak' }).click();
      await tree.getByText('3 below, 3 live').waitFor();
      await expect.poll(() => link('twig').count()).toBe(0);
      await tree.getByRole('button', { name: 'Children of oak' }).click();

      await t.kill('oak/twig');
      await tree
        .getByRole('listitem')
        .filter({ hasText: /^twig\s*killed/ })
        .waitFor();
      await t.spawn('oak/branch/bud');
      await link('bud').waitFor();

      await link('leaf').click();
      await page.getByRole('heading', { level: 1, name: 'leaf' }).waitFor();
    });

    test('a large tree is collapsed except for the path to this agent; a single agent gets a hint', async () => {
      await t.spawn('forest');
      await t.spawn('forest/near');
      await t.spawn('forest/near/here');
      await Promise.all(Array.from({ length: 42 }, (_, at) => t.spawn(`forest/t${at}`)));
      await t.spawn('forest/t0/far');
      await open('forest/near/here');
      const tree = await panel(page, 'Tree');
      await tree.getByRole('link', { name: 'here', exact: true }).waitFor();
      await expect.poll(() => tree.getByRole('link', { name: 'far', exact: true }).count()).toBe(0);
      await tree.getByRole('button', { name: 'Children of t0' }).click();
      await tree.getByRole('link', { name: 'far', exact: true }).waitFor();

      // Leaving while both requests for the tree wait aborts both.
      const held = new Set<string>();
      const hold = (route: Route) => void held.add(new URL(route.request().url()).pathname);
      await page.route('**/v1/agents', hold);
      await page.route('**/v1/agent/status', (route) => {
        const { agent } = route.request().postDataJSON().agentId;
        return agent.join() === 'forest' ? hold(route) : route.continue();
      });
      await t.spawn('forest/near/here/child');
      await expect.poll(() => [...held].sort()).toEqual(['/v1/agent/status', '/v1/agents']);
      await t.spawn('hermit');
      await open('hermit');
      await page.unrouteAll({ behavior: 'ignoreErrors' });
      await (await panel(page, 'Tree')).getByText('--name hermit/child').waitFor();
      expect(visitor.errors).toEqual([]);
    });
  });

  test('changes appear with the first push, and the review shows the diff file by file', async () => {
    await t.spawn('pusher');
    const claim = await t.start('pusher');
    await open('pusher');
    const changes = await panel(page, 'Changes');
    await changes.getByText('Nothing pushed yet.').waitFor();
    await changes.getByText(repo).waitFor();

    const text = fileDiff('src/small.ts', 3) + fileDiff('src/large.ts', 900);
    await t.report(claim, push(claim, ['src/small.ts', 'src/large.ts'], text));
    await changes.getByText('2 files +903 −2').waitFor();
    await changes.getByText(claim.branch, { exact: true }).waitFor();
    await changes.getByRole('button', { name: 'Copy branch name' }).click();
    await changes.getByText('Copied').waitFor();
    expect(await visitor.copied()).toBe(claim.branch);
    const pushes = changes.getByRole('list', { name: 'Pushes' });
    await pushes.getByText('8e52d10c').waitFor();
    await pushes.getByText('2 files').click();
    await pushes.getByText('src/large.ts').waitFor();

    await changes.getByRole('link', { name: 'src/large.ts +900 −1' }).click();
    const diff = page.getByRole('region', { name: 'Diff' });
    const large = diff.getByRole('region', { name: 'src/large.ts' });
    // The address leads to the file, and lines that are far away are there too.
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.textContent))
      .toContain('src/large.ts');
    await expect.poll(() => large.getByText('src/large.ts line 899', { exact: true }).count()).toBe(1);
    await large.getByRole('heading').getByRole('button').press('Enter');
    await expect.poll(() => large.getByText('src/large.ts line 5', { exact: true }).count()).toBe(0);
    await page
      .getByRole('navigation', { name: 'Changed files' })
      .getByRole('button', { name: /small/ })
      .click();
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.textContent))
      .toContain('src/small.ts');
    await page.goBack();

    await t.report(claim, push(claim, ['src/third.ts'], fileDiff('src/third.ts', 1)));
    await changes.getByRole('link', { name: /third/ }).waitFor();
    await changes.getByText('2 pushes').waitFor();
  });

  test('unpushed work is counted here and in the list, and the address selects the working tree', async () => {
    await t.spawn('unpushed');
    const claim = await t.start('unpushed');
    await open('unpushed');
    const changes = await panel(page, 'Changes');
    await changes.getByText('Nothing pushed yet.').waitFor();
    const workingTree = (path: string) => ({
      diff: {
        ...{ repo, files: 1, insertions: 2, deletions: 1 },
        ...{ text: fileDiff(path, 2), workingTree: true },
      },
    });
    await t.report(claim, workingTree('src/draft.ts'));
    await t.report(claim, { unpushed: { commits: 0, files: 1, isSaved: false } });
    await changes.getByText('Unpushed: 1 changed file · not saved').waitFor();
    // Nothing was pushed: the working tree is the default.
    await changes.getByRole('link', { name: 'src/draft.ts +2 −1' }).waitFor();
    const choice = changes.getByRole('group', { name: 'Diff' });
    await choice.getByRole('button', { name: 'Working tree', pressed: true }).waitFor();

    await t.report(claim, push(claim, ['src/pushed.ts'], fileDiff('src/pushed.ts', 1)));
    await t.report(claim, { unpushed: { commits: 2, files: 1, isSaved: true } });
    await changes.getByText(/Unpushed: 2 commits, 1 changed file · saved \d+[smh] ago/).waitFor();
    await choice.getByRole('button', { name: 'Pushed', pressed: true }).waitFor();
    await changes.getByRole('link', { name: 'src/pushed.ts +1 −1' }).click();
    const review = page.getByRole('main');
    await review.getByRole('region', { name: 'src/pushed.ts' }).waitFor();
    await review.getByRole('button', { name: 'Working tree' }).press('Enter');
    await review.getByRole('region', { name: 'src/draft.ts' }).waitFor();
    await expect.poll(() => review.getByRole('region', { name: 'src/pushed.ts' }).count()).toBe(0);
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('Working tree');
    expect(await visitor.accessibilityProblems(review.getByRole('group', { name: 'Diff' }))).toEqual([]);
    await review.getByRole('link', { name: '← unpushed' }).click();
    await choice.getByRole('button', { name: 'Working tree' }).press('Enter');
    expect(new URL(page.url()).search).toBe('?changes=working-tree');
    await page.reload();
    await changes.getByRole('link', { name: 'src/draft.ts +2 −1' }).waitFor();
    const command = `Copy muster work ${t.workspace}:unpushed`;
    await (await panel(page, 'Details')).getByRole('button', { name: command }).waitFor();

    await visitor.follow('/');
    const row = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: /^unpushed/ }) });
    await row.getByText('unpushed: 2 commits, 1 file').waitFor();
    await t.report(claim, { unpushed: { commits: 2, files: 1, isSaved: true, isPartial: true } });
    await row.getByText('unpushed: 2 commits, 1 file (not all saved)').waitFor();
    await open('unpushed');
    await changes.getByText(/Unpushed: 2 commits, 1 changed file · partly saved \d+[smh] ago/).waitFor();
    await choose(page, 'Kill agent');
    const dialog = page.getByRole('dialog');
    await dialog.getByText('unpushed: 2 commits, 1 file (not all saved)').waitFor();
    await dialog.getByText('Unpushed work is kept only in a last checkpoint, for 30 days.').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
  });

  test('output shows the response as Markdown, and JSON with its schema', async () => {
    const schema = { type: 'object', properties: { verdict: { type: 'string' } } };
    await t.spawn('judge', { outputSchema: JSON.stringify(schema) });
    const claim = await t.start('judge');
    await open('judge');
    const output = await panel(page, 'Output');
    await output.getByText('No response yet.').waitFor();
    await output.getByText('matches the output schema').waitFor();
    await t.end(claim, 'COMPLETED', {
      response: 'It is **fine**.',
      structuredOutput: { verdict: 'ok', score: 3 },
    });
    await output.getByText('fine', { exact: true }).waitFor();
    const json = output.getByRole('region', { name: 'Structured output' });
    await expect.poll(async () => JSON.parse(await json.innerText())).toEqual({ verdict: 'ok', score: 3 });
    await output.getByText('Output schema', { exact: true }).click();
    await output.getByRole('region', { name: 'Output schema' }).getByText('"verdict"').waitFor();
  });

  test('details show the error, how to fix it, and CLI commands', async () => {
    await t.spawn('failed', { description: 'Do it *well*.', expectedOutput: 'A branch.' });
    const error = { code: 'WORKSPACE_NOT_PREPARED', message: 'npm ci ended with 1' };
    await t.end(await t.start('failed'), 'FAILED', { error });
    await open('failed');
    const details = await panel(page, 'Details');
    await details.getByText('npm ci ended with 1').waitFor();
    await details.getByText('Fix the repositories of the workspace').waitFor();
    await details.getByText('A branch.').waitFor();
    const command = `muster logs -f ${t.workspace}:failed`;
    await details.getByRole('button', { name: `Copy ${command}` }).click();
    await details.getByText('Copied').waitFor();
    expect(await visitor.copied()).toBe(command);
    const { dashboardUrl }: AgentStatus = await t.status('failed');
    await details.getByText('Copied').waitFor({ state: 'detached' });
    await details.getByRole('button', { name: 'Copy link to this page' }).click();
    await details.getByText('Copied').waitFor();
    expect(await visitor.copied()).toBe(dashboardUrl);
    await page.reload();
    // The panel is still open.
    await details.getByText('npm ci ended with 1').waitFor();
  });

  test('labels can be added and removed, and follow changes by others', async () => {
    await t.spawn('labeled', { labels: { team: 'web' } });
    await open('labeled');
    const details = await panel(page, 'Details');
    const editor = details.getByRole('form', { name: 'Labels' });
    await editor.getByLabel('New label').fill('tier');
    await editor.getByLabel('New label').press('Enter');
    await editor.getByText('Enter a label as key=value.').waitFor();
    await editor.getByLabel('New label').fill('tier = 1');
    await editor.getByLabel('New label').press('Enter');
    await editor.getByText('tier=1', { exact: true }).waitFor();
    await expect.poll(() => editor.getByLabel('New label').inputValue()).toBe('');
    await editor.getByRole('button', { name: 'Remove label team' }).click();
    await editor.getByText('team=web').waitFor({ state: 'detached' });
    expect(await t.status('labeled')).toMatchObject({ labels: { tier: '1' } });
    await editor.getByLabel('New label').fill('a b=c');
    await editor.getByRole('button', { name: 'Add' }).click();
    await editor.getByRole('alert').getByText('without white space').waitFor();
    await t.send('agent/labels', 'labeled', { labels: { note: 'by others' } });
    await editor.getByText('note=by others').waitFor();
    const link = page.getByRole('link', { name: 'note=by others' });
    await link.waitFor();
    expect(await visitor.accessibilityProblems(editor)).toEqual([]);
    expect(await visitor.accessibilityProblems(link)).toEqual([]);
  });
});
