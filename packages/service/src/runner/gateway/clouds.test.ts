import { describe, expect, it } from 'vitest';
import { frameOf } from '../../../../../test/provider/script.ts';
import { ask, ended, onlyAccount, started, testGateway } from '../../../../../test/support/test-gateway.ts';
import { type Account, AccountError, keyRefused } from '../accounts/account.ts';
import { accountsOf } from '../accounts/accounts.ts';

const { upstream, usages, items, open } = testGateway();

const bedrockModel = 'eu.anthropic.claude-opus-4-8-v1:0';
const body = { anthropic_version: 'bedrock-2023-05-31', messages: [{ role: 'user', content: 'Hello' }] };
const pathOf = (model: string): string =>
  `/bedrock/model/${encodeURIComponent(model)}/invoke-with-response-stream`;

const atBedrock = (environment: Record<string, string> = {}, models = [bedrockModel]) =>
  open(
    { provider: { name: 'bedrock', models } },
    {
      providers: accountsOf({
        CLAUDE_CODE_USE_BEDROCK: '1',
        AWS_REGION: 'eu-central-1',
        AWS_BEARER_TOKEN_BEDROCK: 'bedrock-api-key-canary',
        ANTHROPIC_BEDROCK_BASE_URL: upstream.url,
        ...environment,
      }),
    },
  );

const event = (data: unknown): Buffer =>
  frameOf(
    { ':event-type': 'chunk', ':message-type': 'event' },
    { bytes: Buffer.from(JSON.stringify(data)).toString('base64') },
  );

describe('Amazon Bedrock', () => {
  it('gets the request with its API key, and its binary events are metered at the price of the model', async () => {
    const frames = Buffer.concat([started('claude-opus-4-8-20260101'), ...ended].map(event));
    upstream.answer = (_request, response) =>
      void response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' }).end(frames);
    const betas = ['effort-2025-11-24', 'mcp-client-2025-04-04'];
    const request = { ...body, anthropic_beta: betas };
    const answer = await ask(await atBedrock(), pathOf(bedrockModel), { body: JSON.stringify(request) });
    expect(Buffer.from(await answer.arrayBuffer()).equals(frames)).toBe(true);
    const [seen] = upstream.seen;
    expect(seen?.request.url).toBe(`/model/${encodeURIComponent(bedrockModel)}/invoke-with-response-stream`);
    expect(seen?.request.headers.authorization).toBe('Bearer bedrock-api-key-canary');
    // Features that let the provider act elsewhere are left out.
    expect(JSON.parse(seen?.body ?? '')).toEqual({ ...body, anthropic_beta: ['effort-2025-11-24'] });
    expect(usages).toMatchObject([{ inputTokens: 1_000, outputTokens: 1_000 }]);
    expect(usages[0]?.costUsd).toBeCloseTo((100 * 5 + 900 * 0.5 + 1_000 * 25) / 1e6);
    expect(items).toEqual([]);
  });

  it.each([
    ['another model', pathOf('us.anthropic.claude-opus-5'), body, 403, 'this run may use eu.anthropic'],
    ['a model in the body', pathOf(bedrockModel), { ...body, model: 'x' }, 400, '`model`'],
    [
      'other models to fall back to',
      pathOf(bedrockModel),
      { ...body, fallbacks: [{ model: 'x' }] },
      400,
      'fallbacks',
    ],
    [
      'a tool of the provider',
      pathOf(bedrockModel),
      { ...body, tools: [{ type: 'web_search_20250305' }] },
      400,
      'web_search',
    ],
    ['another call', '/bedrock/inference-profiles', body, 404, 'does not forward'],
    ['a path out of it', '/bedrock/model/..%2F..%2Fx/invoke/../y', body, 404, 'does not forward'],
    ['another protocol', '/anthropic/v1/messages', body, 404, 'no access to anthropic'],
  ])('refuses %s', async (_, path, content, status, message) => {
    const answer = await ask(await atBedrock(), path, { body: JSON.stringify(content) });
    expect(answer.status).toBe(status);
    expect(await answer.text()).toContain(message);
    expect(upstream.seen).toEqual([]);
  });

  it.each([
    ['PROVIDER_FORBIDDEN', 403, 'AccessDeniedException:http://x', "You don't have access to the model"],
    ['PROVIDER_KEY_REFUSED', 403, 'UnrecognizedClientException', 'The security token is invalid'],
    ['MODEL_UNKNOWN', 400, 'ValidationException', 'The provided model identifier is invalid.'],
    ['MODEL_UNKNOWN', 404, 'ResourceNotFoundException', 'Could not resolve the foundation model'],
  ])('ends the run with %s (%i %s), without the key', async (code, status, type, message) => {
    upstream.answer = (_request, response) =>
      void response
        .writeHead(status, { 'x-amzn-errortype': type, 'content-type': 'application/json' })
        .end(JSON.stringify({ message: `${message} bedrock-api-key-canary` }));
    const endpoint = await atBedrock();
    const answer = await ask(endpoint, pathOf(bedrockModel), { body: JSON.stringify(body) });
    expect(await answer.text()).not.toContain('canary');
    const failure = await endpoint.failure;
    expect(failure).toMatchObject({ type: 'refused', code });
    expect(failure.message).toContain(`Amazon Bedrock answered ${status} (${type.split(':')[0]}: ${message}`);
    expect(failure.message).not.toContain('canary');
  });

  it('throttles before and within an answer', async () => {
    const headers = { ':exception-type': 'throttlingException', ':message-type': 'exception' };
    for (const answer of ['429', 'frame']) {
      upstream.answer = (_request, response) =>
        void (answer === '429'
          ? response
              .writeHead(429, { 'x-amzn-errortype': 'ThrottlingException' })
              .end('{"message":"Too many"}')
          : response
              .writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' })
              .end(frameOf(headers, { message: 'Too many' })));
      const endpoint = await open(
        { provider: { name: 'bedrock', models: [bedrockModel] } },
        {
          limits: { limitWaitMs: 0 },
          providers: accountsOf({
            CLAUDE_CODE_USE_BEDROCK: '1',
            AWS_REGION: 'eu-central-1',
            AWS_BEARER_TOKEN_BEDROCK: 'k',
            ANTHROPIC_BEDROCK_BASE_URL: upstream.url,
          }),
        },
      );
      await ask(endpoint, pathOf(bedrockModel), { body: JSON.stringify(body) }).then((reply) => reply.text());
      expect(await endpoint.failure).toMatchObject({ type: 'limit', waitMs: 60_000 });
    }
  });
});

describe('an account that can renew its credentials', () => {
  const accountWith = (renew: () => Promise<void>): Account => {
    let token = 0;
    return {
      provider: 'chatgpt',
      setting: 'MUSTER_CODEX_AUTH',
      about: '',
      secrets: () => [],
      authorize: async (call) => {
        token += 1;
        return {
          url: new URL(`${upstream.url}${call.path}`),
          headers: { authorization: `Bearer token-${token}` },
        };
      },
      renew,
    };
  };
  const at = (account: Account) =>
    open(
      { provider: { name: 'chatgpt', models: ['gpt-5.5'] } },
      { providers: { chatgpt: onlyAccount(account) }, limits: { limitWaitMs: 0 } },
    );
  const refuseAlways = () => {
    upstream.answer = (_request, response) =>
      void response.writeHead(401).end('{"error":{"message":"expired"}}');
  };

  it('renews them once for a request; a second refusal ends the run', async () => {
    refuseAlways();
    let renewals = 0;
    const account = accountWith(async () => {
      renewals += 1;
    });
    const endpoint = await at(account);
    const answer = await ask(endpoint, '/openai/v1/responses');
    expect(answer.status).toBe(401);
    expect(renewals).toBe(1);
    expect(upstream.seen.map(({ request }) => request.headers.authorization)).toEqual([
      'Bearer token-1',
      'Bearer token-2',
    ]);
    expect(upstream.seen[1]?.body).toBe(upstream.seen[0]?.body);
    const failure = await endpoint.failure;
    expect(failure).toMatchObject({ type: 'refused', code: 'PROVIDER_KEY_REFUSED' });
    expect(failure.message).toContain('Sign in again with codex login');
  });

  it('ends the run when they are refused, and is an outage when it cannot ask for them', async () => {
    refuseAlways();
    const refused = await at(
      accountWith(async () => Promise.reject(new AccountError('No login', keyRefused))),
    );
    expect((await ask(refused, '/openai/v1/responses')).status).toBe(401);
    expect(await refused.failure).toMatchObject({
      code: 'PROVIDER_KEY_REFUSED',
      message: expect.stringContaining('No login.'),
    });
    const away = await at(accountWith(async () => Promise.reject(new AccountError('Not reachable'))));
    const answer = await ask(away, '/openai/v1/responses');
    expect(answer.status).toBe(502);
    expect(await answer.text()).toContain('Not reachable');
    expect(away.outage()).toBe('ChatGPT could not be reached.');
  });
});

it('Vertex gets requests for the models of the run only', async () => {
  const account: Account = {
    ...(accountsOf({
      CLAUDE_CODE_USE_VERTEX: '1',
      CLOUD_ML_REGION: 'eu',
      ANTHROPIC_VERTEX_PROJECT_ID: 'p',
    }).vertex?.all[0] as Account),
    authorize: async (call) => ({ url: new URL(`${upstream.url}${call.path}`), headers: call.headers }),
  };
  const models = ['claude-opus-4-8@20260101'];
  const endpoint = await open(
    { provider: { name: 'vertex', models } },
    { providers: { vertex: onlyAccount(account) } },
  );
  const path = '/vertex/projects/muster/locations/global/publishers/anthropic/models';
  const content = JSON.stringify({ ...body, anthropic_version: 'vertex-2023-10-16', stream: true });
  const statusOf = async (name: string) => (await ask(endpoint, `${path}/${name}`, { body: content })).status;
  expect(await statusOf('claude-opus-4-8@20260101:streamRawPredict')).toBe(200);
  expect(await statusOf('claude-opus-5:streamRawPredict')).toBe(403);
  expect(await statusOf('claude-opus-4-8@20260101:predict')).toBe(404);
  expect(await statusOf('count-tokens:rawPredict')).toBe(403);
  expect(upstream.seen.length).toBe(1);
});
