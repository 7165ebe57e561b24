/// <reference lib="dom" />
import type { Browser } from 'playwright-core';
import { median, seedAgents } from '../../bench/tools.ts';
import { Visitor } from '../../support/browser.ts';
import type { FleetAtWork } from './fleet-at-work.ts';
import { watchPaint } from './painted.ts';

const agents = 10_000;
/** Two thirds of the view in each frame. */
const stepPx = 500;
export const mostFrameMs = 200;

export interface ScrollFrames {
  readonly frames: number;
  readonly rows: number;
  readonly medianMs: number;
  readonly longestMs: number;
  /** The number of frames over the limit. */
  readonly tooLong: number;
  /** The longest frame of an empty page for the same time, as a baseline of the machine. */
  readonly longestEmptyMs: number;
}

/** Scrolls through 10,000 agents, from the first to the last, while the fleet keeps changing. */
export async function scrollThroughAgents(browser: Browser, { service }: FleetAtWork): Promise<ScrollFrames> {
  const { rows } = await service.database.query<{ count: string }>('SELECT count(*) FROM agents');
  await seedAgents(service, 'resting-', 0, agents - Number(rows[0]?.count));
  await service.database.query(vary);
  const visitor = await Visitor.arrive(browser, service, {
    prepare: (context) => watchPaint(context, /resting-\d+/),
  });
  const { page } = visitor;
  await page.getByText(/^10\D?000 of 10\D?000$/).waitFor({ timeout: 60_000 });
  await page.mouse.move(640, 400);
  const frames = await page.evaluate(scroll, stepPx);
  const seen = await page.evaluate(() => Object.keys(window.watched.paintedMs).length);
  const { longMs } = await page.evaluate(() => window.watched);
  await visitor.leave();
  const longestEmptyMs = await longestFrameOfNothing(browser, frames.length);
  return {
    longestEmptyMs,
    frames: frames.length,
    rows: seen,
    medianMs: median(frames),
    longestMs: Math.max(...frames, ...longMs),
    tooLong: frames.filter((ms) => ms > mostFrameMs).length,
  };
}

async function longestFrameOfNothing(browser: Browser, frames: number): Promise<number> {
  const page = await browser.newPage();
  await watchPaint(page.context(), /nothing/);
  await page.goto('about:blank');
  const longestMs = await page.evaluate(
    (count) =>
      new Promise<number>((resolve) => {
        const look = (): void => {
          const { frameMs } = window.watched;
          if (frameMs.length > count) resolve(Math.max(...frameMs.slice(1)));
          else requestAnimationFrame(look);
        };
        look();
      }),
    frames,
  );
  await page.close();
  return longestMs;
}

/** Scrolls one step per frame to the end, and returns the duration of each frame. */
function scroll(step: number): Promise<number[]> {
  window.watched.longMs = [];
  const from = window.watched.frameMs.length;
  return new Promise((resolve) => {
    let still = 0;
    const next = (): void => {
      const before = scrollY;
      scrollBy(0, step);
      still = scrollY === before ? still + 1 : 0;
      if (still > 10) resolve(window.watched.frameMs.slice(from + 1));
      else requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
}

/** Agents with questions, finished and idle agents, so that the list has several sections. */
const vary = `
UPDATE agents SET
  phase = CASE WHEN n % 3 = 0 THEN 'PHASE_COMPLETED' ELSE phase END,
  reason = CASE WHEN n % 3 = 0 THEN 'FINISHED' WHEN n % 7 = 0 THEN 'QUESTION' ELSE reason END,
  ended_at = CASE WHEN n % 3 = 0 THEN now() END
FROM (SELECT id AS seeded, row_number() OVER () AS n FROM agents WHERE path LIKE 'resting-%') AS numbered
WHERE id = seeded`;
