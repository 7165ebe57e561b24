import { ConnectionError, NotFoundError, OutOfRangeError, type TimelineEntry } from '@muster/sdk';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../../../test/support/async.ts';
import { type TimelineSource, TimelineWindow, type TimelineWindowOptions } from './timeline-window.ts';

const entry = (sequence: number): TimelineEntry => ({
  sequence: String(sequence),
  at: '2026-01-01T00:00:00.000Z',
  runId: '1',
  type: 'MESSAGE',
  followUpId: '',
  text: `entry ${sequence}`,
  data: { key: `key ${sequence}` },
});

/** A service with one timeline. */
class FakeService {
  entries: TimelineEntry[] = [];
  readonly requests: string[] = [];
  failures: Error[] = [];
  say: (key: string, text: string) => void = () => {};
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
    for (const push of this.#streams) push(entry(sequence));
  }

  breakStream(error: Error): void {
    for (const push of this.#streams) push(error);
  }

  get streams(): number {
    return this.#streams.size;
  }

  readonly source: TimelineSource = {
    before: async (sequence, limit) => {
      this.#request(`before ${sequence === Number.MAX_SAFE_INTEGER ? 'end' : sequence}`);
      return this.entries.filter((each) => Number(each.sequence) < sequence).slice(-limit);
    },
    after: async (sequence, limit) => {
      this.#request(`after ${sequence}`);
      return this.entries.filter((each) => Number(each.sequence) > sequence).slice(0, limit);
    },
    stream: (after, signal, onPartial) => {
      this.say = (key, text) => onPartial({ runId: '1', key, type: 'MESSAGE', offset: 0, text });
      return this.#stream(after, signal);
    },
  };

  async *#stream(after: number, signal: AbortSignal): AsyncGenerator<TimelineEntry, void, void> {
    this.requests.push(`stream ${after}`);
    const waiting: (TimelineEntry | Error)[] = this.entries.filter((each) => Number(each.sequence) > after);
    let wake = () => {};
    const push = (each: TimelineEntry | Error) => {
      waiting.push(each);
      wake();
    };
    signal.addEventListener('abort', () => wake());
    this.#streams.add(push);
    try {
      while (!signal.aborted) {
        const next = waiting.shift();
        if (next instanceof Error) throw next;
        if (next) yield next;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      this.#streams.delete(push);
    }
  }

  #request(what: string): void {
    this.requests.push(what);
    const failure = this.failures.shift();
    if (failure) throw failure;
  }
}

const scheduled: (() => void)[] = [];

/** Every request has its reply, and the window has notified. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
  for (const notify of scheduled.splice(0)) notify();
}

async function opened(service: FakeService, options: Partial<TimelineWindowOptions> = {}) {
  const streamed: number[] = [];
  let notifications = 0;
  const window = new TimelineWindow({
    source: service.source,
    pageEntries: 10,
    maxEntries: 30,
    retryMs: 1,
    schedule: (notify) => scheduled.push(notify),
    onNewEntries: (entries) => streamed.push(...entries.map(({ sequence }) => Number(sequence))),
    ...options,
  });
  window.subscribe(() => (notifications += 1));
  const stop = window.start();
  await settled();
  const seen = () => window.view().entries.map(({ sequence }) => Number(sequence));
  return { window, stop, seen, streamed, notifications: () => notifications };
}

const from = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, at) => first + at);

describe('the window of a timeline', () => {
  it('opens at the end with one page, however long the timeline is, and follows it', async () => {
    const service = new FakeService(50_000);
    const { window, seen, streamed, stop } = await opened(service);
    expect(service.requests).toEqual(['before end', 'stream 50000']);
    expect(seen()).toEqual(from(49_991, 50_000));
    service.write(50_001, 50_002);
    await settled();
    expect(seen()).toEqual(from(49_991, 50_002));
    expect(streamed).toEqual([50_001, 50_002]);
    expect(window.view()).toMatchObject({ isAtEnd: true, isAtStart: false, newest: 50_002, position: 'end' });
    stop();
    await settled();
    expect(service.streams).toBe(0);
  });

  it('notifies once for many entries that arrive together', async () => {
    const service = new FakeService(3);
    const { notifications, seen } = await opened(service);
    const before = notifications();
    service.write(...from(4, 23));
    await settled();
    expect(seen()).toEqual(from(1, 23));
    expect(notifications() - before).toBe(1);
  });

  it('has what the agent is producing, until the entry with it comes', async () => {
    const service = new FakeService(3);
    const { window } = await opened(service);
    service.say('key 4', 'so far');
    service.say('other', 'longer');
    await settled();
    expect(window.view().liveTexts.map(({ text }) => text)).toEqual(['so far', 'longer']);
    service.write(4);
    await settled();
    expect(window.view().liveTexts.map(({ text }) => text)).toEqual(['longer']);
  });

  it('never changes an earlier view', async () => {
    const service = new FakeService(3);
    const { window } = await opened(service);
    const { entries } = window.view();
    service.write(4);
    await settled();
    expect(entries).toHaveLength(3);
    expect(window.view().entries).toHaveLength(4);
  });

  it('loads older pages up to the first entry', async () => {
    const { window, seen } = await opened(new FakeService(25));
    await window.loadOlder();
    await settled();
    expect(seen()).toEqual(from(6, 25));
    await window.loadOlder();
    await settled();
    expect(seen()).toEqual(from(1, 25));
    expect(window.view()).toMatchObject({ isAtStart: true, areOlderRemoved: false, loading: null });
  });

  it('sends one request for a page that is wanted twice', async () => {
    const service = new FakeService(25);
    const { window, seen } = await opened(service);
    await Promise.all([window.loadOlder(), window.loadOlder()]);
    await settled();
    expect(seen()).toEqual(from(6, 25));
    expect(service.requests.filter((request) => request === 'before 16')).toHaveLength(1);
  });

  it('drops the end when it loads older pages, and the start when it follows', async () => {
    const service = new FakeService(60);
    const { window, seen } = await opened(service);
    for (let pages = 0; pages < 3; pages++) await window.loadOlder();
    await settled();
    expect(seen()).toEqual(from(21, 50));
    expect(window.view().isAtEnd).toBe(false);
    service.write(61);
    await settled();
    expect(seen()).toEqual(from(21, 50));
    expect(window.view().newest).toBe(61);
    await window.loadNewer();
    await window.loadNewer();
    await settled();
    expect(seen()).toEqual(from(32, 61));
    expect(window.view().isAtEnd).toBe(true);
    service.write(62);
    await settled();
    expect(seen()).toEqual(from(36, 62));
    service.write(63);
    await settled();
    expect(seen()).toEqual(from(36, 63));
  });

  it('drops nothing at the start while the reader has scrolled away', async () => {
    const service = new FakeService(10);
    const { window, seen } = await opened(service);
    window.isFollowed = false;
    service.write(...from(11, 40));
    await settled();
    expect(seen()).toEqual(from(1, 30));
    expect(window.view()).toMatchObject({ isAtEnd: false, newest: 40 });
  });

  it('moves to the start and back to the end', async () => {
    const service = new FakeService(100);
    const { window, seen } = await opened(service);
    await window.moveTo('start');
    await settled();
    expect(seen()).toEqual(from(1, 10));
    expect(window.view()).toMatchObject({ position: 'start', isAtStart: true, isAtEnd: false });
    service.write(101);
    await window.moveTo('end');
    await settled();
    expect(seen()).toEqual(from(92, 101));
    expect(window.view()).toMatchObject({ position: 'end', isAtEnd: true });
  });

  it('opens around an entry, and still streams new entries', async () => {
    const service = new FakeService(100);
    const { window, seen, streamed } = await opened(service, { around: 40 });
    expect(seen()).toEqual(from(35, 44));
    expect(window.view()).toMatchObject({ position: 40, isAtEnd: false, newest: 100 });
    service.write(101);
    await settled();
    expect(streamed).toEqual([101]);
    expect(seen()).toEqual(from(35, 44));
    await window.moveTo(98);
    await settled();
    expect(window.has(98)).toBe(true);
  });

  it('opens at the end if the entry does not exist', async () => {
    const { window, seen } = await opened(new FakeService(20), { around: 77 });
    expect(seen()).toEqual(from(11, 20));
    expect(window.view()).toMatchObject({ position: 'end', missing: 77 });
    await window.moveTo(5);
    await settled();
    expect(window.view()).toMatchObject({ position: 5, missing: null });
  });

  it('loads the timeline again when the stream misses an entry', async () => {
    const service = new FakeService(12);
    const { seen } = await opened(service);
    service.entries.push(entry(13), entry(14));
    service.streamOnly(14);
    await eventually(async () => {
      await settled();
      expect(seen()).toEqual(from(5, 14));
    });
    expect(service.requests).toEqual(['before end', 'stream 12', 'before end', 'stream 14']);
  });

  it('reports that older entries were removed', async () => {
    const service = new FakeService(20);
    const { window } = await opened(service);
    service.entries = service.entries.slice(10);
    await window.loadOlder();
    await settled();
    expect(window.view()).toMatchObject({ areOlderRemoved: true, isAtStart: true });
  });

  it('moves to the first retained entry when the requested one was removed', async () => {
    const service = new FakeService(40);
    const { window, seen } = await opened(service, { around: 5 });
    service.entries = service.entries.slice(30);
    service.failures = [new OutOfRangeError(400, { code: 11, message: 'no longer kept' })];
    await window.loadNewer();
    await settled();
    expect(seen()).toEqual(from(31, 40));
    expect(window.view()).toMatchObject({ areOlderRemoved: true, isAtStart: true, pageError: null });
  });

  it('reports that all entries were removed', async () => {
    const { window } = await opened(new FakeService(0));
    expect(window.view()).toMatchObject({ isOpen: true, areOlderRemoved: true, isAtEnd: true });
  });

  it('keeps its entries when a page fails to load, and retries on request', async () => {
    const service = new FakeService(25);
    const { window, seen } = await opened(service);
    service.failures = [new ConnectionError('cut')];
    await window.loadOlder();
    await settled();
    expect(window.view()).toMatchObject({ loading: null, error: null });
    expect(window.view().pageError).toBeInstanceOf(ConnectionError);
    await window.tryAgain();
    await settled();
    expect(seen()).toEqual(from(6, 25));
    expect(window.view().pageError).toBeNull();
  });

  it('retries until the service is available, and stops at a 4xx reply', async () => {
    const service = new FakeService(5);
    service.failures = [new ConnectionError('unavailable'), new ConnectionError('unavailable')];
    const { window, seen } = await opened(service);
    await eventually(async () => {
      await settled();
      expect(seen()).toEqual(from(1, 5));
    });
    expect(window.view().error).toBeNull();
    service.breakStream(new NotFoundError(404, { code: 5, message: 'the agent does not exist' }));
    await settled();
    expect(window.view().error).toBeInstanceOf(NotFoundError);
    expect(service.streams).toBe(0);
    expect(seen()).toEqual(from(1, 5));
  });

  it('ignores a page of its old position after a move', async () => {
    const service = new FakeService(100);
    const { window, seen } = await opened(service);
    await Promise.all([window.loadOlder(), window.moveTo('start')]);
    await settled();
    expect(seen()).toEqual(from(1, 10));
    expect(window.view().loading).toBeNull();
  });
});
