import type { LiveText, TimelineEntry } from '@muster/sdk';
import { describe, expect, it } from 'vitest';
import { withLiveTexts } from './live-rows.ts';
import { Rows } from './rows.ts';

const entry = (sequence: number, fields: Partial<TimelineEntry>): TimelineEntry => ({
  sequence: String(sequence),
  at: '2026-01-01T00:00:00.000Z',
  runId: '1',
  type: 'MESSAGE',
  followUpId: '',
  text: '',
  data: {},
  ...fields,
});
const live = (fields: Partial<LiveText>): LiveText => ({
  key: 'k',
  type: 'MESSAGE',
  runId: '1',
  offset: 0,
  text: 'so far',
  ...fields,
});

describe('the rows of what an agent is producing', () => {
  it('are behind the others, and keep their keys when the entries come', () => {
    const builder = new Rows();
    const first = [entry(1, { text: 'first' })];
    const texts = [live({ type: 'THINKING', key: 't' }), live({ key: 'm', offset: 5 })];
    const before = withLiveTexts(builder.update(first), texts);
    expect(before.map(({ kind }) => kind)).toEqual(['message', 'thinking', 'message']);
    expect(before[2]).toMatchObject({ sequence: 0, entry: { text: '…so far' } });
    const entries = [
      ...first,
      entry(2, { type: 'THINKING', data: { key: 't' } }),
      entry(3, { data: { key: 'm' } }),
    ];
    const after = withLiveTexts(builder.update(entries), []);
    expect(after.map(({ key }) => key)).toEqual(before.map(({ key }) => key));
    expect(after.map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
    expect(withLiveTexts(after, texts)).toEqual(after);
  });

  it('have different keys, even if entries repeat one', () => {
    const entries = [1, 2, 3].map((sequence) => entry(sequence, { data: { key: 'same' } }));
    expect(new Set(new Rows().update(entries).map(({ key }) => key)).size).toBe(3);
  });

  it('show the output of a command in the row of its call, until the result comes', () => {
    const call = entry(1, { type: 'TOOL_CALL', data: { tool: 'Bash', id: 'c' } });
    const result = entry(2, { type: 'TOOL_RESULT', data: { tool: 'Bash', id: 'c', key: 'c' } });
    const texts = [live({ type: 'TOOL_RESULT', key: 'c' })];
    const builder = new Rows();
    const rows = builder.update([call]);
    expect(withLiveTexts(rows, texts)).toMatchObject([{ kind: 'tool', liveOutput: 'so far' }]);
    expect(rows[0]).not.toHaveProperty('liveOutput');
    const [done] = withLiveTexts(builder.update([call, result]), texts);
    expect(done).not.toHaveProperty('liveOutput');
    expect(withLiveTexts([], texts)).toEqual([]);
  });
});
