import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { type Run, run as runSchema, type TimelineEntry, timelineEntry } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { apiWithNewKey } from '../support/catalog.ts';
import { schemaProblem } from '../support/contract-schemas.ts';
import { expectError } from '../support/expect-reply.ts';
import { startServer } from '../support/server.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { openStream } from '../support/streams.ts';
import { inAnHour, inMs, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

type Fields = Record<string, unknown>;
const page = async (tenant: TestTenant, fields: Fields): Promise<TimelineEntry[]> => {
  const { status, body } = await tenant.send<{ entries: TimelineEntry[] }>('agent/timeline', 'a', fields);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.entries;
};
const numbers = (entries: readonly TimelineEntry[]) => entries.map(({ sequence }) => Number(sequence));
const upTo = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

/** An agent that has said `count` things. */
async function talkative(count: number): Promise<TestTenant> {
  const tenant = await newTestTenant(api);
  await tenant.spawn('a');
  const run = await tenant.start('a');
  const items = Array.from({ length: count }, (_, i) => ({ type: 'MESSAGE', text: `message ${i}` }));
  for (let i = 0; i < count; i += 500) await tenant.report(run, { items: items.slice(i, i + 500) });
  return tenant;
}

describe('entries', () => {
  test('an entry carries sequence, at, runId, type, followUpId, text and data', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a', { description: 'do it' });
    await tenant.queue('a', { followUpId: 'f', description: 'more' });
    await tenant.turn('a', { response: 'done' });
    const entries = await tenant.timeline('a');
    for (const entry of entries) {
      expect(Object.keys(entry).sort()).toEqual(
        ['sequence', 'at', 'runId', 'type', 'followUpId', 'text', 'data'].sort(),
      );
      expect(schemaProblem(timelineEntry, entry)).toBeUndefined();
    }
    expect(entries[0]).toMatchObject({ sequence: '1', type: 'AGENT_SPAWNED', runId: '0', followUpId: '' });
  });

  test('sequences rise from 1 without gaps, and times never decrease', async () => {
    const tenant = await talkative(20);
    await Promise.all(Array.from({ length: 20 }, (_, i) => tenant.queue('a', `parallel ${i}`)));
    await tenant.clear('a');
    const entries = await tenant.timeline('a');
    expect(numbers(entries)).toEqual(upTo(1, entries.length));
    const times = entries.map(({ at }) => Date.parse(at));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  });

  test('the life of an agent, entry by entry', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a', { tasks: [{ id: 't', subject: 'first' }] });
    await tenant.queue('a', { followUpId: 'one', description: 'one' });
    const run = await tenant.start('a');
    await tenant.send('agent/tasks/update', 'a', { id: 't', status: 'TASK_STATUS_COMPLETED' });
    await tenant.report(run, { pushes: [{ ref: 'refs/heads/x', commits: ['c0ffee'], files: ['a.txt'] }] });
    await tenant.queue('a', { followUpId: 'two', fastMode: true });
    await tenant.queue('a', { followUpId: 'later', description: 'x', deliverAt: inAnHour() });
    await tenant.remove('a', 'later');
    await tenant.spawn('a/child');
    await tenant.kill('a/child');
    await tenant.end(run, 'COMPLETED', { question: 'And now?' });
    await tenant.end(await tenant.start('a'));
    const types = (await tenant.timeline('a')).map(({ type, runId, followUpId }) =>
      [type, runId, followUpId].join(' '),
    );
    const inOrder = [
      'AGENT_SPAWNED 0 ',
      'FOLLOW_UP_QUEUED 0 one',
      'RUN_STARTED 1 ',
      'FOLLOW_UP_DELIVERED 1 one',
      'RUN_ENDED 1 ',
      'RUN_STARTED 2 ',
      'RUN_ENDED 2 ',
    ];
    for (const entry of inOrder) expect(types).toContain(entry);
    expect(types.filter((t) => /^RUN_/.test(t))).toEqual(inOrder.filter((t) => /^RUN_/.test(t)));
    for (const type of [
      'PHASE_CHANGED',
      'TASK_CHANGED',
      'PUSH',
      'FOLLOW_UP_DEFERRED',
      'FOLLOW_UP_REMOVED',
      'SETTINGS_CHANGED',
      'CHILD_SPAWNED',
      'CHILD_SETTLED',
      'QUESTION',
    ]) {
      expect(types.some((t) => t.startsWith(`${type} `))).toBe(true);
    }
  });

  test.each(['MESSAGE', 'THINKING', 'TOOL_CALL', 'TOOL_RESULT', 'SETUP_OUTPUT', 'WARNING', 'ERROR'])(
    'a reported %s is an entry of its run, as reported',
    async (type) => {
      const tenant = await newTestTenant(api);
      await tenant.spawn('a');
      const run = await tenant.start('a');
      await tenant.report(run, {
        items: [{ type, text: 'text ✓', data: { name: 'x', nested: [1, { a: null }] } }],
      });
      expect(await tenant.timeline('a', type as TimelineEntry['type'])).toMatchObject([
        { runId: '1', text: 'text ✓', data: { name: 'x', nested: [1, { a: null }] } },
      ]);
    },
  );

  test('a phase change says the new phase and why', async () => {
    const tenant = await newTestTenant(api);
    await tenant.rested('a', {}, { finished: true });
    const changes = (await tenant.timeline('a', 'PHASE_CHANGED')).map((entry) => JSON.stringify(entry));
    for (const phase of ['PHASE_RUNNING', 'PHASE_COMPLETED']) {
      expect(changes.some((entry) => entry.includes(phase))).toBe(true);
    }
    expect(changes.at(-1)).toContain('FINISHED');
  });

  test('the end of a run says its outcome', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    await tenant.end(await tenant.start('a'), 'HANDED_BACK');
    await tenant.end(await tenant.start('a'));
    const ends = await tenant.timeline('a', 'RUN_ENDED');
    expect(ends.map(({ runId, data }) => [runId, data.outcome])).toEqual([
      ['1', 'HANDED_BACK'],
      ['2', 'COMPLETED'],
    ]);
  });
});

describe('pages in both directions', () => {
  test('after a sequence: oldest first, page by page', async () => {
    const tenant = await talkative(30);
    const all = await tenant.timeline('a');
    const last = all.length;
    expect(numbers(await page(tenant, { afterSequence: '0', limit: 5 }))).toEqual(upTo(1, 5));
    expect(numbers(await page(tenant, { afterSequence: 5, limit: 10 }))).toEqual(upTo(6, 15));
    expect(numbers(await page(tenant, { afterSequence: String(last - 2) }))).toEqual([last - 1, last]);
    expect(await page(tenant, { afterSequence: String(last) })).toEqual([]);
    expect(await page(tenant, { afterSequence: String(last + 1000) })).toEqual([]);
    expect(await page(tenant, { afterSequence: '9223372036854775807' })).toEqual([]);
  });

  test('before a sequence: the newest of them, still oldest first', async () => {
    const tenant = await talkative(30);
    const last = (await tenant.timeline('a')).length;
    expect(numbers(await page(tenant, { beforeSequence: String(last + 1), limit: 5 }))).toEqual(
      upTo(last - 4, last),
    );
    expect(numbers(await page(tenant, { beforeSequence: 10, limit: 4 }))).toEqual(upTo(6, 9));
    expect(numbers(await page(tenant, { beforeSequence: '3', limit: 100 }))).toEqual([1, 2]);
    expect(await page(tenant, { beforeSequence: '1' })).toEqual([]);
    expect(numbers(await page(tenant, { beforeSequence: '9223372036854775807', limit: 1 }))).toEqual([last]);
  });

  test('pages of either direction together are the whole timeline', async () => {
    const tenant = await talkative(60);
    const all = await tenant.timeline('a');
    const back: TimelineEntry[] = [];
    for (let before = String(all.length + 1); before !== '1'; before = back[0]?.sequence ?? '1') {
      back.unshift(...(await page(tenant, { beforeSequence: before, limit: 7 })));
    }
    expect(back).toEqual(all);
  });

  test('with neither: a short timeline comes whole', async () => {
    const tenant = await talkative(3);
    expect(await page(tenant, {})).toEqual(await tenant.timeline('a'));
  });

  test('a page has at most 1,000 entries', async () => {
    const tenant = await talkative(1100);
    expect(await page(tenant, { afterSequence: '0', limit: 1000 })).toHaveLength(1000);
    for (const limit of [0, -1, 1001, 1.5, 'ten']) {
      expectError(await tenant.send('agent/timeline', 'a', { limit }), 'INVALID_ARGUMENT', 'limit');
    }
  });

  describe('of large entries', () => {
    interface Page {
      readonly entries: TimelineEntry[];
      readonly more: boolean;
    }
    const mebibyte = 1024 * 1024;
    const endOfTime = String(Number.MAX_SAFE_INTEGER);
    let tenant: TestTenant;
    /** The text compresses well on disk and is large in a reply. */
    const large = {
      type: 'TOOL_RESULT',
      text: 'x'.repeat(200 * 1024),
      data: { out: 'y'.repeat(700 * 1024) },
    };
    const pageOf = async (fields: Fields): Promise<Page & { bytes: number }> => {
      const answer = await tenant.send<Page>('agent/timeline', 'a', fields);
      expect(answer.status).toBe(200);
      return { ...answer.body, bytes: Buffer.byteLength(JSON.stringify(answer.body)) };
    };

    const newest = async (): Promise<number> =>
      Number((await pageOf({ beforeSequence: endOfTime, limit: 1 })).entries[0]?.sequence);

    beforeAll(async () => {
      tenant = await newTestTenant(api);
      await tenant.spawn('a');
      const run = await tenant.start('a');
      for (let i = 0; i < 8; i += 1) await tenant.report(run, { items: [large] });
    });

    test.each(['afterSequence', 'beforeSequence'])(
      'pages by %s end at 4 MiB, say that more follows, and together are the whole',
      async (field) => {
        const isAfter = field === 'afterSequence';
        const all: number[] = [];
        let from = isAfter ? '0' : endOfTime;
        let hasMore = true;
        while (hasMore) {
          const { entries, more, bytes } = await pageOf({ [field]: from });
          expect(bytes).toBeLessThan(5 * mebibyte);
          expect(entries.length).toBeGreaterThan(0);
          const read = numbers(entries);
          all.splice(isAfter ? all.length : 0, 0, ...read);
          from = String(isAfter ? read.at(-1) : read[0]);
          hasMore = more;
        }
        expect(all).toEqual(upTo(1, await newest()));
      },
    );

    test('a page with a limit says whether more follows', async () => {
      expect(await pageOf({ limit: 2 })).toMatchObject({ entries: { length: 2 }, more: true });
      expect(await pageOf({ types: ['AGENT_SPAWNED'] })).toMatchObject({
        entries: { length: 1 },
        more: false,
      });
      expect(await pageOf({ afterSequence: '1000000' })).toMatchObject({ entries: [], more: false });
    });

    test('a stream sends all of them', async () => {
      const last = await newest();
      const stream = await openStream<TimelineEntry>(api, '/v1/agent/timeline/stream', {
        agentId: tenant.id('a'),
      });
      expect(await stream.until(({ id }) => Number(id) === last)).toBe(true);
      stream.close();
      expect(stream.seen.map(({ id }) => Number(id))).toEqual(upTo(1, last));
    });
  });

  test('after and before exclude each other', async () => {
    const tenant = await talkative(1);
    expectError(
      await tenant.send('agent/timeline', 'a', { afterSequence: '1', beforeSequence: '5' }),
      'INVALID_ARGUMENT',
      /^(after|before)Sequence$/,
    );
  });

  test('only entries of the given types, in both directions; none given means all', async () => {
    const tenant = await talkative(4);
    const whole = await tenant.timeline('a');
    const wanted = await tenant.timeline('a', 'RUN_STARTED', 'MESSAGE');
    const types = ['RUN_STARTED', 'MESSAGE'];
    expect(wanted).toHaveLength(5);
    expect(await page(tenant, { types })).toEqual(wanted);
    expect(await page(tenant, { types, afterSequence: wanted[1]?.sequence, limit: 2 })).toEqual(
      wanted.slice(2, 4),
    );
    expect(await page(tenant, { types, beforeSequence: wanted[4]?.sequence, limit: 2 })).toEqual(
      wanted.slice(2, 4),
    );
    expect(await page(tenant, { types: ['PUSH'] })).toEqual([]);
    expect(await page(tenant, { types: [] })).toEqual(whole);
    expectError(
      await tenant.send('agent/timeline', 'a', { types: ['GOSSIP'] }),
      'INVALID_ARGUMENT',
      'types[0]',
    );
  });

  test('a timeline is kept after the agent’s end', async () => {
    const tenant = await talkative(2);
    await tenant.kill('a');
    expect((await tenant.timeline('a', 'MESSAGE')).map(({ text }) => text)).toEqual([
      'message 0',
      'message 1',
    ]);
  });
});

describe('the stream', () => {
  const open = (tenant: TestTenant, fields: Fields = {}, headers: Record<string, string> = {}, by = api) =>
    openStream<TimelineEntry>(
      by,
      '/v1/agent/timeline/stream',
      { agentId: tenant.id('a'), ...fields },
      headers,
    );

  test('sends Server-Sent Events with the sequence as id: existing entries first, then new ones', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    const run = await tenant.start('a');
    const stream = await open(tenant);
    expect(stream.status).toBe(200);
    expect(stream.headers.get('content-type')).toMatch(/^text\/event-stream\b/);
    expect(await stream.until(({ data }) => data.type === 'RUN_STARTED')).toBe(true);
    await tenant.report(run, { items: [{ type: 'MESSAGE', text: 'live' }] });
    expect(await stream.until(({ data }) => data.text === 'live')).toBe(true);
    stream.close();
    for (const { id, data } of stream.seen) expect(id).toBe(data.sequence);
    const all = await tenant.timeline('a');
    expect(stream.seen.map(({ data }) => data)).toEqual(all.slice(0, stream.seen.length));
  });

  test('resumed by Last-Event-ID from any point sends each entry once', async () => {
    const tenant = await talkative(10);
    const all = await tenant.timeline('a');
    for (const from of [0, 1, 4, all.length - 1]) {
      const stream = await open(tenant, {}, { 'last-event-id': String(from) });
      expect(await stream.until(({ id }) => id === String(all.length))).toBe(true);
      stream.close();
      expect(stream.seen.map(({ data }) => data)).toEqual(all.slice(from));
    }
  });

  test('`afterSequence` sets the start; Last-Event-ID overrides it', async () => {
    const tenant = await talkative(10);
    const all = await tenant.timeline('a');
    const first = await open(tenant, { afterSequence: '3' });
    expect(await first.until(({ id }) => id === String(all.length))).toBe(true);
    first.close();
    expect(first.seen[0]?.id).toBe('4');
    const resumed = await open(tenant, { afterSequence: '3' }, { 'last-event-id': '7' });
    expect(await resumed.until(({ id }) => id === String(all.length))).toBe(true);
    resumed.close();
    expect(resumed.seen[0]?.id).toBe('8');
  });

  test('cut and resumed again and again while entries come, loses and repeats nothing', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    const run = await tenant.start('a');
    const total = 60;
    const talk = (async () => {
      for (let i = 0; i < total; i += 1)
        await tenant.report(run, { items: [{ type: 'MESSAGE', text: `m${i}` }] });
    })();
    const seen: TimelineEntry[] = [];
    const told = () => seen.filter(({ type }) => type === 'MESSAGE').length;
    while (told() < total) {
      const stream = await open(tenant, {}, { 'last-event-id': seen.at(-1)?.sequence ?? '0' });
      await stream.until(() => stream.seen.length >= 7 || told() + stream.seen.length >= total);
      stream.close();
      seen.push(...stream.seen.map(({ data }) => data));
    }
    await talk;
    expect(seen).toEqual((await tenant.timeline('a')).slice(0, seen.length));
    expect(told()).toBe(total);
  });

  test('several clients get the same', async () => {
    const tenant = await talkative(5);
    const streams = await Promise.all([1, 2, 3, 4].map(() => open(tenant)));
    await tenant.queue('a', { followUpId: 'signal', description: 'x' });
    for (const stream of streams) {
      expect(await stream.until(({ data }) => data.followUpId === 'signal')).toBe(true);
      stream.close();
    }
    const [first, ...others] = streams.map((stream) => JSON.stringify(stream.seen.map(({ id }) => id)));
    for (const other of others) expect(other).toBe(first);
  });

  test('includes what timers do', async () => {
    const tenant = await newTestTenant(api);
    await tenant.rested('a');
    const stream = await open(tenant);
    await tenant.queue('a', { followUpId: 'timed', description: 'x', deliverAt: inMs(400) });
    expect(
      await stream.until(({ data }) => data.type === 'FOLLOW_UP_QUEUED' && data.followUpId === 'timed'),
    ).toBe(true);
    stream.close();
  });

  test('is refused like the timeline, as JSON', async () => {
    const tenant = await talkative(1);
    expectError(await tenant.send('agent/timeline/stream', 'nobody'), 'NOT_FOUND');
    expectError(
      await tenant.send('agent/timeline/stream', 'a', { afterSequence: 'x' }),
      'INVALID_ARGUMENT',
      'afterSequence',
    );
    expectError(
      await api.post('/v1/agent/timeline/stream', { agentId: tenant.id('a') }, { 'last-event-id': 'x' }),
      'INVALID_ARGUMENT',
    );
  });

  test('a client that disconnects before its stream has started leaves nothing open', async () => {
    const own = await startServer({ runner: false });
    const tenant = await newTestTenant(apiOf(own));
    await tenant.spawn('a');
    const headers = { authorization: `Bearer ${own.key}`, 'content-type': 'application/json' };
    const leave = (path: string) =>
      new Promise<void>((resolve) => {
        const asked = request(`${own.url}${path}`, { method: 'POST', headers, agent: false });
        asked.on('error', () => resolve());
        asked.on('finish', () => asked.destroy());
        asked.end(JSON.stringify({ agentId: tenant.id('a') }));
      });
    const paths = ['/v1/agent/timeline/stream', '/v1/agents/stream', '/v1/agent/wait'];
    for (let round = 0; round < 20; round += 1) await Promise.all(paths.map(leave));
    await until(
      'nothing open',
      async () => (await (await fetch(`${own.url}/metrics`)).text()).match(/^muster_long_replies_open.*$/gm),
      (open) => open?.every((line) => line.endsWith(' 0')) ?? false,
    );
    await own.close();
  });

  test('a revoked key ends its streams', async () => {
    const tenant = await talkative(1);
    const name = `revoked-${randomUUID().slice(0, 8)}`;
    const viewer = await apiWithNewKey(api, { role: 'viewer' }, name);
    const stream = await open(tenant, {}, {}, viewer);
    expect(await stream.until(({ data }) => data.text === 'message 0')).toBe(true);
    await api.del(`/v1/catalog/token/${name}`);
    const ended = await stream.text().then(
      () => 'ended',
      () => 'cut',
    );
    expect(ended).toMatch(/ended|cut/);
  });
});

describe('runs', () => {
  test('lists an agent’s runs, newest first, page by page', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    for (let i = 1; i <= 5; i += 1) {
      const run = await tenant.start('a');
      await tenant.report(run, {
        usage: { inputTokens: i, cachedInputTokens: 1, outputTokens: 2, costUsd: 0.5 },
      });
      await tenant.end(run);
      await tenant.queue('a', { followUpId: `f${i}`, description: 'x' });
    }
    const runs = await tenant.runs('a');
    expect(runs.map(({ runId }) => runId)).toEqual(['5', '4', '3', '2', '1']);
    expect(runs[0]).toEqual({
      runId: '5',
      state: 'ENDED',
      outcome: 'COMPLETED',
      startedAt: expect.any(String),
      endedAt: expect.any(String),
      runnerId: expect.stringMatching(/./),
      followUpIds: ['f4'],
      batch: '5',
      cost: 0.5,
      inputTokens: '5',
      cachedInputTokens: '1',
      outputTokens: '2',
      response: '',
      truncated: false,
      structuredOutput: null,
      error: null,
    });
    for (const run of runs) expect(schemaProblem(runSchema, run)).toBeUndefined();
    const some = await tenant.send<{ runs: Run[]; more: boolean }>('agent/runs', 'a', { limit: 2 });
    expect(some.body.more).toBe(true);
    expect(some.body.runs.map(({ runId }) => runId)).toEqual(['5', '4']);
    const more = await tenant.send<{ runs: Run[] }>('agent/runs', 'a', { beforeRunId: '4', limit: 2 });
    expect(more.body.runs.map(({ runId }) => runId)).toEqual(['3', '2']);
    for (const limit of [0, 1001]) {
      expectError(await tenant.send('agent/runs', 'a', { limit }), 'INVALID_ARGUMENT', 'limit');
    }
  });

  test('is empty before the first', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    expect(await tenant.runs('a')).toEqual([]);
  });
});
