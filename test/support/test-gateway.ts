import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestOptions,
  request as requestHttp,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Observation, ReportItem } from '@muster/sdk/contract';
import { afterAll, afterEach, beforeAll } from 'vitest';
import type { ProviderAccess, Usage } from '../../packages/service/src/harness/harness.ts';
import { silentLog } from '../../packages/service/src/lib/log.ts';
import type { Account } from '../../packages/service/src/runner/accounts/account.ts';
import { type Accounts, accountsOf } from '../../packages/service/src/runner/accounts/accounts.ts';
import { ProviderAccounts } from '../../packages/service/src/runner/accounts/provider-accounts.ts';
import {
  type EndpointOptions,
  Gateway,
  type GatewayLimits,
  type GatewayOptions,
  type OpenEndpoint,
} from '../../packages/service/src/runner/gateway/gateway.ts';
import { readPrices } from '../../packages/service/src/runner/gateway/prices.ts';
import { unlimitedCredit } from './credit.ts';

export const token = 'mst_run.0123456789abcdef0123456789abcdef';
export const apiKey = 'sk-ant-api03-theRealKey-6789';
const anthropic: ProviderAccess = { name: 'anthropic', models: ['claude-opus-4-8', 'claude-next'] };
export const openai: ProviderAccess = { name: 'openai', models: ['gpt-5.5'] };

export const messages = { model: 'claude-opus-4-8', messages: [{ role: 'user', content: 'Hello' }] };
const responses = { model: 'gpt-5.5', input: 'Hello', store: false };

/** Accounts of both providers with the same key. */
export const keyAccounts = (url: string, key = apiKey): Accounts =>
  accountsOf({
    ANTHROPIC_API_KEY: key,
    ANTHROPIC_BASE_URL: url,
    OPENAI_API_KEY: key,
    OPENAI_BASE_URL: `${url}/v1`,
  });

/** The only account of its provider. */
export const onlyAccount = (account: Account): ProviderAccounts =>
  new ProviderAccounts([{ ...account, id: `${account.provider}/default`, models: [] }]);

const emptyAnswer = (_request: IncomingMessage, response: ServerResponse): void => void response.end('{}');

/** The server behind the gateway, as provider and as service. It records requests and answers as the test says. */
class Upstream {
  readonly seen: { request: IncomingMessage; body: string }[] = [];
  answer: (request: IncomingMessage, response: ServerResponse) => void = emptyAnswer;
  url = '';
  readonly #server: Server = createServer(async (request, response) => {
    const body = await text(request).catch(() => '(cut)');
    this.seen.push({ request, body });
    this.answer(request, response);
  });

  async start(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  reset(): void {
    this.#server.closeAllConnections();
    this.seen.length = 0;
    this.answer = emptyAnswer;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}

/** One upstream for the tests of a file, and what the endpoints opened by the current test reported. */
export function testGateway() {
  const upstream = new Upstream();
  const endpoints: OpenEndpoint[] = [];
  const usages: Usage[] = [];
  const observed: Observation[] = [];
  const items: ReportItem[] = [];
  const actions: string[] = [];

  beforeAll(() => upstream.start());
  afterAll(() => upstream.stop());
  afterEach(async () => {
    for (const endpoint of endpoints) await endpoint.close();
    upstream.reset();
    for (const list of [endpoints, usages, items, actions, observed]) list.length = 0;
  });

  const gatewayWith = (options: Partial<GatewayOptions>): Gateway =>
    new Gateway({
      providers: keyAccounts(upstream.url),
      serviceUrl: upstream.url,
      prices: readPrices(),
      log: silentLog,
      observed: { add: (observation) => observed.push(observation) },
      ...options,
    });

  const openAt = async (gateway: Gateway, run: Partial<EndpointOptions> = {}): Promise<OpenEndpoint> => {
    const listener = {
      usage: (usage: Usage) => usages.push(usage),
      item: (item: ReportItem) => items.push(item),
      action: (action: string) => actions.push(action),
    };
    const listenAt = { port: 0 } as const;
    const credit = unlimitedCredit();
    const own = { token, listenAt, allowHosts: undefined, provider: anthropic, listener, credit };
    const endpoint = await gateway.open({ ...own, ...run });
    endpoints.push(endpoint);
    return endpoint;
  };

  /** For the endpoints of all tests without options of their own: each gateway has a thread for its checks. */
  let usual: Gateway | undefined;
  const usualGateway = (): Gateway => {
    usual ??= gatewayWith({});
    return usual;
  };

  return {
    upstream,
    usages,
    observed,
    items,
    actions,
    open: (run: Partial<EndpointOptions> = {}, options?: Partial<GatewayOptions>) =>
      openAt(options ? gatewayWith(options) : usualGateway(), run),
    /** The endpoints of two runs of one runner. */
    openTwo: async (limits: Partial<GatewayLimits> = {}): Promise<[OpenEndpoint, OpenEndpoint]> => {
      const gateway = gatewayWith({ limits });
      return [await openAt(gateway), await openAt(gateway)];
    },
  };
}

export const ask = (endpoint: OpenEndpoint, path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`http://127.0.0.1:${endpoint.port}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(path.includes('anthropic') ? messages : path.includes('openai') ? responses : {}),
    ...init,
  } as RequestInit);

export const get = (endpoint: OpenEndpoint, path: string): Promise<Response> =>
  ask(endpoint, path, { method: 'GET', body: null });

/** A POST with exactly these headers and this path, which `fetch` would change. */
export async function post(
  endpoint: OpenEndpoint,
  path: string,
  headers: RequestOptions['headers'],
  ...parts: readonly (string | Buffer)[]
): Promise<{ status: number | undefined; body: string }> {
  const call = requestHttp({ host: '127.0.0.1', port: endpoint.port, method: 'POST', path, headers });
  call.on('error', () => {});
  for (const part of parts) call.write(part);
  call.end();
  const [response] = (await once(call, 'response')) as [IncomingMessage];
  return { status: response.statusCode, body: await text(response) };
}

export const stream = (...events: { type: string }[]): string =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');

export const started = (model: string, input = 100) => ({
  type: 'message_start',
  message: { model, usage: { input_tokens: input, cache_read_input_tokens: 900, output_tokens: 1 } },
});
export const ended = [{ type: 'message_delta', usage: { output_tokens: 1_000 } }, { type: 'message_stop' }];
export const eventStream = { 'content-type': 'text/event-stream' };
