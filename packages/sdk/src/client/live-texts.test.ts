import { expect, test } from 'vitest';
import type { TimelineEntry, TimelinePartial } from '../contract/timeline.ts';
import { LiveTexts } from './live-texts.ts';

const partial = (text: string, offset = 0, key = 'a'): TimelinePartial => ({
  runId: '1',
  key,
  type: 'MESSAGE',
  offset,
  text,
});
const entry = (fields: Partial<TimelineEntry>) => ({ runId: '1', data: {}, ...fields }) as TimelineEntry;
const shown = (texts: LiveTexts) => texts.all.map(({ offset, text }) => [offset, text]);

test('joins pieces, also those that are sent again or come from further up', () => {
  const texts = new LiveTexts();
  texts.add(partial('llo', 2));
  texts.add(partial(' world', 5));
  texts.add(partial('lo wo', 3));
  expect(shown(texts)).toEqual([[2, 'llo world']]);
  texts.add(partial('hello', 0));
  expect(shown(texts)).toEqual([[0, 'hello world']]);
  texts.add(partial('hello world!', 0));
  expect(shown(texts)).toEqual([[0, 'hello world!']]);
});

test('starts again after a gap', () => {
  const texts = new LiveTexts();
  texts.add(partial('beginning'));
  texts.add(partial('end', 100));
  expect(shown(texts)).toEqual([[100, 'end']]);
});

test('ends a text with its entry, and all texts with their run', () => {
  const texts = new LiveTexts();
  texts.add(partial('one', 0, 'a'));
  texts.add(partial('two', 0, 'b'));
  expect(texts.settle(entry({ type: 'MESSAGE', data: { key: 'a' } }))).toMatchObject({ text: 'one' });
  expect(texts.settle(entry({ type: 'MESSAGE' }))).toBeUndefined();
  expect(shown(texts)).toEqual([[0, 'two']]);
  texts.settle(entry({ type: 'RUN_ENDED', runId: '2' }));
  expect(shown(texts)).toHaveLength(1);
  texts.settle(entry({ type: 'RUN_ENDED' }));
  expect(shown(texts)).toEqual([]);
});

test('an empty piece withdraws a text', () => {
  const texts = new LiveTexts();
  texts.add(partial('Let me'));
  expect(texts.add(partial(''))).toBeUndefined();
  expect(shown(texts)).toEqual([]);
});

test('is bounded: the end of a long text and the newest texts are kept', () => {
  const texts = new LiveTexts();
  for (let i = 0; i < 40; i += 1) texts.add(partial('x'.repeat(2000), i * 2000, 'long'));
  expect(texts.all[0]).toMatchObject({ offset: 80_000 - 64 * 1024 });
  for (let i = 0; i < 100; i += 1) texts.add(partial('x', 0, `key ${i}`));
  expect(texts.all.at(-1)?.key).toBe('key 99');
  expect(texts.all.length).toBeLessThan(20);
});
