/// <reference lib="dom" />
import type { BrowserContext, Page } from 'playwright-core';
import { until } from '../../support/async.ts';

interface Watched {
  /** When each mark was first on the screen, in milliseconds of the wall clock. */
  readonly paintedMs: Record<string, number>;
  /** The duration of each frame, and of the frames that Chromium reports as long. */
  frameMs: number[];
  longMs: number[];
}

declare global {
  interface Window {
    watched: Watched;
  }
}

/**
 * Runs in the page before its scripts. A mark is a text such as `tick-17`. It is on the screen when the first frame that
 * contains it was painted. Each frame starts with this loop, which requests it first, and was painted when a message that
 * the loop sends to itself arrives.
 */
function watch({ markPattern, within }: { markPattern: string; within: string }): void {
  const marks = new RegExp(markPattern, 'g');
  const paintedMs: Record<string, number> = {};
  const watched: Watched = { paintedMs, frameMs: [], longMs: [] };
  window.watched = watched;
  const nowMs = () => performance.timeOrigin + performance.now();

  let isInFrame = false;
  const fresh = new Set<string>();
  const afterPaint = new MessageChannel();
  afterPaint.port1.onmessage = () => {
    isInFrame = false;
    for (const mark of fresh) paintedMs[mark] ??= nowMs();
    fresh.clear();
  };
  const waiting = new Set<string>();
  let lastMs = performance.now();
  const onFrame = (): void => {
    requestAnimationFrame(onFrame);
    const startMs = performance.now();
    watched.frameMs.push(startMs - lastMs);
    lastMs = startMs;
    isInFrame = true;
    for (const mark of waiting) fresh.add(mark);
    waiting.clear();
    afterPaint.port2.postMessage(0);
  };
  requestAnimationFrame(onFrame);

  // Changes between two frames are painted with the next frame.
  const note = (text: string): void => {
    for (const [mark] of text.matchAll(marks))
      if (!(mark in paintedMs)) (isInFrame ? fresh : waiting).add(mark);
  };
  /** The part of it that counts: all of it inside the place, or the place inside it. */
  const wordsOf = (node: Node): string => {
    const element = node instanceof Element ? node : node.parentElement;
    const part = element?.closest(within) ? node : element?.querySelector(within);
    return part?.textContent ?? '';
  };
  new MutationObserver((changes) => {
    for (const { addedNodes, target, type } of changes) {
      if (type === 'characterData') note(wordsOf(target));
      for (const node of addedNodes) note(wordsOf(node));
    }
  }).observe(document, { subtree: true, childList: true, characterData: true });
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) watched.longMs.push(duration);
  }).observe({ type: 'long-animation-frame' });
}

/** Records when each text that matches `marks` is first painted inside the given element, and the frame durations. */
export async function watchPaint(context: BrowserContext, marks: RegExp, within = 'body'): Promise<void> {
  // The compiler wraps functions in a helper that does not exist in the page.
  await context.addInitScript({ content: 'globalThis.__name = (it) => it;' });
  await context.addInitScript(watch, { markPattern: marks.source, within });
}

export const paintedIn = (page: Page): Promise<Record<string, number>> =>
  page.evaluate(() => window.watched.paintedMs);

/** Ignores everything painted so far. */
export const forgetPainted = (page: Page): Promise<void> =>
  page.evaluate(() => {
    for (const mark of Object.keys(window.watched.paintedMs)) delete window.watched.paintedMs[mark];
  });

/** Waits until the mark was painted and returns the time. Polls from outside, because the page's policy forbids eval. */
export const paintOf = async (page: Page, mark: string): Promise<number> =>
  Number(
    await until(
      `${mark} on the screen`,
      async () => (await paintedIn(page))[mark],
      (ms) => ms !== undefined,
    ),
  );

export const transcriptPlace = '[aria-label="Transcript"]';
