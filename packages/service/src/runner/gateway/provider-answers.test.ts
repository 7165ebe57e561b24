import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import {
  ask,
  ended,
  eventStream,
  get,
  messages,
  openai,
  started,
  stream,
  testGateway,
} from '../../../../../test/support/test-gateway.ts';
import type { OpenEndpoint } from './gateway.ts';

const { upstream, usages, items, actions, open } = testGateway();

describe('a stream', () => {
  it('is forwarded as it arrives: its first event before its last is sent', async () => {
    let finish = () => {};
    upstream.answer = (_request, response) => {
      response.writeHead(200, eventStream).write(stream(started('claude-opus-4-8')));
      finish = () => response.end(stream(...ended));
    };
    const endpoint = await open();
    const response = await ask(endpoint, '/anthropic/v1/messages');
    const reader = response.body?.getReader();
    const first = await reader?.read();
    expect(Buffer.from(first?.value ?? []).toString()).toContain('message_start');
    expect(usages).toEqual([]);
    finish();
    let last = '';
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      last += Buffer.from(part.value).toString();
    }
    expect(last).toContain('message_stop');
    const used = {
      inputTokens: 1_000,
      cachedInputTokens: 900,
      outputTokens: 1_000,
      costUsd: expect.closeTo(0.02595),
    };
    const account = 'anthropic/default';
    const part = { ...used, model: 'claude-opus-4-8', account, unpricedTokens: 0, estimated: false };
    expect(usages).toEqual([{ ...used, parts: [part] }]);
  });

  it('of openai is metered too', async () => {
    const usage = { input_tokens: 1_000, input_tokens_details: { cached_tokens: 400 }, output_tokens: 10 };
    const completed = {
      type: 'response.completed',
      response: { model: 'gpt-5.5', service_tier: 'default', usage },
    };
    upstream.answer = (_request, response) => response.writeHead(200, eventStream).end(stream(completed));
    await (await ask(await open({ provider: openai }), '/openai/v1/responses')).text();
    expect(usages).toMatchObject([
      { inputTokens: 1_000, cachedInputTokens: 400, outputTokens: 10, costUsd: expect.closeTo(0.0035) },
    ]);
  });

  it('whose client disconnects is ended at the provider, and its usage is reported once', async () => {
    const gone = new Promise<void>((resolve) => {
      upstream.answer = (_request, response) => {
        response.writeHead(200, eventStream).write(stream(started('claude-opus-4-8')));
        response.once('close', resolve);
      };
    });
    const client = new AbortController();
    const response = await ask(await open(), '/anthropic/v1/messages', { signal: client.signal });
    await response.body?.getReader().read();
    client.abort();
    await gone;
    await eventually(() => expect(usages).toHaveLength(1));
    expect(usages[0]).toMatchObject({ inputTokens: 1_000, outputTokens: 1 });
  });

  it('that the provider ends early ends here too', async () => {
    upstream.answer = (_request, response) => {
      response
        .writeHead(200, eventStream)
        .write(stream(started('claude-opus-4-8')), () => response.destroy());
    };
    const response = await ask(await open(), '/anthropic/v1/messages');
    await expect(response.text()).rejects.toThrow();
    expect(usages).toHaveLength(1);
  });

  it('that stalls is ended on both sides, with a warning', async () => {
    const gone = new Promise<void>((resolve) => {
      upstream.answer = (_request, response) => {
        response.writeHead(200, eventStream).write(stream(started('claude-opus-4-8')));
        response.once('close', resolve);
      };
    });
    const response = await ask(await open({}, { limits: { stallMs: 2_000 } }), '/anthropic/v1/messages');
    await expect(response.text()).rejects.toThrow();
    await gone;
    expect(items.map((item) => item.type)).toEqual(['WARNING']);
    expect(items[0]?.text).toContain('anthropic sent nothing for 2 s');
    expect(usages).toHaveLength(1);
  });

  it('that never begins is ended too', async () => {
    upstream.answer = () => {};
    await expect(
      ask(await open({ provider: openai }, { limits: { stallMs: 50 } }), '/openai/v1/responses'),
    ).rejects.toThrow();
    expect(items).toHaveLength(1);
  });
});

describe('a model without a price', () => {
  it('costs nothing, with one warning', async () => {
    upstream.answer = (_request, response) =>
      response.writeHead(200, eventStream).end(stream(started('claude-next'), ...ended));
    const endpoint = await open();
    for (let request = 0; request < 3; request++)
      await (await ask(endpoint, '/anthropic/v1/messages')).text();
    expect(usages).toHaveLength(3);
    expect(usages[0]).toMatchObject({ outputTokens: 1_000, costUsd: 0 });
    expect(items).toEqual([
      expect.objectContaining({ type: 'WARNING', text: expect.stringMatching(/claude-next.*MUSTER_PRICES/) }),
    ]);
  });
});

describe('a provider that refuses', () => {
  const limited = { type: 'error', error: { type: 'rate_limit_error', message: 'too many' } };
  const limit = (response: ServerResponse, seconds: number) =>
    response
      .writeHead(429, { 'content-type': 'application/json', 'retry-after': String(seconds) })
      .end(JSON.stringify(limited));

  it('for long: the harness gets the answer, and the run learns until when', async () => {
    upstream.answer = (_request, response) => limit(response, 61);
    const endpoint = await open();
    const response = await ask(endpoint, '/anthropic/v1/messages');
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toBe('61');
    expect(await response.json()).toEqual(limited);
    const failure = await endpoint.failure;
    expect(failure).toMatchObject({ type: 'limit', until: expect.any(Date) });
    expect(failure.message).toBe('anthropic answered 429 (rate_limit_error: too many)');
  });

  it('for a short time: the gateway retries, and the harness gets only the last answer', async () => {
    upstream.answer = (_request, response) =>
      upstream.seen.length < 3 ? limit(response, 1) : response.end('{"content":[]}');
    const endpoint = await open();
    const response = await ask(endpoint, '/anthropic/v1/messages');
    expect([response.status, await response.text()]).toEqual([200, '{"content":[]}']);
    expect(upstream.seen.map(({ body }) => body)).toEqual(Array(3).fill(JSON.stringify(messages)));
    expect(actions).toContain('Rate limited by anthropic: retrying in 1 s');
    expect(actions.at(-1)).toBe('Waiting for the model');
    expect(items[0]?.text).toBe(
      'anthropic answered 429 (rate_limit_error: too many). The gateway retries in 1 s.',
    );
  });

  it('several times for a short time: the gateway waits only so long in total', async () => {
    upstream.answer = (_request, response) => limit(response, 1);
    const endpoint = await open({}, { limits: { limitWaitMs: 1_500 } });
    expect((await ask(endpoint, '/anthropic/v1/messages')).status).toBe(429);
    expect(upstream.seen).toHaveLength(2);
    expect(await endpoint.failure).toMatchObject({ type: 'limit' });
  });

  it.each([
    ['the harness gives up', (_: OpenEndpoint, client: AbortController) => client.abort()],
    ['the endpoint closes', (endpoint: OpenEndpoint) => endpoint.close()],
  ])('for a short time: the wait ends when %s', async (_, end) => {
    upstream.answer = (_request, response) => limit(response, 30);
    const endpoint = await open();
    const client = new AbortController();
    const asked = ask(endpoint, '/anthropic/v1/messages', { signal: client.signal });
    await eventually(() => expect(actions).toContain('Rate limited by anthropic: retrying in 30 s'));
    await Promise.all([end(endpoint, client), expect(asked).rejects.toThrow()]);
    await endpoint.close();
    expect(upstream.seen).toHaveLength(1);
  });

  it('in an event of a stream', async () => {
    const failed = {
      type: 'response.failed',
      response: { error: { code: 'rate_limit_exceeded', message: 'slow' } },
    };
    upstream.answer = (_request, response) => response.writeHead(200, eventStream).end(stream(failed));
    const endpoint = await open({ provider: openai });
    await (await ask(endpoint, '/openai/v1/responses')).text();
    expect(await endpoint.failure).toMatchObject({ type: 'limit' });
  });

  it('the key: the run learns what the operator has to fix, and where', async () => {
    upstream.answer = (_request, response) =>
      response.writeHead(401).end(JSON.stringify({ error: { type: 'authentication_error', message: 'no' } }));
    const endpoint = await open({}, { runnerName: 'north' });
    await (await ask(endpoint, '/anthropic/v1/messages')).text();
    const failure = await endpoint.failure;
    expect(failure.type).toBe('refused');
    expect(failure.message).toContain('ANTHROPIC_API_KEY of the runner north');
    const again = await ask(endpoint, '/anthropic/v1/messages');
    expect([again.status, await again.text()]).toEqual([
      401,
      expect.stringContaining('authentication_error'),
    ]);
    expect(upstream.seen).toHaveLength(1);
  });

  it('a call that no model answers: the run continues', async () => {
    const endpoint = await open({ provider: openai });
    upstream.answer = (request, response) =>
      response.writeHead(request.method === 'GET' ? 403 : 401).end('{}');
    expect((await get(endpoint, '/openai/v1/models')).status).toBe(403);
    expect((await ask(endpoint, '/openai/v1/responses')).status).toBe(401);
    expect((await endpoint.failure).message).toContain('openai answered 401');
  });
});
