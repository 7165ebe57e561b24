import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import type { TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { apiWithNewKey } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { openStream } from '../support/streams.ts';
import { inMs, newTalkativeTenant, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

type Fields = Record<string, unknown>;

const talkative = (count: number) => newTalkativeTenant(api, count);

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
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    const headers = { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' };
    const leave = (path: string) =>
      new Promise<void>((resolve) => {
        const asked = request(`${server.url}${path}`, { method: 'POST', headers, agent: false });
        asked.on('error', () => resolve());
        asked.on('finish', () => asked.destroy());
        asked.end(JSON.stringify({ agentId: tenant.id('a') }));
      });
    const paths = ['/v1/agent/timeline/stream', '/v1/agents/stream', '/v1/agent/wait'];
    for (let round = 0; round < 20; round += 1) await Promise.all(paths.map(leave));
    await until(
      'nothing open',
      async () =>
        (await (await fetch(`${server.url}/metrics`)).text()).match(/^muster_long_replies_open.*$/gm),
      (open) => open?.every((line) => line.endsWith(' 0')) ?? false,
    );
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
