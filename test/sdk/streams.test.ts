import type { AgentEntry, MusterClient, TimelineEntry } from '@muster/sdk';
import { describe, expect, test } from 'vitest';
import { Node } from '../crash/node.ts';
import { until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import { ProxiedServer } from './servers.ts';

const at = new ProxiedServer(() => Node.start({ runner: false }));
const { agent } = at;

/** A stream read in the background; everything it gave is in `seen`. */
class Reading<T> {
  readonly seen: T[] = [];
  readonly done: Promise<void>;
  readonly #abort = new AbortController();

  constructor(open: (signal: AbortSignal) => AsyncIterable<T>) {
    this.done = (async () => {
      for await (const entry of open(this.#abort.signal)) this.seen.push(entry);
    })();
    this.done.catch(() => {});
  }

  /** Also throws what the stream threw. */
  async until(what: string, holds: (seen: readonly T[]) => boolean): Promise<void> {
    const ended = this.done.then(() => Promise.reject(new Error(`the stream ended before ${what}`)));
    await Promise.race([
      until(
        what,
        async () => this.seen,
        (seen) => holds(seen),
        90_000,
      ),
      ended,
    ]);
  }

  /** The stream must end by itself, and without an error. */
  async stop(): Promise<T[]> {
    this.#abort.abort();
    await this.done;
    return this.seen;
  }
}

const readTimeline = (client: MusterClient) =>
  new Reading<TimelineEntry>((signal) => client.timelineStream(agent(), { signal }));

const says = (text: string) => (seen: readonly TimelineEntry[]) => seen.some((entry) => entry.text === text);

async function expectWhole(reading: Reading<TimelineEntry>): Promise<void> {
  const all: TimelineEntry[] = [];
  for await (const entry of at.client().timelineAll(agent())) all.push(entry);
  await reading.until('the last entry', (seen) => seen.length >= all.length);
  expect(await reading.stop()).toEqual(all);
  expect(all.map(({ sequence }) => sequence)).toEqual(all.map((_, i) => String(i + 1)));
}

describe('a timeline stream yields every entry once', () => {
  test('across a shutdown and a kill of the service under load: waits go on, and calls take effect once', async () => {
    const { target: node } = at;
    const { url } = node;
    const claim = await at.start();
    await at.tenant.spawn('awaited');
    const awaited = await at.tenant.start('awaited');
    const waits = await at.heldWaits(agent('awaited'), { url });
    const client = at.client({ url });
    const reading = readTimeline(client);
    const ids: string[] = [];
    let isOver = false;
    const load = (async () => {
      while (!isOver) ids.push((await client.queue(agent(), `message ${ids.length}`)).followUpId);
    })();
    const readMore = (when: string) => {
      const before = reading.seen.length;
      return reading.until(`more ${when}`, (seen) => seen.length > before + 10);
    };
    await readMore('before the shutdown');
    await node.server.end('SIGTERM');
    await node.start();

    await readMore('before the kill');
    const queueing = Array.from({ length: 40 }, (_, i) => client.queue(agent(), `concurrent ${i}`));
    await node.kill();
    let starting: Promise<void> | undefined;
    const refused = at.client({
      url,
      onRetry: ({ error }) => {
        expect(error).toMatchObject({ isUnsent: true });
        starting ??= node.start();
      },
    });
    await refused.createTasks(agent(), [{ subject: 'once' }]);
    await starting;
    expect(await at.tenant.tasks('agent')).toHaveLength(1);

    await readMore('at the end');
    isOver = true;
    await load;
    for (const { followUpId } of await Promise.all(queueing)) ids.push(followUpId);
    const { followUps } = await at.tenant.status('agent');
    expect(followUps.map(({ followUpId }) => followUpId).sort()).toEqual(ids.sort());
    await at.tenant.end(awaited);
    for (const wait of waits) expect(await wait).toMatchObject({ phaseReason: 'RESTING' });
    await at.tenant.report(claim, { items: [{ type: 'MESSAGE', text: 'the last word' }] });
    await reading.until('the last word', says('the last word'));
    await expectWhole(reading);
  });

  test('across lost, slow and silent connections', async () => {
    const claim = await at.start();
    const reading = readTimeline(at.client({ silenceMs: 1_000 }));
    for (const wire of ['cut', 'half-open', 'slow', 'cut', 'half-open'] as const) {
      const text = `before ${wire} ${reading.seen.length}`;
      await at.tenant.report(claim, { items: [{ type: 'MESSAGE', text }] });
      await reading.until(text, says(text));
      at.proxy.set(wire);
      const during = `during ${wire} ${reading.seen.length}`;
      await at.tenant.report(claim, {
        items: Array.from({ length: 100 }, (_, i) => ({ type: 'MESSAGE', text: `${during} ${i}` })),
      });
      if (wire === 'slow') await at.proxy.faults(3, 5_000);
      at.proxy.set('through');
      await reading.until(during, says(`${during} 99`));
    }
    await expectWhole(reading);
  });
});

describe('a list stream yields each change once', () => {
  const phasesOf = (seen: readonly AgentEntry[], path: string) =>
    seen.filter(({ agentId }) => agentId.agent.join('/') === path).map(({ phase }) => phase.slice(6));

  test('across a reconnection, including agents that left the list', async () => {
    for (const path of ['idle', 'worker', 'ends']) await at.tenant.spawn(path);
    const filter = { workspace: at.tenant.workspace };
    const reading = new Reading<AgentEntry>((signal) => at.client().listStream(filter, { signal }));
    await reading.until('the page', (seen) => seen.length >= 3);
    at.proxy.set('cut');
    await at.tenant.kill('ends');
    await at.tenant.start('worker');
    await at.tenant.spawn('new');
    at.proxy.set('through');
    await reading.until('the end', (seen) => phasesOf(seen, 'ends').length === 2);
    await reading.until('the new one', (seen) => phasesOf(seen, 'new').length > 0);
    await reading.until('the worker at work', (seen) => phasesOf(seen, 'worker').includes('RUNNING'));
    at.proxy.set('cut');
    at.proxy.set('through');
    await at.tenant.kill('idle');
    await reading.until('another end', (seen) => phasesOf(seen, 'idle').includes('CANCELED'));

    const seen = await reading.stop();
    expect(phasesOf(seen, 'ends')).toEqual(['PENDING', 'CANCELED']);
    expect(phasesOf(seen, 'worker').at(-1)).toBe('RUNNING');
    for (const path of ['idle', 'worker', 'ends', 'new']) {
      const texts = seen
        .filter(({ agentId }) => agentId.agent.join('/') === path)
        .map((entry) => JSON.stringify(entry));
      expect(texts.filter((text, i) => text === texts[i - 1])).toEqual([]);
    }
  });
});

describe('callbacks of a stream', () => {
  test('a list stream calls onOpen and onWhole, again after each reconnection', async () => {
    for (const path of ['one', 'two', 'two/below']) await at.tenant.spawn(path);
    const told: string[] = [];
    const reading = new Reading<AgentEntry>(async function* (signal) {
      const filter = { workspace: at.tenant.workspace, allDepths: true };
      const settings = { signal, onOpen: () => told.push('open'), onWhole: () => told.push('whole') };
      for await (const entry of at.client().listStream(filter, settings)) {
        told.push(entry.agentId.agent.join('/'));
        yield entry;
      }
    });
    await reading.until('the whole list', () => told.includes('whole'));
    expect(told.splice(0)).toEqual(['open', 'two/below', 'two', 'one', 'whole']);
    at.proxy.set('cut');
    await at.tenant.kill('one');
    at.proxy.set('through');
    await reading.until('the whole list again', () => told.includes('whole'));
    expect(told.splice(0)).toEqual(['open', 'one', 'whole']);
    // It left before this connection: it is not missing any more.
    at.proxy.set('cut');
    at.proxy.set('through');
    await reading.until('the whole list once more', () => told.includes('whole'));
    expect(told).toEqual(['open', 'whole']);
    await reading.stop();
  });

  test('an agent that left the list is not yielded again after a reconnection', async () => {
    for (const path of ['stays', 'leaves']) await at.tenant.spawn(path);
    const wholes: true[] = [];
    const filter = { workspace: at.tenant.workspace };
    const reading = new Reading<AgentEntry>((signal) =>
      at.client().listStream(filter, { signal, onWhole: () => wholes.push(true) }),
    );
    await reading.until('the whole list', () => wholes.length === 1);
    await at.tenant.kill('leaves');
    await reading.until('it leave', (seen) => seen.some(({ phase }) => phase === 'PHASE_CANCELED'));
    at.proxy.set('cut');
    at.proxy.set('through');
    await reading.until('the whole list again', () => wholes.length === 2);
    const seen = await reading.stop();
    expect(seen.map(({ agentId }) => agentId.agent[0])).toEqual(['leaves', 'stays', 'leaves']);
  });

  test('a timeline stream calls onOpen, again after each reconnection', async () => {
    await at.start();
    const opens: true[] = [];
    const reading = new Reading<TimelineEntry>((signal) =>
      at.client().timelineStream(agent(), { signal, onOpen: () => opens.push(true) }),
    );
    for (const count of [1, 2, 3]) {
      await reading.until(`opened ${count} times`, () => opens.length === count);
      at.proxy.set('cut');
      at.proxy.set('through');
    }
    await reading.stop();
  });
});

describe('a stream ends', () => {
  test('when the caller leaves the loop, and closes its connection', async () => {
    await at.start();
    const connections = async () => {
      const response = await fetch(`${at.target.url}/metrics`);
      return /^muster_long_replies_open\{kind="stream"\} (\d+)$/m.exec(await response.text())?.[1] ?? '0';
    };
    await until('those before it closed', connections, (open) => open === '0');
    for await (const { sequence } of at.client().timelineStream(agent())) if (sequence === '2') break;
    for await (const _ of at.client().listStream({ workspace: at.tenant.workspace })) break;
    await until('both closed', connections, (open) => open === '0');
  });

  test('when the caller aborts: immediately, while it waits, and between tries', async () => {
    await at.start();
    const abort = new AbortController();
    abort.abort();
    expect(await at.client().timelineStream(agent(), abort).next()).toEqual({ done: true, value: undefined });
    expect(await at.client().listStream({}, abort).next()).toEqual({ done: true, value: undefined });

    const waiting = readTimeline(at.client());
    await waiting.until('an entry', (seen) => seen.length > 0);
    await waiting.stop();

    at.proxy.set('cut');
    const between = new AbortController();
    const client = at.client({ retries: { firstDelayMs: 1e8 }, onRetry: () => between.abort() });
    expect(await client.timelineStream(agent(), between).next()).toEqual({ done: true, value: undefined });
  });

  test('with the error when the service refuses it, when opened or reopened', async () => {
    await expect(at.client().timelineStream(agent('nobody')).next()).rejects.toMatchObject({
      name: 'NotFoundError',
    });
    await expect(at.client({ apiKey: 'mst_no.key' }).listStream().next()).rejects.toMatchObject({
      name: 'UnauthenticatedError',
    });
    await at.start();
    const { key, name } = await createKey(at.api, { role: 'viewer' });
    const reading = readTimeline(at.client({ apiKey: key }));
    await reading.until('an entry', (seen) => seen.length > 0);
    await at.api.del(`/v1/catalog/token/${name}`);
    await expect(reading.done).rejects.toMatchObject({ name: 'UnauthenticatedError' });
  });
});
