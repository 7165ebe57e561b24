import { describe, expect, it } from 'vitest';
import { ReportQueue } from './report-queue.ts';

describe('ReportQueue', () => {
  it('cuts what waits into reports of bounded count, in order', () => {
    const queue = new ReportQueue(2, 100);
    for (const text of ['a', 'b', 'c']) queue.addItem({ type: 'MESSAGE', text });
    expect(queue.take().items?.map((item) => item.text)).toEqual(['a', 'b']);
    expect(queue.isEmpty()).toBe(false);
    expect(queue.take().items?.map((item) => item.text)).toEqual(['c']);
    expect(queue.isEmpty()).toBe(true);
    expect(queue.take()).toEqual({});
  });

  it('adds usage up between reports and keeps the last action', () => {
    const queue = new ReportQueue(10, 100);
    queue.addUsage({ inputTokens: 1, cachedInputTokens: 0, outputTokens: 2, costUsd: 0.5 });
    queue.addUsage({ inputTokens: 1, cachedInputTokens: 3, outputTokens: 0, costUsd: 0.25 });
    queue.set({ currentAction: 'one' });
    queue.set({ currentAction: 'two', session: 's' });
    expect(queue.take()).toEqual({
      usage: { inputTokens: 2, cachedInputTokens: 3, outputTokens: 2, costUsd: 0.75 },
      currentAction: 'two',
      session: 's',
    });
    expect(queue.take()).toEqual({});
  });

  it('leaves out, and says so, what exceeds its memory', () => {
    const queue = new ReportQueue(500, 256 * 1024);
    for (let i = 0; i < 100; i++) queue.addItem({ type: 'MESSAGE', text: 'x'.repeat(200_000) });
    const items = [];
    while (!queue.isEmpty()) items.push(...(queue.take().items ?? []));
    expect(items.length).toBeLessThan(100);
    expect(items.at(-1)).toMatchObject({
      type: 'WARNING',
      text: expect.stringMatching(/^\d+ items were left out/),
    });
  });
});
