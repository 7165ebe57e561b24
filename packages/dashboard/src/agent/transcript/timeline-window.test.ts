import { ConnectionError, NotFoundError, OutOfRangeError, type TimelineEntry } from '@muster/sdk';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import type { TimelineSource } from './timeline-source.ts';
import { TimelineWindow, type TimelineWindowOptions } from './timeline-window.ts';

const entry = (sequence: number): TimelineEntry => ({
  sequence: String(sequence),
  at: '2026-01-01T00:00:00.000Z',
  runId: '1',
  type: 'MESSAGE',
  followUpId: '',
  text: `entry ${sequence}`,
  data: {},
});

/** A service with one timeline. */
class Told {
  entries: TimelineEntry[] = [];
  readonly asked: string[] = [];
  failures: Error[] = [];
  readonly #streams = new Set<(entry: TimelineEntry | Error) => void>();

  constructor(count: number) {
    for (let sequence = 1; sequence <= count; sequence++) this.entries.push(entry(sequence));
  }

  write(...sequences: number[]): void {
    for (const sequence of sequences) {
      this.entries.push(entry(sequence));
      this.streamOnly(sequence);
    }
  }

  streamOnly(sequence: number): void {
    for (const tell of this.#streams) tell(entry(sequence));
  }

  breakStream(error: Error): void {
    for (const tell of this.#streams) tell(error);
  }

  get streams(): number {
    return this.#streams.size;
  }

  readonly source: TimelineSource = {
    before: async (sequence, limit) => {
      this.#ask(`before ${sequence === Number.MAX_SAFE_INTEGER ? 'end' : sequence}`);
      return this.entries.filter((each) => Number(each.sequence) < sequence).slice(-limit);
    },
    after: async (sequence, limit) => {
      this.#ask(`after ${sequence}`);
      return this.entries.filter((each) => Number(each.sequence) > sequence).slice(0, limit);
    },
    stream: (after, signal) => this.#stream(after, signal),
  };

  async *#stream(after: number, signal: AbortSignal): AsyncGenerator<TimelineEntry, void, void> {
    this.asked.push(`stream ${after}`);
    const waiting: (TimelineEntry | Error)[] = this.entries.filter((each) => Number(each.sequence) > after);
    let wake = () => {};
    const tell = (each: TimelineEntry | Error) => {
      waiting.push(each);
      wake();
    };
    signal.addEventListener('abort', () => wake());
    this.#streams.add(tell);
    try {
      while (!signal.aborted) {
        const next = waiting.shift();
        if (next instanceof Error) throw next;
        if (next) yield next;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      this.#streams.delete(tell);
    }
  }

  #ask(what: string): void {
    this.asked.push(what);
    const failure = this.failures.shift();
    if (failure) throw failure;
  }
}

const due: (() => void)[] = [];

/** Everything that was asked has been answered, and the frame has been drawn. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
  for (const tell of due.splice(0)) tell();
}

async function opened(told: Told, options: Partial<TimelineWindowOptions> = {}) {
  const news: number[] = [];
  let tellings = 0;
  const window = new TimelineWindow({
    source: told.source,
    pageEntries: 10,
    mostEntries: 30,
    retryMs: 1,
    soon: (tell) => due.push(tell),
    onNews: (entries) => news.push(...entries.map(({ sequence }) => Number(sequence))),
    ...options,
  });
  window.subscribe(() => (tellings += 1));
  const stop = window.start();
  await settled();
  const seen = () => window.view().entries.map(({ sequence }) => Number(sequence));
  return { window, stop, seen, news, tellings: () => tellings };
}

const from = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, at) => first + at);

describe('the window on a timeline', () => {
  it('opens at the end with one page however long the timeline is, and then follows it', async () => {
    const told = new Told(50_000);
    const { window, seen, news, stop } = await opened(told);
    expect(told.asked).toEqual(['before end', 'stream 50000']);
    expect(seen()).toEqual(from(49_991, 50_000));
    told.write(50_001, 50_002);
    await settled();
    expect(seen()).toEqual(from(49_991, 50_002));
    expect(news).toEqual([50_001, 50_002]);
    expect(window.view()).toMatchObject({ isAtEnd: true, isAtStart: false, newest: 50_002, place: 'end' });
    stop();
    await settled();
    expect(told.streams).toBe(0);
  });

  it('tells once of many entries that come together', async () => {
    const told = new Told(3);
    const { tellings, seen } = await opened(told);
    const before = tellings();
    told.write(...from(4, 23));
    await settled();
    expect(seen()).toEqual(from(1, 23));
    expect(tellings() - before).toBe(1);
  });

  it('never changes what it has shown', async () => {
    const told = new Told(3);
    const { window } = await opened(told);
    const { entries } = window.view();
    told.write(4);
    await settled();
    expect(entries).toHaveLength(3);
    expect(window.view().entries).toHaveLength(4);
  });

  it('goes back page by page to the first entry', async () => {
    const { window, seen } = await opened(new Told(25));
    await window.loadOlder();
    await settled();
    expect(seen()).toEqual(from(6, 25));
    await window.loadOlder();
    await settled();
    expect(seen()).toEqual(from(1, 25));
    expect(window.view()).toMatchObject({ isAtStart: true, areOlderRemoved: false, loading: null });
  });

  it('asks once for a page that is wanted twice', async () => {
    const told = new Told(25);
    const { window, seen } = await opened(told);
    await Promise.all([window.loadOlder(), window.loadOlder()]);
    await settled();
    expect(seen()).toEqual(from(6, 25));
    expect(told.asked.filter((asked) => asked === 'before 16')).toHaveLength(1);
  });

  it('gives up what is far from the reader: the end when he goes back, the start when he follows', async () => {
    const told = new Told(60);
    const { window, seen } = await opened(told);
    for (let pages = 0; pages < 3; pages++) await window.loadOlder();
    await settled();
    expect(seen()).toEqual(from(21, 50));
    expect(window.view().isAtEnd).toBe(false);
    told.write(61);
    await settled();
    expect(seen()).toEqual(from(21, 50));
    expect(window.view().newest).toBe(61);
    await window.loadNewer();
    await window.loadNewer();
    await settled();
    expect(seen()).toEqual(from(32, 61));
    expect(window.view().isAtEnd).toBe(true);
    told.write(62);
    await settled();
    expect(seen()).toEqual(from(36, 62));
    told.write(63);
    await settled();
    expect(seen()).toEqual(from(36, 63));
  });

  it('takes nothing from under a reader who has scrolled away', async () => {
    const told = new Told(10);
    const { window, seen } = await opened(told);
    window.isFollowed = false;
    told.write(...from(11, 40));
    await settled();
    expect(seen()).toEqual(from(1, 30));
    expect(window.view()).toMatchObject({ isAtEnd: false, newest: 40 });
  });

  it('goes to the start and back to the end', async () => {
    const told = new Told(100);
    const { window, seen } = await opened(told);
    await window.toStart();
    await settled();
    expect(seen()).toEqual(from(1, 10));
    expect(window.view()).toMatchObject({ place: 'start', isAtStart: true, isAtEnd: false });
    told.write(101);
    await window.toEnd();
    await settled();
    expect(seen()).toEqual(from(92, 101));
    expect(window.view()).toMatchObject({ place: 'end', isAtEnd: true });
  });

  it('opens around an entry, and follows the timeline all the same', async () => {
    const told = new Told(100);
    const { window, seen, news } = await opened(told, { around: 40 });
    expect(seen()).toEqual(from(35, 44));
    expect(window.view()).toMatchObject({ place: 40, isAtEnd: false, newest: 100 });
    told.write(101);
    await settled();
    expect(news).toEqual([101]);
    expect(seen()).toEqual(from(35, 44));
    await window.toEntry(98);
    await settled();
    expect(window.has(98)).toBe(true);
  });

  it('opens at the end when there is no such entry', async () => {
    const { window, seen } = await opened(new Told(20), { around: 77 });
    expect(seen()).toEqual(from(11, 20));
    expect(window.view().place).toBe('end');
  });

  it('reads the timeline anew when an entry is missing in the stream', async () => {
    const told = new Told(12);
    const { seen } = await opened(told);
    told.entries.push(entry(13), entry(14));
    told.streamOnly(14);
    await eventually(async () => {
      await settled();
      expect(seen()).toEqual(from(5, 14));
    });
    expect(told.asked).toEqual(['before end', 'stream 12', 'before end', 'stream 14']);
  });

  it('says that older entries were removed', async () => {
    const told = new Told(20);
    const { window } = await opened(told);
    told.entries = told.entries.slice(10);
    await window.loadOlder();
    await settled();
    expect(window.view()).toMatchObject({ areOlderRemoved: true, isAtStart: true });
  });

  it('goes to the first entry that is kept when the one it wanted is out of range', async () => {
    const told = new Told(40);
    const { window, seen } = await opened(told, { around: 5 });
    told.entries = told.entries.slice(30);
    told.failures = [new OutOfRangeError(400, { code: 11, message: 'no longer kept' })];
    await window.loadNewer();
    await settled();
    expect(seen()).toEqual(from(31, 40));
    expect(window.view()).toMatchObject({ areOlderRemoved: true, isAtStart: true, pageError: null });
  });

  it('says that everything was removed when nothing is left', async () => {
    const { window } = await opened(new Told(0));
    expect(window.view()).toMatchObject({ isOpen: true, areOlderRemoved: true, isAtEnd: true });
  });

  it('keeps what it has when a page does not come, and tries again when asked', async () => {
    const told = new Told(25);
    const { window, seen } = await opened(told);
    told.failures = [new ConnectionError('cut')];
    await window.loadOlder();
    await settled();
    expect(window.view()).toMatchObject({ loading: null, error: null });
    expect(window.view().pageError).toBeInstanceOf(ConnectionError);
    await window.tryAgain();
    await settled();
    expect(seen()).toEqual(from(6, 25));
    expect(window.view().pageError).toBeNull();
  });

  it('tries by itself until the service is there, and ends at a refusal', async () => {
    const told = new Told(5);
    told.failures = [new ConnectionError('away'), new ConnectionError('away')];
    const { window, seen } = await opened(told);
    await eventually(async () => {
      await settled();
      expect(seen()).toEqual(from(1, 5));
    });
    expect(window.view().error).toBeNull();
    told.breakStream(new NotFoundError(404, { code: 5, message: 'the agent does not exist' }));
    await settled();
    expect(window.view().error).toBeInstanceOf(NotFoundError);
    expect(told.streams).toBe(0);
    expect(seen()).toEqual(from(1, 5));
  });

  it('forgets a page of where it was when it has been put somewhere else meanwhile', async () => {
    const told = new Told(100);
    const { window, seen } = await opened(told);
    await Promise.all([window.loadOlder(), window.toStart()]);
    await settled();
    expect(seen()).toEqual(from(1, 10));
    expect(window.view().loading).toBeNull();
  });
});
