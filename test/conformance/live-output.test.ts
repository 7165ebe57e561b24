import type { PollReply, TimelineEntry, TimelinePartial } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { accepted } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { newFakeRunner } from '../support/fake-runner.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { type EventStream, openRequest, openStream, type ServerSentEvent } from '../support/streams.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

type Streamed = Omit<TimelineEntry, 'type'> & Omit<TimelinePartial, 'type'> & { readonly type: string };

const path = '/v1/agent/timeline/stream';
const open = (tenant: TestTenant, name = 'a') =>
  openStream<Streamed>(api, path, { agentId: tenant.id(name) });
const partialsOf = ({ seen }: EventStream<Streamed>) => seen.filter(({ type }) => type === 'partial');
const has =
  (text: string) =>
  ({ data }: ServerSentEvent<Streamed>): boolean =>
    data.text === text;

/** An agent that runs, and an open stream of it that its runner knows of. */
async function watched() {
  const tenant = await newTestTenant(api);
  await tenant.spawn('a');
  const run = await tenant.start('a');
  const stream = await open(tenant);
  const since = await tenant.runner.watched(run);
  return { tenant, run, stream, since, runner: tenant.runner };
}

describe('partials', () => {
  test('reach open streams without an id before the entry that has the whole text', async () => {
    const { tenant, run, stream, runner } = await watched();
    const byGet = openRequest(api, `${path}?agent=a&workspace=${tenant.workspace}`, undefined);
    await byGet.opened;
    expectOk(await runner.say(run, 'Good '));
    expectOk(await runner.say(run, 'morning', { offset: 5 }));
    expect(await stream.until(has('morning'))).toBe(true);
    await until(
      'the partial by GET',
      async () => byGet.text(),
      (text) => text.includes('morning'),
    );
    byGet.abort();
    await tenant.report(run, { items: [{ type: 'MESSAGE', text: 'Good morning', data: { key: 'k' } }] });
    expect(await stream.until(has('Good morning'))).toBe(true);
    stream.close();
    expect(partialsOf(stream)).toEqual([
      { id: '', type: 'partial', data: { runId: '1', key: 'k', type: 'MESSAGE', offset: 0, text: 'Good ' } },
      {
        id: '',
        type: 'partial',
        data: { runId: '1', key: 'k', type: 'MESSAGE', offset: 5, text: 'morning' },
      },
    ]);
    expect(stream.seen.at(-1)?.data).toMatchObject({ type: 'MESSAGE', data: { key: 'k' } });
    expect(byGet.text()).toContain('event: partial\ndata: {');
    const stored = await tenant.timeline('a');
    expect(stored.map(({ text }) => text)).not.toContain('morning');
  });

  test('are asked of a runner only while its agent runs and is watched, and again for each new reader', async () => {
    const tenant = await newTestTenant(api);
    await tenant.spawn('a');
    const run = await tenant.start('a');
    expect(accepted('poll', await tenant.runner.poll()).watched).toEqual([]);
    const polling = tenant.runner.poll({ waitMs: 15_000, watched: [] });
    const stream = await open(tenant);
    const [first] = accepted<PollReply>('poll', await polling).watched;
    expect(first?.agentKey).toBe(run.agentKey);
    const again = await open(tenant);
    expect(await tenant.runner.watched(run, first?.since)).toBeGreaterThan(first?.since ?? 0);
    await tenant.end(run);
    expect(await stream.until(({ data }) => data.type === 'RUN_ENDED')).toBe(true);
    expect(accepted('poll', await tenant.runner.poll()).watched).toEqual([]);
    // A stream that is open when the next run begins watches it, too.
    await tenant.queue('a', { followUpId: 'next', description: 'x' });
    const next = await tenant.start('a');
    await tenant.runner.watched(next);
    await tenant.runner.say(next, 'second run');
    expect(await stream.until(has('second run'))).toBe(true);
    for (const each of [stream, again]) each.close();
  });

  test('are dropped unless they are of a live run of this runner', async () => {
    const { tenant, run, stream, runner } = await watched();
    const other = await newFakeRunner(api, tenant.workspace);
    await other.poll({ free: { real: 0, rehearsed: 0 } });
    expectOk(await other.say(run, 'of another runner'));
    expectOk(await runner.say({ ...run, runId: 2 }, 'of a later run'));
    expectOk(await runner.say(run, 'of this run'));
    expect(await stream.until(has('of this run'))).toBe(true);
    await tenant.end(run);
    expect(await stream.until(({ data }) => data.type === 'RUN_ENDED')).toBe(true);
    expectOk(await runner.say(run, 'too late'));
    await tenant.queue('a', { followUpId: 'last', description: 'x' });
    expect(await stream.until(({ data }) => data.followUpId === 'last')).toBe(true);
    stream.close();
    expect(partialsOf(stream).map(({ data }) => data.text)).toEqual(['of this run']);
  });

  test('reach only the streams of their agent', async () => {
    const here = await watched();
    const there = await watched();
    await here.runner.say(here.run, 'here');
    expectOk(await there.runner.say(here.run, 'from there'));
    await there.runner.say(there.run, 'there');
    expect(await there.stream.until(has('there'))).toBe(true);
    await here.runner.say(here.run, 'here again');
    expect(await here.stream.until(has('here again'))).toBe(true);
    for (const { stream } of [here, there]) stream.close();
    expect(partialsOf(here.stream).map(({ data }) => data.text)).toEqual(['here', 'here again']);
    expect(partialsOf(there.stream).map(({ data }) => data.text)).toEqual(['there']);
  });

  test('that come too fast are dropped, and entries are not', async () => {
    const { tenant, run, stream, runner } = await watched();
    const one = {
      agentKey: run.agentKey,
      runId: run.runId,
      key: 'k',
      type: 'MESSAGE',
      text: 'x'.repeat(2000),
    };
    const partials = Array.from({ length: 100 }, (_, i) => ({ ...one, offset: i * 2000 }));
    const flood = { runnerId: runner.runnerId, partials };
    expectOk(await api.as(runner.key).post('/v1/runner/partials', flood));
    await tenant.report(run, { items: [{ type: 'MESSAGE', text: 'after the flood' }] });
    expect(await stream.until(has('after the flood'))).toBe(true);
    stream.close();
    expect(partialsOf(stream).length).toBeGreaterThan(0);
    expect(partialsOf(stream).length).toBeLessThan(20);
  });

  test('are checked', async () => {
    const { run, stream, runner } = await watched();
    stream.close();
    expectError(await runner.say(run, 'x'.repeat(2001)), 'INVALID_ARGUMENT', 'partials[0].text');
    expectError(await runner.say(run, 'x', { key: '' }), 'INVALID_ARGUMENT', 'partials[0].key');
    expectError(await runner.say(run, 'x', { type: 'PUSH' }), 'INVALID_ARGUMENT', 'partials[0].type');
    expectError(await runner.say(run, 'x', { offset: -1 }), 'INVALID_ARGUMENT', 'partials[0].offset');
  });
});
