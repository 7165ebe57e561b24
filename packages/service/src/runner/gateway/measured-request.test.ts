import { expect, test } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import { ask, keyAccounts, messages, testGateway } from '../../../../../test/support/test-gateway.ts';

const { upstream, observed, open } = testGateway();
const body = JSON.stringify(messages);
const send = async (endpoint: Parameters<typeof ask>[0]) =>
  (await ask(endpoint, '/anthropic/v1/messages', { body })).text();

const about = { what: 'request', provider: 'anthropic', model: 'claude-opus' };
const duration = expect.any(Number);

test('a request that succeeds is measured with its first byte, tokens and cost', async () => {
  const usage = { input_tokens: 1_000, output_tokens: 200 };
  upstream.answer = (_request, response) =>
    response
      .setHeader('content-type', 'application/json')
      .end(JSON.stringify({ type: 'message', model: messages.model, usage }));
  await send(await open());
  await eventually(() =>
    expect(observed).toEqual([
      {
        ...{ ...about, outcome: 'ok', seconds: duration, firstByteSeconds: duration },
        ...{ inputTokens: 1_000, cachedInputTokens: 0, outputTokens: 200, costUsd: 0.01 },
      },
    ]),
  );
});

test.each([
  [401, 'key_refused'],
  [403, 'key_refused'],
  [400, 'refused'],
  [529, 'provider_error'],
])('a request that the provider answers with %d is counted as %s', async (status, outcome) => {
  upstream.answer = (_request, response) => response.writeHead(status).end('{"error":{"type":"x"}}');
  await send(await open());
  await eventually(() => expect(observed).toEqual([{ ...about, outcome, seconds: duration }]));
});

test('an unreachable provider is counted', async () => {
  await send(await open({}, { providers: keyAccounts('http://127.0.0.1:1') }));
  await eventually(() => expect(observed).toEqual([{ ...about, outcome: 'unreachable', seconds: duration }]));
});

test('a wait for a rate limit is measured, and so are both requests', async () => {
  upstream.answer = (_request, response) => {
    if (upstream.seen.length === 1) response.writeHead(429, { 'retry-after': '1' }).end('{}');
    else response.end('{}');
  };
  await send(await open());
  await eventually(() =>
    expect(observed).toMatchObject([
      { ...about, outcome: 'limited' },
      { what: 'limit', provider: 'anthropic', seconds: 1 },
      { ...about, outcome: 'ok' },
    ]),
  );
});
