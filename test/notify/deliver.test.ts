import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { GoneError } from '../../packages/service/src/notify/channel.ts';
import { retryDelaysMs } from '../../packages/service/src/notify/deliver.ts';
import { sent } from '../../packages/service/src/store/connection.ts';
import { HostError } from '../../packages/service/src/work/host-error.ts';
import { runConcurrently, until } from '../support/async.ts';
import { DeliveryBench } from './delivery-bench.ts';

let bench: DeliveryBench;
beforeAll(async () => {
  bench = await DeliveryBench.start();
});
afterEach(() => bench.reset());
afterAll(() => bench.close());

const completed = (agent: string, at?: string) =>
  bench.happens({ tenant: 1, type: 'agent.completed', agent, data: {}, ...(at && { at }) });

describe('whom to tell', () => {
  test('an event is written only where somebody wants to know it', async () => {
    const agent = await bench.agent();
    await bench.target('paused', { paused: true });
    await bench.target('other', { tenant: 2 });
    await bench.target('failures', { events: ['agent.failed'] });
    await bench.asks(agent);
    expect((await bench.pool.query('SELECT FROM events')).rowCount).toBe(0);
    await bench.target('all');
    await bench.asks(agent);
    expect((await bench.pool.query('SELECT FROM events')).rowCount).toBe(1);
    await bench.settle();
    expect([...bench.sent.keys()]).toEqual(['all']);
  });

  test('a notification selects by workspace, account with and without its provider, and labels', async () => {
    await bench.target('web', { workspace: 'web' });
    await bench.target('ada', { account: 'ada' });
    await bench.target('provider', { account: 'codehost_oauth/ada' });
    await bench.target('wrong', { account: 'idp_oidc/ada' });
    await bench.target('team', { labels: { team: 'web' } });
    await bench.asks(await bench.agent({ workspace: 'web', account: 'bob' }));
    await bench.settle();
    expect([...bench.sent.keys()]).toEqual(['web']);
    const labelled = await bench.agent();
    await bench.pool.query('UPDATE agent_states SET labels = $2 WHERE agent = $1', [
      labelled,
      { team: 'web', x: 'y' },
    ]);
    await bench.asks(labelled);
    await bench.settle();
    expect([...bench.sent.keys()].sort()).toEqual(['ada', 'provider', 'team', 'web']);
  });

  test('what is not about an agent reaches those who want it of that workspace and account', async () => {
    await bench.target('all');
    await bench.target('web', { workspace: 'web' });
    await bench.target('ada', { account: 'codehost_oauth/ada' });
    const data = { name: 'nightly', text: 'It failed ten times.' };
    await bench.happens(
      { tenant: 1, type: 'schedule.paused', account: 'codehost_oauth/ada', data },
      { tenant: 1, type: 'budget.spent', workspace: 'web', data: { name: 'web', text: 'No money.' } },
    );
    await bench.settle();
    expect(bench.titles('ada')).toEqual(['Schedule nightly is paused']);
    expect(bench.titles('web')).toEqual(['Budget web is spent']);
    expect(bench.titles('all')).toEqual(['Schedule nightly is paused', 'Budget web is spent']);
    expect(bench.sent.get('web')?.[0]).toMatchObject({
      text: 'No money.',
      url: 'http://m/catalog/budget/web',
    });
  });

  test('values of secrets are masked', async () => {
    await bench.target('all');
    await bench.asks(await bench.agent());
    await bench.happens({
      tenant: 1,
      type: 'runner.lost',
      data: { name: 'a-secret-value', text: 'a-secret-value' },
    });
    await bench.settle();
    expect(bench.sent.get('all')).toHaveLength(2);
    expect(JSON.stringify(bench.sent.get('all'))).not.toContain('a-secret-value');
  });
});

describe('what has passed', () => {
  test('a question that was answered before it was sent is dropped, and says so', async () => {
    const agent = await bench.agent();
    await bench.target('all');
    await bench.asks(agent);
    await bench.answered(agent);
    await bench.settle();
    expect(bench.sent.size).toBe(0);
    expect(await bench.rows()).toMatchObject([
      { state: 'DROPPED', error: 'the agent went on before it was sent' },
    ]);
  });

  test('a question waits for a while before it is sent', async () => {
    bench.settleMs = 10_000;
    const [answered, open] = [await bench.agent(), await bench.agent()];
    await bench.target('all');
    await bench.asks(answered);
    await bench.asks(open);
    await bench.settle();
    expect(await bench.rows()).toMatchObject([{ state: 'QUEUED' }, { state: 'QUEUED' }]);
    await bench.answered(answered);
    await bench.later('11 seconds');
    await bench.settle();
    expect(await bench.rows()).toMatchObject([{ state: 'DROPPED' }, { state: 'SENT' }]);
  });

  test('a question that is asked again is another one: the first is dropped, the second is sent', async () => {
    const agent = await bench.agent({ since: new Date(Date.now() - 60_000).toISOString() });
    await bench.target('all');
    await bench.asks(agent);
    await bench.pool.query("UPDATE agents SET since = since + interval '1 second' WHERE id = $1", [agent]);
    await bench.asks(agent);
    await bench.settle();
    expect(await bench.rows()).toMatchObject([{ state: 'DROPPED' }, { state: 'SENT' }]);
  });

  test('a question that could not be sent is dropped at the next attempt if it was answered', async () => {
    const agent = await bench.agent();
    await bench.target('all');
    await bench.asks(agent);
    bench.play = () => {
      throw new HostError('unknown', 500, 'it answered 500');
    };
    await bench.settle();
    bench.play = () => {};
    await bench.answered(agent);
    await bench.later('10 seconds');
    await bench.settle();
    expect(await bench.rows()).toMatchObject([{ state: 'DROPPED', attempts: 1 }]);
  });

  test('what an agent has completed is sent, whatever it does now', async () => {
    const agent = await bench.agent();
    await bench.target('all');
    await completed(agent);
    await bench.answered(agent);
    await bench.settle();
    expect(await bench.rows()).toMatchObject([{ state: 'SENT' }]);
  });
});

describe('attempts', () => {
  test('a failure is tried again after the times of Standard Webhooks, with the same id, and then given up', async () => {
    const agent = await bench.agent();
    await bench.target('all');
    await completed(agent);
    const ids = new Set<string>();
    bench.play = (_, { id }) => {
      ids.add(id);
      throw new HostError('unknown', 503, 'it answered 503');
    };
    for (const [attempt, delayMs] of [...retryDelaysMs, 0].entries()) {
      await bench.settle();
      const [row] = (
        await bench.pool.query<{ attempts: number; wait: number }>(
          'SELECT attempts, extract(epoch FROM next_at - now())::float8 * 1000 AS wait FROM notification_deliveries',
        )
      ).rows;
      expect(row?.attempts).toBe(attempt + 1);
      if (delayMs === 0) break;
      expect(row?.wait).toBeGreaterThan(delayMs * 0.7);
      expect(row?.wait).toBeLessThan(delayMs * 1.3);
      await bench.later(`${delayMs * 1.3} milliseconds`);
    }
    expect(await bench.rows()).toMatchObject([{ state: 'FAILED', error: 'it answered 503' }]);
    expect(ids.size).toBe(1);
  });

  test('a target that asks to wait gets no attempt before', async () => {
    await bench.target('all');
    await completed(await bench.agent());
    bench.play = () => {
      throw new HostError('limited', 429, 'wait', 3_600_000);
    };
    await bench.settle();
    const [row] = (
      await bench.pool.query(
        "SELECT next_at > now() + interval '59 minutes' AS waits FROM notification_deliveries",
      )
    ).rows;
    expect(row).toEqual({ waits: true });
  });

  test('what is refused fails, and the next message is sent', async () => {
    await bench.target('all');
    const [one, other] = [await bench.agent(), await bench.agent()];
    await completed(one);
    await completed(other);
    let calls = 0;
    bench.play = () => {
      calls += 1;
      if (calls === 1) throw new HostError('refused', 302, 'redirects are not followed');
    };
    await bench.settle();
    expect(await bench.rows()).toMatchObject([
      { state: 'FAILED', error: 'redirects are not followed', attempts: 1 },
      { state: 'SENT' },
    ]);
  });

  test('a target that is gone is ended', async () => {
    await bench.target('all');
    await completed(await bench.agent());
    bench.play = () => {
      throw new GoneError('it answered 410');
    };
    await bench.settle();
    expect(bench.ended).toEqual(['all: it answered 410']);
    expect(await bench.rows()).toMatchObject([{ state: 'FAILED', error: 'it answered 410' }]);
  });

  test('what waits for a target that is paused is dropped', async () => {
    bench.settleMs = 10_000;
    await bench.target('all');
    await bench.asks(await bench.agent());
    await bench.settle();
    await bench.target('all', { paused: true });
    await bench.settle();
    expect(await bench.rows()).toMatchObject([{ state: 'DROPPED', error: 'the notification is paused' }]);
  });
});

describe('order', () => {
  test('messages about one agent keep their order, behind one that is tried again; others do not wait for it', async () => {
    await bench.target('all');
    const [one, other] = [await bench.agent(), await bench.agent()];
    let isDown = true;
    const attempts: string[] = [];
    bench.play = (_, { agent, text }) => {
      attempts.push(text);
      if (isDown && agent?.key === one) throw new HostError('unknown', 500, 'no');
    };
    await bench.happens({ tenant: 1, type: 'agent.failed', agent: one, data: { text: 'first' } });
    await bench.settle();
    await bench.happens({ tenant: 1, type: 'agent.completed', agent: one, data: { text: 'second' } });
    await bench.happens({ tenant: 1, type: 'agent.completed', agent: other, data: { text: 'other' } });
    await bench.settle();
    expect(attempts).toEqual(['first', 'other']);
    expect(bench.sent.get('all')?.map(({ text }) => text)).toEqual(['other']);
    isDown = false;
    await bench.later('10 seconds');
    await bench.settle();
    expect(bench.sent.get('all')?.map(({ text }) => text)).toEqual(['other', 'first', 'second']);
  });

  test('two nodes send one message at a time to a target', async () => {
    await bench.target('all');
    const agents = await runConcurrently(6, 1, () => bench.agent());
    for (const agent of agents) await completed(agent);
    let open = 0;
    let most = 0;
    bench.play = async () => {
      open += 1;
      most = Math.max(most, open);
      await new Promise((resolve) => setImmediate(resolve));
      open -= 1;
    };
    await Promise.all([bench.settle(), bench.settle()]);
    expect(bench.sent.get('all')?.map(({ agent }) => agent?.key)).toEqual(agents);
    expect(most).toBe(1);
  });
});

describe('digests', () => {
  test('more messages than a target may get in a minute become one digest', async () => {
    await bench.target('all');
    const agents = await runConcurrently(12, 1, () => bench.agent());
    for (const agent of agents) await bench.asks(agent);
    await bench.settle();
    expect(bench.titles('all')).toEqual(['12 agents need input']);
    expect(bench.sent.get('all')?.[0]?.digest).toMatchObject({
      total: 12,
      counts: [['agent.needs_input', 12]],
    });
    expect((await bench.rows()).every(({ state }) => state === 'SENT')).toBe(true);
  });

  test('after ten messages, the next two wait for nobody, and those after them for the next minute', async () => {
    await bench.target('all');
    for (let i = 0; i < 10; i += 1) await completed(await bench.agent());
    await bench.settle();
    expect(bench.titles('all')).toHaveLength(10);
    await completed(await bench.agent());
    await completed(await bench.agent());
    await bench.settle();
    expect(bench.titles('all').slice(10)).toEqual(['2 agents have finished']);
    for (let i = 0; i < 5; i += 1) await completed(await bench.agent());
    await bench.settle();
    expect(bench.titles('all')).toHaveLength(11);
    await bench.later('50 seconds');
    await bench.settle();
    expect(bench.titles('all')).toHaveLength(11);
    await bench.later('15 seconds');
    await bench.settle();
    expect(bench.titles('all').slice(11)).toHaveLength(5);
  });

  test('what has passed is left out of a digest, also when it is tried again', async () => {
    await bench.target('all');
    const agents = await runConcurrently(12, 1, () => bench.agent());
    for (const agent of agents) await bench.asks(agent);
    let isDown = true;
    bench.play = () => {
      if (isDown) throw new HostError('unknown', 500, 'no');
    };
    await bench.settle();
    isDown = false;
    for (const agent of agents.slice(0, 9)) await bench.answered(agent);
    await bench.later('10 seconds');
    await bench.settle();
    expect(bench.titles('all')).toEqual(['3 agents need input']);
    const states = (await bench.rows()).map(({ type, state }) => `${type} ${state}`);
    expect(states.filter((one) => one === 'agent.needs_input DROPPED')).toHaveLength(9);
    expect(states.filter((one) => one === 'agent.needs_input SENT')).toHaveLength(3);
    expect(states.at(-1)).toBe('digest SENT');
  });

  test('a digest of which everything has passed is dropped', async () => {
    await bench.target('all');
    const agents = await runConcurrently(12, 1, () => bench.agent());
    for (const agent of agents) await bench.asks(agent);
    bench.play = () => {
      throw new HostError('unknown', 500, 'no');
    };
    await bench.settle();
    for (const agent of agents) await bench.answered(agent);
    await bench.later('10 seconds');
    await bench.settle();
    expect((await bench.rows()).at(-1)).toMatchObject({ type: 'digest', state: 'DROPPED' });
  });

  test('5,000 agents that need input at the same time are two digests', async () => {
    await bench.target('all');
    await bench.manyAsk(5_000);
    const before = sent.statements;
    await bench.settle();
    await bench.later('61 seconds');
    await bench.settle();
    const messages = bench.sent.get('all') ?? [];
    expect(messages.reduce((sum, { digest }) => sum + (digest?.total ?? 1), 0)).toBe(5_000);
    expect(messages.length).toBeLessThan(5);
    expect(messages.at(-1)?.digest?.messages).toHaveLength(20);
    expect((await bench.rows()).every(({ state }) => state === 'SENT')).toBe(true);
    expect(sent.statements - before).toBeLessThan(2_000);
  });
});

test('a target that does not answer delays neither another tenant nor another target of its tenant', async () => {
  await bench.target('hangs');
  await bench.target('answers');
  await bench.target('other', { tenant: 2 });
  for (let i = 0; i < 5; i += 1) await completed(await bench.agent());
  const agent = await bench.agent({ tenant: 2 });
  await bench.happens({ tenant: 2, type: 'agent.completed', agent, data: {} });
  let release = () => {};
  const hanging = new Promise<void>((resolve) => {
    release = resolve;
  });
  bench.play = ({ name }) => (name === 'hangs' ? hanging : undefined);
  const settled = bench.settle();
  await until(
    'the others',
    async () => [bench.titles('answers').length, bench.titles('other').length].join(),
    (seen) => seen === '5,1',
  );
  expect(bench.titles('hangs')).toEqual([]);
  release();
  await settled;
  expect(bench.titles('hangs')).toHaveLength(5);
});

describe('quiet hours', () => {
  const around = (nowMs: number) => {
    const time = (ms: number) => new Date(ms).toISOString().slice(11, 16);
    return { from: time(nowMs - 3_600_000), to: time(nowMs + 3_600_000) };
  };

  test('nothing is sent in them, and one digest has it all afterwards', async () => {
    await bench.target('all', { settings: { quietHours: around(Date.now()) } });
    for (let i = 0; i < 3; i += 1) await completed(await bench.agent());
    await bench.settle();
    expect(bench.sent.size).toBe(0);
    await bench.target('all');
    await bench.settle();
    expect(bench.titles('all')).toEqual(['3 agents have finished']);
  });

  test('what was answered in them is not sent', async () => {
    await bench.target('all', { settings: { quietHours: around(Date.now()) } });
    const agent = await bench.agent();
    await bench.asks(agent);
    await bench.settle();
    await bench.answered(agent);
    await bench.target('all');
    await bench.settle();
    expect(bench.sent.size).toBe(0);
    expect(await bench.rows()).toMatchObject([{ state: 'DROPPED' }]);
  });
});
