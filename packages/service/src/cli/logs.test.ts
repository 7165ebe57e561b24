import type { TimelineEntry, TimelinePartial } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { FollowedEntries } from './logs.ts';
import type { Output } from './output.ts';

/** Follows on a terminal, and returns what is printed without times. */
function followed() {
  let printed = '';
  const write = (text: string) => {
    printed += text;
  };
  const output = {
    isTerminal: true,
    format: 'table',
    width: 80,
    write,
    item: (_: unknown, show: () => void) => show(),
    line: (text = '') => write(`${text}\n`),
    paint: (_: unknown, text: string) => text,
  } as unknown as Output;
  const entries = new FollowedEntries(output);
  const at = new Date().toISOString();
  const entry = (type: string, text: string, data: object = {}) =>
    entries.show({ sequence: '1', at, runId: '1', type, followUpId: '', text, data } as TimelineEntry);
  const piece = (offset: number, text: string) =>
    entries.onPartial?.({ key: 'k', type: 'TOOL_RESULT', runId: '1', offset, text } as TimelinePartial);
  return { entry, piece, printed: () => printed };
}

const timesIn = (text: string, word: string): number => text.split(word).length - 1;

test('the output of a command is printed once, also if other entries come before its end', () => {
  const { entry, piece, printed } = followed();
  piece(0, 'alpha\n');
  entry('MESSAGE', 'Meanwhile.');
  piece(6, 'beta\n');
  entry('MESSAGE', 'Still.');
  entry('TOOL_RESULT', 'alpha\nbeta\ngamma\n', { key: 'k' });
  entry('MESSAGE', 'Done.');
  for (const word of ['alpha', 'beta', 'gamma', 'Meanwhile.', 'Still.', 'Done.'])
    expect(timesIn(printed(), word), word).toBe(1);
});

test('a text that ended differently is printed as it is', () => {
  const { entry, piece, printed } = followed();
  piece(0, 'alpha\n');
  entry('TOOL_RESULT', 'other\n', { key: 'k' });
  expect(timesIn(printed(), 'alpha')).toBe(1);
  expect(timesIn(printed(), 'other')).toBe(1);
});
