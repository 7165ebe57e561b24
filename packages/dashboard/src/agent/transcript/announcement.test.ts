import type { TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { announcementOf } from './announcement.ts';

const entry = (type: TimelineEntry['type'], text: string): TimelineEntry => ({
  sequence: '1',
  at: '2026-01-01T00:00:00.000Z',
  runId: '2',
  type,
  followUpId: '',
  text,
  data: {},
});

describe('what is announced of new entries', () => {
  it('is the last that matters, in one line', () => {
    const news = [
      entry('RUN_ENDED', 'COMPLETED'),
      entry('QUESTION', 'Which?\nOr that?'),
      entry('MESSAGE', 'Hm'),
    ];
    expect(announcementOf(news)).toBe('It asks: Which?');
    expect(announcementOf(news.slice(0, 1))).toBe('Run 2 completed');
    expect(announcementOf([entry('ERROR', 'It broke')])).toBe('Error: It broke');
  });

  it('is nothing for a step on the way', () => {
    expect(announcementOf([entry('TOOL_CALL', 'ls'), entry('MESSAGE', 'Hm')])).toBeUndefined();
  });
});
