import { type AgentId, agentPage, type Claim } from '@muster/sdk/contract';
import type { Locator, Page, Route } from 'playwright-core';
import type { Agents, Fields } from '../support/agents.ts';
import { until } from '../support/async.ts';
import type { Visitor } from '../support/browser.ts';
import type { TestTenant } from '../support/test-tenant.ts';

export const addressOf = async (agents: Agents, path: string): Promise<string> =>
  agentPage((await agents.status(path)).agentId as AgentId);

export const repo = 'https://git.example.com/acme/shop';

/** A diff that adds this many lines to a file. */
export const fileDiff = (path: string, lines: number): string =>
  [
    `diff --git a/${path} b/${path}`,
    `--- a/${path}`,
    `+++ b/${path}`,
    `@@ -1,1 +1,${lines} @@`,
    '-before',
    ...Array.from({ length: lines }, (_, at) => `+${path} line ${at}`),
    '',
  ].join('\n');

/** What a runner reports about a push. */
export const push = (claim: Claim, files: readonly string[], text: string) => ({
  pushes: [{ repo, ref: claim.branch, commits: ['8e52d10c4bffff'], files: [...files] }],
  diff: {
    repo,
    files: files.length,
    insertions: text.match(/^\+src.* line /gm)?.length ?? 0,
    deletions: files.length,
    text,
  },
});

/** The panel with this title, expanded. */
export const panel = async (page: Page, title: string): Promise<Locator> => {
  const region = page.getByRole('region', { name: title, exact: true });
  const button = region.getByRole('heading', { level: 2 }).getByRole('button');
  await button.waitFor();
  if ((await button.getAttribute('aria-expanded')) === 'false') await button.click();
  return region;
};

/** An action of the menu in the head of the page. */
export async function choose(page: Page, action: string): Promise<void> {
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: action }).click();
}

/** Opens the queue, when it has these messages. */
export const openQueue = (page: Page, count: string): Promise<void> =>
  page.getByRole('button', { name: count, exact: true }).click();

/**
 * Holds the requests of a page for the status of its agent. Watch before the page is loaded: the first request after a new
 * route may still bypass it.
 */
export class StatusRequests {
  #held: Route[] | null = null;

  watch(page: Page): Promise<unknown> {
    return page.route('**/v1/agent/status', (route) =>
      this.#held ? void this.#held.push(route) : route.continue(),
    );
  }

  /** Holds requests until the returned function is called. */
  hold(): () => Promise<void> {
    const waiting: Route[] = [];
    this.#held = waiting;
    return async () => {
      this.#held = null;
      await Promise.allSettled(waiting.map((route) => route.continue()));
    };
  }
}

/** Spawns an agent that works until it is stopped, and opens its page. */
export async function openWorking(agents: Agents, visitor: Visitor, path: string): Promise<void> {
  await agents.spawn(path, { description: '!sleep 600' });
  await until(
    'it works',
    () => agents.phase(path),
    (phase) => phase === 'RUNNING/WORKING',
  );
  await visitor.follow(await addressOf(agents, path));
  const status = visitor.page.getByRole('region', { name: 'Status' });
  await status.filter({ hasText: 'working' }).waitFor();
}

export const message = (text: string): Fields => ({ type: 'MESSAGE', text });

/** Reports messages of the agent. */
export const say = (tenant: TestTenant, claim: Claim, ...texts: string[]) =>
  tenant.report(claim, { items: texts.map(message) });

/** A working agent with this many messages: `word 1`, `word 2` and so on. */
export async function talker(tenant: TestTenant, path: string, count: number): Promise<Claim> {
  await tenant.spawn(path, { description: `Begin with ${path}` });
  const claim = await tenant.start(path);
  for (let said = 0; said < count; said += 500) {
    const texts = Array.from({ length: Math.min(500, count - said) }, (_, at) => `word ${said + at + 1}`);
    await say(tenant, claim, ...texts);
  }
  return claim;
}

export const transcriptIn = (page: Page): Locator => page.getByRole('region', { name: 'Transcript' });

export const rowWith = (page: Page, text: string): Locator =>
  transcriptIn(page)
    .getByRole('listitem')
    .filter({ has: page.getByText(text, { exact: true }) });

export const distanceFromEnd = (page: Page): Promise<number> =>
  transcriptIn(page).evaluate((element) => element.scrollHeight - element.clientHeight - element.scrollTop);

/** The offset on the screen, once it is the same for three frames. */
export const topOf = (row: Locator): Promise<number> =>
  row.evaluate(async (element) => {
    const tops: number[] = [];
    while (tops.length < 3 || new Set(tops.slice(-3)).size > 1) {
      await new Promise((resolve) => requestAnimationFrame(resolve));
      tops.push(Math.round(element.getBoundingClientRect().y));
    }
    return tops.at(-1) as number;
  });
