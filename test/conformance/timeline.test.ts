import { reportedTypes, type TimelineEntry, timelineEntry } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { schemaProblem } from '../support/contract-schemas.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { openStream } from '../support/streams.ts';
import { inAnHour, newTalkativeTenant, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

type Fields = Record<string, unknown>;

const page = async (tenant: TestTenant, fields: Fields): Promise<TimelineEntry[]> => {
  const { status, body } = await tenant.send<{ entries: TimelineEntry[] }>('agent/timeline', 'a', fields);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.entries;
};

const numbers = (entries: readonly TimelineEntry[]) => entries.map(({ sequence }) => Number(sequence));
const upTo = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

const talkative = (count: number) => newTalkativeTenant(api, count);

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

  test.each(reportedTypes)('a reported %s is an entry of its run, as reported', async (type) => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    const run = await tenant.start('a');
    await tenant.report(run, {
      items: [{ type, text: 'text ✓', data: { name: 'x', nested: [1, { a: null }] } }],
    });
    expect(await tenant.timeline('a', type)).toMatchObject([
      { runId: '1', text: 'text ✓', data: { name: 'x', nested: [1, { a: null }] } },
    ]);
  });

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
