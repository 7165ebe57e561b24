import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import { FakeBudget, spent } from '../../../../../test/support/credit.ts';
import {
  ask,
  ended,
  eventStream,
  keyAccounts,
  messages,
  openai,
  started,
  stream,
  testGateway,
} from '../../../../../test/support/test-gateway.ts';
import type { OpenEndpoint } from './gateway.ts';
import { RunCredit } from './run-credit.ts';

const { upstream, usages, items, open } = testGateway();

/** 500 tokens more than the bytes, at 10 dollars; 1,000 tokens at 25 dollars. */
const limited = { ...messages, max_tokens: 1_000 };
const limitedUsd = 0.0305;
const path = '/anthropic/v1/messages';

async function within(
  amountUsd: number,
  run: Parameters<typeof open>[0] = {},
  options?: Parameters<typeof open>[1],
) {
  const budget = new FakeBudget(amountUsd);
  const endpoint = await open({ credit: new RunCredit(budget.ask), ...run }, options);
  const client = new AbortController();
  const send = (body: object = limited) =>
    ask(endpoint, path, { body: JSON.stringify(body), signal: client.signal });
  const upTo = (): number[] => budget.asked.map(({ upToUsd }) => upToUsd);
  return { budget, endpoint, client, send, upTo };
}

const costUsd = (): number => usages.reduce((sum, usage) => sum + usage.costUsd, 0);

/** Answers 1,000 tokens of input, of which 900 were cached, and as many of output: 0.02595 dollars. */
const answering = (response: ServerResponse) =>
  void response.writeHead(200, eventStream).end(stream(started('claude-opus-4-8'), ...ended));
const answeredUsd = 0.02595;

/** Answers one event, and tells when the provider is asked no more. */
function beginning(...events: { type: string }[]): Promise<void> {
  return new Promise((resolve) => {
    upstream.answer = (_request, response) => {
      response.writeHead(200, eventStream).flushHeaders();
      if (events.length > 0) response.write(stream(...events));
      response.once('close', resolve);
    };
  });
}

const failureOf = (endpoint: OpenEndpoint) => Promise.race([endpoint.failure, Promise.resolve(undefined)]);

describe('a request within a budget', () => {
  it('reserves the most it can cost before it is sent, and settles what it has cost', async () => {
    const { budget, send, upTo } = await within(10);
    budget.before = () => expect(upstream.seen.length).toBe(budget.asked.length - 1);
    upstream.answer = (_request, response) => answering(response);
    for (let i = 0; i < 3; i++) await (await send()).text();
    expect(upTo()[0]).toBeCloseTo(limitedUsd, 3);
    const [first = 0, second, third] = upTo();
    expect(second).toBeCloseTo(first + answeredUsd, 9);
    expect(third).toBeCloseTo(first + 2 * answeredUsd, 9);
  });

  it('of Codex, which names no limit, reserves what a model can write', async () => {
    const { endpoint, upTo } = await within(10, { provider: openai });
    const usage = { input_tokens: 1_000, output_tokens: 10 };
    const completed = { type: 'response.completed', response: { model: 'gpt-5.5', usage } };
    upstream.answer = (_request, response) => response.writeHead(200, eventStream).end(stream(completed));
    for (let i = 0; i < 2; i++) await (await ask(endpoint, '/openai/v1/responses')).text();
    expect(upTo()[0]).toBeCloseTo(3.84, 1);
    expect((upTo()[1] ?? 0) - (upTo()[0] ?? 0)).toBeCloseTo(0.0053, 9);
  });

  it.each([0, -1, '10', 1e6, 1e300])(
    'with max_tokens %j reserves what the model can write',
    async (limit) => {
      const { send, upTo } = await within(10);
      await send({ ...messages, max_tokens: limit });
      expect(upTo()).toEqual([expect.closeTo(3.2, 1)]);
    },
  );

  it('reserves nothing for requests that no model answers', async () => {
    const { endpoint, budget } = await within(0);
    expect((await ask(endpoint, `${path}/count_tokens`)).status).toBe(200);
    expect(budget.asked).toEqual([]);
  });
});

describe('a budget that is spent', () => {
  it('refuses the request and all later ones, and ends the run', async () => {
    const { endpoint, send, budget } = await within(0.01);
    const refused = await send();
    expect(refused.status).toBe(403);
    expect(refused.headers.get('x-should-retry')).toBe('false');
    expect(await refused.json()).toEqual({
      type: 'error',
      error: { type: 'permission_error', message: `Muster's gateway: ${spent}` },
    });
    expect(await endpoint.failure).toEqual({ type: 'budget', message: spent });
    budget.amountUsd = 100;
    expect((await send()).status).toBe(403);
    expect((await ask(endpoint, `${path}/count_tokens`)).status).toBe(403);
    expect(budget.asked).toHaveLength(1);
    expect(upstream.seen).toEqual([]);
    expect(items).toEqual([]);
  });

  it('refuses in the format of openai', async () => {
    const { endpoint } = await within(0.01, { provider: openai });
    const refused = await ask(endpoint, '/openai/v1/responses');
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ error: { message: `Muster's gateway: ${spent}` } });
  });

  it('is not exceeded by parallel requests', async () => {
    const held: ServerResponse[] = [];
    upstream.answer = (_request, response) => void held.push(response);
    const { send } = await within(3.5 * limitedUsd);
    const sent = Array.from({ length: 12 }, () => send());
    await eventually(() => expect(held).toHaveLength(3));
    for (const response of held) answering(response);
    const answers = await Promise.all(sent);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
    expect(answers.filter(({ status }) => status === 403)).toHaveLength(9);
  });

  it('refuses a model without a price, which it names', async () => {
    const { send, budget } = await within(10);
    const refused = await send({ ...limited, model: 'claude-next' });
    expect(refused.status).toBe(403);
    expect(await refused.text()).toContain('claude-next has no price');
    expect(budget.asked).toEqual([{ upToUsd: 0, unpricedModel: 'claude-next' }]);
  });

  it('pauses no account', async () => {
    const { endpoint, send } = await within(0.01);
    await send();
    const other = await within(10);
    expect((await other.send()).status).toBe(200);
    expect(endpoint.account).toBe('anthropic/default');
  });
});

describe('a request that the provider refuses', () => {
  it('costs nothing, however often it is made', async () => {
    upstream.answer = (_request, response) => response.writeHead(529).end('{}');
    const { send, upTo } = await within(1);
    for (let i = 0; i < 40; i++) expect((await send()).status).toBe(529);
    expect(upTo()).toHaveLength(1);
    expect(usages).toEqual([]);
  });

  it('is reserved once, although it is sent again after a limit', async () => {
    upstream.answer = (_request, response) => {
      if (upstream.seen.length > 1) return answering(response);
      response.writeHead(429, { 'retry-after': '0' }).end('{"error":{"type":"rate_limit_error"}}');
    };
    const { send, upTo } = await within(1);
    await (await send()).text();
    expect(upstream.seen).toHaveLength(2);
    await (await send()).text();
    expect(upTo()[1]).toBeCloseTo((upTo()[0] ?? 0) + answeredUsd, 9);
    expect(usages).toHaveLength(2);
  });

  it('costs nothing either where no provider can be reached', async () => {
    const { send, upTo } = await within(1, {}, { providers: keyAccounts('http://127.0.0.1:1') });
    for (let i = 0; i < 3; i++) expect((await send()).status).toBe(502);
    expect(upTo()).toHaveLength(1);
    expect(usages).toEqual([]);
  });
});

describe('a client that cuts off an answer', () => {
  it.each([
    [
      'after the provider has said its input',
      [started('claude-opus-4-8')],
      { inputTokens: 1_000, outputTokens: 1 },
    ],
    [
      'after some events',
      [started('claude-opus-4-8'), ...Array(30).fill({ type: 'ping' })],
      { outputTokens: 31 },
    ],
    ['before any event', [], { inputTokens: 400, outputTokens: 0 }],
  ])('%s pays for it, once', async (_when, events, usage) => {
    const gone = beginning(...events);
    const { client, send, upTo, endpoint } = await within(1);
    const response = await send();
    if (events.length > 0) await response.body?.getReader().read();
    client.abort();
    await gone;
    await eventually(() => expect(usages).toHaveLength(1));
    const known = {
      ...usage,
      ...('inputTokens' in usage && usage.inputTokens < 1_000 && { inputTokens: expect.any(Number) }),
    };
    expect(usages[0]).toMatchObject(known);
    expect(costUsd()).toBeGreaterThan(0);
    upstream.answer = (_request, answer) => answering(answer);
    await (await ask(endpoint, path, { body: JSON.stringify(limited) })).text();
    expect(upTo()[1]).toBeCloseTo((upTo()[0] ?? 0) + (usages[0]?.costUsd ?? 0), 9);
  });

  it('before it begins pays for its input', async () => {
    upstream.answer = () => {};
    const { client, send } = await within(1);
    const sent = send().catch(() => {});
    await eventually(() => expect(upstream.seen).toHaveLength(1));
    client.abort();
    await sent;
    await eventually(() => expect(usages).toHaveLength(1));
    expect(usages[0]).toMatchObject({ outputTokens: 0, parts: [{ estimated: true }] });
    expect(usages[0]?.inputTokens).toBeGreaterThan(300);
  });

  it('of openai pays for its input and about what has arrived', async () => {
    const gone = beginning(...Array(20).fill({ type: 'response.output_text.delta' }));
    const { endpoint, client } = await within(10, { provider: openai });
    const response = await ask(endpoint, '/openai/v1/responses', { signal: client.signal });
    await response.body?.getReader().read();
    client.abort();
    await gone;
    await eventually(() => expect(usages).toHaveLength(1));
    expect(usages[0]).toMatchObject({ outputTokens: 20, parts: [{ model: 'gpt-5.5', estimated: true }] });
  });

  it('again and again spends the budget', async () => {
    upstream.answer = (_request, response) => response.writeHead(200, eventStream).flushHeaders();
    const { endpoint, budget } = await within(0.1);
    let status = 200;
    for (let i = 0; i < 200 && status === 200; i++) {
      const client = new AbortController();
      ({ status } = await ask(endpoint, path, { body: JSON.stringify(limited), signal: client.signal }));
      client.abort();
    }
    expect(status).toBe(403);
    expect(budget.asked.at(-1)?.upToUsd).toBeGreaterThan(0.1);
    expect(costUsd()).toBeLessThan(0.1);
  });
});

describe('while the service does not answer', () => {
  it('a request waits and is not sent, and is given up with its client', async () => {
    const { budget, client, send, endpoint } = await within(1);
    budget.before = () => Promise.reject(new Error('away'));
    const sent = send();
    await eventually(() => expect(budget.asked.length).toBeGreaterThan(2));
    client.abort();
    await expect(sent).rejects.toThrow();
    const asked = budget.asked.length;
    expect(await failureOf(endpoint)).toBeUndefined();
    budget.before = () => {};
    expect((await ask(endpoint, path, { body: JSON.stringify(limited) })).status).toBe(200);
    expect(upstream.seen).toHaveLength(1);
    expect(budget.asked.length - asked).toBeLessThanOrEqual(2);
  });

  it('the end of the run ends the wait', async () => {
    const { budget, send, endpoint } = await within(1);
    budget.before = () => Promise.reject(new Error('away'));
    const sent = send();
    await eventually(() => expect(budget.asked.length).toBeGreaterThan(0));
    await endpoint.close();
    await expect(sent).rejects.toThrow();
    const asked = budget.asked.length;
    await eventually(() => expect(budget.asked.length).toBeLessThanOrEqual(asked + 1));
    expect(upstream.seen).toEqual([]);
  });
});
