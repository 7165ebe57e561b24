/// <reference lib="dom" />
import { agentOfPage, agentPage } from '@muster/sdk/contract';
import type { Browser, Page } from 'playwright-core';
import { median, percentile, post, type Service } from '../../bench/tools.ts';
import { Visitor } from '../../support/browser.ts';

export const reviewedLines = 2_000;
const stepPx = 300;

/** A file of code whose lines all have colours. */
const lineOf = (at: number | string): string =>
  `export const value${at} = await read("part ${at}", { count: ${at} }); // line ${at}`;
const code = Array.from({ length: reviewedLines }, (_, at) => lineOf(at + 1)).join('\n');

interface Frames {
  readonly medianMs: number;
  readonly p95Ms: number;
}

/** Scrolls through the review of a file, and through the same lines on a plain page. */
export async function scrollReview(
  browser: Browser,
  service: Service,
): Promise<{ readonly review: Frames; readonly plain: Frames }> {
  const visitor = await Visitor.arrive(browser, service, { path: `${await pushedFile(service)}/review` });
  await visitor.page.locator('.code-keyword').first().waitFor();
  const review = await scrolled(visitor.page, '.review-scroll');
  await visitor.leave();
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.setContent('<main style="height: 700px; overflow: auto"><pre></pre></main>');
  await page.locator('pre').evaluate((element, text) => {
    element.textContent = text;
  }, code);
  const plain = await scrolled(page, 'main');
  await page.close();
  return { review, plain };
}

/** An agent that pushed the file. Returns the path of its page. */
async function pushedFile(service: Service): Promise<string> {
  const agentId = { agent: ['reviewed'] };
  const { dashboardUrl } = await post<{ dashboardUrl: string }>(service, '/v1/agent/spawn', {
    agentId,
    description: `!run seq ${reviewedLines} | sed 's|.*|${lineOf('&')}|' > code.ts\n!push Code`,
    model: 'rehearsal-a',
  });
  await post(service, '/v1/agent/wait', { agentId });
  const id = agentOfPage(new URL(dashboardUrl).pathname);
  if (!id) throw new Error(`not the address of an agent: ${dashboardUrl}`);
  return agentPage(id);
}

/** Scrolls one step per frame to the end. */
async function scrolled(page: Page, scroller: string): Promise<Frames> {
  // tsx marks the names of functions.
  await page.evaluate('globalThis.__name = (it) => it');
  const frames = await page.locator(scroller).evaluate(
    (element, step) =>
      new Promise<number[]>((resolve) => {
        const found: number[] = [];
        let before = performance.now();
        let still = 0;
        const next = (): void => {
          const now = performance.now();
          found.push(now - before);
          before = now;
          const top = element.scrollTop;
          element.scrollTop += step;
          still = element.scrollTop === top ? still + 1 : 0;
          if (still > 10) resolve(found.slice(1));
          else requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
      }),
    stepPx,
  );
  return { medianMs: median(frames), p95Ms: percentile(frames, 0.95) };
}
