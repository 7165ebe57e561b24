import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { signatureProblem } from '../../../../../test/provider/clouds.ts';
import {
  ask,
  ended,
  eventStream,
  get,
  messages,
  post,
  started,
  stream,
  testGateway,
  token,
} from '../../../../../test/support/test-gateway.ts';
import { type Accounts, accountsOf } from '../accounts/accounts.ts';
import type { OpenEndpoint } from './gateway.ts';

const { upstream, usages, items, open } = testGateway();
const folder = mkdtempSync(join(tmpdir(), 'muster-accounts-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(() => void vi.useRealTimers());

type Entry = Readonly<Record<string, unknown>>;
const listed = (entries: readonly Entry[]): Accounts => {
  const file = join(folder, 'accounts.json');
  writeFileSync(file, JSON.stringify(entries));
  return accountsOf({ MUSTER_ACCOUNTS: file });
};
const keyOf = (name: string): string => `sk-ant-api03-${name}-0123456789`;
/** Each has a path of its own, as if it were another host. */
const anthropic = (name: string, more: Entry = {}): Entry => ({
  provider: 'anthropic',
  name,
  variables: { ANTHROPIC_API_KEY: keyOf(name), ANTHROPIC_BASE_URL: `${upstream.url}/${name}` },
  ...more,
});
const two = (): Accounts => listed([anthropic('main'), anthropic('spare')]);

type Answer = (request: IncomingMessage, response: ServerResponse) => void;
const refusing =
  (
    status: number,
    headers: Record<string, string> = {},
    error: object = { type: 'x', message: 'no' },
  ): Answer =>
  (_request, response) =>
    void response.writeHead(status, headers).end(JSON.stringify({ error }));
const limited = (seconds: number): Answer => refusing(429, { 'retry-after': String(seconds) });
const accepting: Answer = (_request, response) =>
  void response.writeHead(200, eventStream).end(stream(started('claude-opus-4-8'), ...ended));

/** How each account answers; by the first part of the path. */
const answering = (answers: Readonly<Record<string, Answer>>): void => {
  upstream.answer = (request, response) =>
    (answers[request.url?.split('/')[1] ?? ''] ?? accepting)(request, response);
};
const asked = (): string[] => upstream.seen.map(({ request }) => request.url?.split('/')[1] ?? '');
const send = (endpoint: OpenEndpoint, model = messages.model) =>
  ask(endpoint, '/anthropic/v1/messages', { body: JSON.stringify({ ...messages, model }) });
const openTwo = (accounts: Accounts = two(), usualAccount?: string) =>
  open({ usualAccount }, { providers: accounts });
const warnings = (): string[] => items.map(({ text = '' }) => text);
const stateOf = (accounts: Accounts, name: string) =>
  Object.values(accounts)
    .flatMap((one) => one.states())
    .find(({ account }) => account.endsWith(`/${name}`));

describe('an account at a limit of over a minute', () => {
  it('is replaced for the same request, which the client does not notice, and by the next requests', async () => {
    answering({ main: limited(3_600) });
    const accounts = two();
    const endpoint = await openTwo(accounts);
    expect(endpoint.account).toBe('anthropic/main');
    const answer = await send(endpoint);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain('message_stop');
    expect(asked()).toEqual(['main', 'spare']);
    expect(upstream.seen[1]?.body).toBe(upstream.seen[0]?.body);
    await send(endpoint);
    expect(asked()).toEqual(['main', 'spare', 'spare']);
    expect(endpoint.account).toBe('anthropic/spare');
    expect(usages.length).toBeGreaterThan(0);
    expect(warnings()).toEqual([
      expect.stringMatching(
        /answered 429 .*anthropic\/main is paused until .*; anthropic\/spare takes over\.$/,
      ),
    ]);
    expect(stateOf(accounts, 'main')).toMatchObject({ state: 'PAUSED', error: 'anthropic answered 429' });
    expect(stateOf(accounts, 'spare')).toMatchObject({ state: 'IN_USE', runs: 1 });
    await endpoint.close();
    expect(stateOf(accounts, 'spare')).toMatchObject({ state: 'FREE', runs: 0 });
  });

  it('is not asked by other runs, while another one is not paused', async () => {
    answering({ main: limited(3_600) });
    const accounts = two();
    await send(await openTwo(accounts));
    const other = await openTwo(accounts);
    expect(other.account).toBe('anthropic/spare');
    await send(other);
    expect(asked()).toEqual(['main', 'spare', 'spare']);
    // Its agent had this account in its last run.
    const third = await openTwo(accounts, 'anthropic/main');
    await send(third);
    expect(asked()).toEqual(['main', 'spare', 'spare', 'spare']);
  });

  it('sends parallel requests to one other account, with one warning', async () => {
    const held: (() => void)[] = [];
    answering({
      main: (request, response) => {
        held.push(() => limited(3_600)(request, response));
        if (held.length === 3) for (const answer of held) answer();
      },
    });
    const endpoint = await openTwo();
    const answers = await Promise.all([send(endpoint), send(endpoint), send(endpoint)]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(asked().filter((name) => name === 'spare').length).toBe(3);
    expect(warnings().length).toBe(1);
  });

  it('is waited for when the limit is short', async () => {
    let times = 0;
    answering({
      main: (request, response) => {
        times += 1;
        (times === 1 ? limited(1) : accepting)(request, response);
      },
    });
    expect((await send(await openTwo())).status).toBe(200);
    expect(asked()).toEqual(['main', 'main']);
  });

  it('keeps the account that took over, also in the next run, after the pause of the first one has ended', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    answering({ main: limited(3_600) });
    const accounts = two();
    const endpoint = await openTwo(accounts);
    await send(endpoint);
    vi.setSystemTime(Date.now() + 3_601_000);
    answering({});
    await send(endpoint);
    const next = await openTwo(accounts, endpoint.account);
    await send(next);
    expect(asked()).toEqual(['main', 'spare', 'spare', 'spare']);
    expect(stateOf(accounts, 'main')).toMatchObject({ state: 'FREE', pausedUntil: null, error: '' });
    // Another agent uses the first one.
    expect((await openTwo(accounts)).account).toBe('anthropic/main');
  });
});

describe('when no account is left', () => {
  it('the run waits for the earliest; a later one tries them all once, and goes on', async () => {
    answering({ main: limited(7_200), spare: limited(3_600) });
    const accounts = two();
    const endpoint = await openTwo(accounts);
    expect((await send(endpoint)).status).toBe(429);
    const failure = await endpoint.failure;
    expect(failure).toMatchObject({ type: 'limit' });
    expect(failure.type === 'limit' && failure.waitMs).toBeLessThanOrEqual(3_600_000);
    expect(failure.message).toMatch(/2 of 2 accounts of anthropic are paused; anthropic\/spare until /);
    expect(asked()).toEqual(['main', 'spare']);
    // The run has ended: nothing more is sent.
    expect((await send(endpoint)).status).toBe(429);
    expect(asked()).toEqual(['main', 'spare']);

    const again = await openTwo(accounts, endpoint.account);
    expect((await send(again)).status).toBe(429);
    expect(asked()).toEqual(['main', 'spare', 'spare', 'main']);
    answering({ main: limited(7_200) });
    const last = await openTwo(accounts, again.account);
    expect((await send(last)).status).toBe(200);
    expect(stateOf(accounts, 'spare')).toMatchObject({ state: 'IN_USE' });
    expect(stateOf(accounts, 'main')).toMatchObject({ state: 'PAUSED' });
  });

  it('the run waits, even if the pause of the first account ends meanwhile: a request is sent once to each account', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    answering({
      main: limited(1),
      spare: (request, response) => {
        vi.setSystemTime(Date.now() + 2_000);
        limited(3_600)(request, response);
      },
    });
    const endpoint = await open({}, { providers: two(), limits: { limitWaitMs: 0 } });
    expect((await send(endpoint)).status).toBe(429);
    expect(asked()).toEqual(['main', 'spare']);
    expect(await endpoint.failure).toMatchObject({ type: 'limit', waitMs: 0 });
  });

  it('and all are refused or without credit, a person has to act', async () => {
    answering({ main: refusing(401), spare: refusing(402) });
    const endpoint = await openTwo();
    expect((await send(endpoint)).status).toBe(402);
    const failure = await endpoint.failure;
    expect(failure).toMatchObject({ type: 'refused', code: 'PROVIDER_OUT_OF_CREDIT' });
    expect(failure.message).toContain('ANTHROPIC_API_KEY of the account spare in MUSTER_ACCOUNTS');
  });

  it('and one is refused, the run waits for the one at its limit', async () => {
    answering({ main: limited(3_600), spare: refusing(403) });
    const endpoint = await openTwo();
    await send(endpoint);
    expect(await endpoint.failure).toMatchObject({ type: 'limit', until: expect.any(Date) });
  });
});

describe('an account that is refused', () => {
  it('is paused alone, until its credentials change', async () => {
    answering({ main: refusing(401) });
    const accounts = two();
    const endpoint = await openTwo(accounts);
    expect((await send(endpoint)).status).toBe(200);
    expect(stateOf(accounts, 'main')).toMatchObject({ state: 'PAUSED', pausedUntil: null });
    expect(stateOf(accounts, 'spare')).toMatchObject({ state: 'IN_USE' });
    expect(warnings()).toEqual([
      expect.stringContaining('is paused until its credentials are changed or an agent is retried'),
    ]);
  });

  it('is asked again when a person retries an agent, also one that has another account', async () => {
    answering({ main: refusing(401) });
    const accounts = two();
    await send(await openTwo(accounts));
    await send(await openTwo(accounts));
    expect(asked()).toEqual(['main', 'spare', 'spare']);
    const retried = await open({ usualAccount: 'anthropic/spare', isRetried: true }, { providers: accounts });
    await send(retried);
    expect(stateOf(accounts, 'main')).toMatchObject({ state: 'FREE' });
    await send(await openTwo(accounts));
    expect(asked()).toEqual(['main', 'spare', 'spare', 'spare', 'main', 'spare']);
    expect(stateOf(accounts, 'main')).toMatchObject({ state: 'PAUSED' });
  });

  it('is not asked again by a retry when it is at a limit', async () => {
    answering({ main: limited(3_600) });
    const accounts = two();
    await send(await openTwo(accounts));
    await send(await open({ isRetried: true }, { providers: accounts }));
    expect(asked()).toEqual(['main', 'spare', 'spare']);
  });

  it('is paused 15 minutes when it is out of credit and the provider names no time', async () => {
    answering({ main: refusing(402) });
    const accounts = two();
    const before = Date.now();
    await send(await openTwo(accounts));
    const until = Date.parse(stateOf(accounts, 'main')?.pausedUntil ?? '') - before;
    expect(until).toBeGreaterThanOrEqual(15 * 60_000 - 1);
    expect(until).toBeLessThan(16 * 60_000);
  });

  it('is used again when the file of its login has changed', async () => {
    const file = join(folder, 'auth.json');
    const tokens = { id_token: 'i', access_token: 'a', refresh_token: 'r', account_id: 'acc' };
    writeFileSync(file, JSON.stringify({ tokens }));
    const accounts = listed([{ provider: 'chatgpt', name: 'desk', variables: { MUSTER_CODEX_AUTH: file } }]);
    accounts.chatgpt?.pause('chatgpt/desk', {
      untilMs: Number.POSITIVE_INFINITY,
      error: 'x',
      isLimit: false,
    });
    expect(stateOf(accounts, 'desk')).toMatchObject({ state: 'PAUSED' });
    const later = new Date(Date.now() + 60_000);
    utimesSync(file, later, later);
    expect(stateOf(accounts, 'desk')).toMatchObject({ state: 'FREE' });
  });
});

describe('the models of an account', () => {
  it('that it is not to serve go to the next, without a warning', async () => {
    const accounts = listed([anthropic('main', { models: ['claude-opus-*'] }), anthropic('spare')]);
    const endpoint = await openTwo(accounts);
    await send(endpoint);
    await send(endpoint, 'claude-next');
    await send(endpoint);
    expect(asked()).toEqual(['main', 'spare', 'main']);
    expect(warnings()).toEqual([]);
  });

  it('that it turns out not to have go to the next, which does not pause it', async () => {
    answering({ main: refusing(404, {}, { type: 'not_found_error', message: 'model: claude-opus-4-8' }) });
    const accounts = two();
    const endpoint = await openTwo(accounts);
    expect((await send(endpoint)).status).toBe(200);
    expect((await send(endpoint)).status).toBe(200);
    expect(asked()).toEqual(['main', 'spare', 'spare']);
    expect(stateOf(accounts, 'main')?.state).not.toBe('PAUSED');
    expect(warnings().length).toBe(1);
  });

  it('that none serves end the run', async () => {
    const accounts = listed([anthropic('main', { models: ['claude-haiku-*'] })]);
    const endpoint = await openTwo(accounts);
    expect((await send(endpoint)).status).toBe(404);
    expect(await endpoint.failure).toMatchObject({ code: 'MODEL_UNKNOWN' });
    expect(asked()).toEqual([]);
  });
});

it('after the first byte nothing is sent again: the next run uses the other account', async () => {
  const error = { type: 'error', error: { type: 'rate_limit_error', message: 'Slow down' } };
  answering({
    main: (_request, response) =>
      void response
        .writeHead(200, { ...eventStream, 'retry-after': '3600' })
        .end(stream(started('claude-opus-4-8'), error)),
  });
  const accounts = two();
  const endpoint = await openTwo(accounts);
  await (await send(endpoint)).text();
  const failure = await endpoint.failure;
  expect(failure).toMatchObject({ type: 'limit', waitMs: 0 });
  expect(failure.message).toContain('anthropic/spare takes over');
  expect(asked()).toEqual(['main']);
  expect(stateOf(accounts, 'main')).toMatchObject({ state: 'PAUSED' });
  const next = await openTwo(accounts, endpoint.account);
  expect((await send(next)).status).toBe(200);
  expect(asked()).toEqual(['main', 'spare']);
});

it('encrypted reasoning of another account is left out, once it was refused', async () => {
  const unreadable = { type: 'invalid_request_error', code: 'invalid_encrypted_content', message: 'No' };
  answering({
    main: limited(3_600),
    spare: (request, response) => {
      const isRead = !upstream.seen.at(-1)?.body.includes('gAAA');
      (isRead ? accepting : refusing(400, {}, unreadable))(request, response);
    },
  });
  const account = (name: string): Entry => ({
    provider: 'openai',
    name,
    variables: { OPENAI_API_KEY: keyOf(name), OPENAI_BASE_URL: `${upstream.url}/${name}` },
  });
  const endpoint = await open(
    { provider: { name: 'openai', models: ['gpt-5.5'] } },
    { providers: listed([account('main'), account('spare')]) },
  );
  const reasoning = { type: 'reasoning', summary: [], encrypted_content: 'gAAA' };
  const message = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hello' }] };
  const body = JSON.stringify({ model: 'gpt-5.5', store: false, input: [message, reasoning, message] });
  for (const _ of [1, 2]) expect((await ask(endpoint, '/openai/v1/responses', { body })).status).toBe(200);
  expect(asked()).toEqual(['main', 'spare', 'spare', 'spare']);
  const inputs = upstream.seen.map((seen) => (JSON.parse(seen.body) as { input: unknown[] }).input);
  expect(inputs).toEqual([
    [message, reasoning, message],
    [message, reasoning, message],
    [message, message],
    [message, message],
  ]);
  expect(warnings().slice(1)).toEqual([
    "openai/spare can't read the encrypted reasoning of another account: this run leaves it out.",
  ]);
});

describe('credentials', () => {
  it('of an account go to its own address only, whatever the agent sends', async () => {
    answering({ main: limited(3_600) });
    const accounts = listed([
      anthropic('main', {
        variables: {
          ANTHROPIC_API_KEY: keyOf('main'),
          ANTHROPIC_BASE_URL: `${upstream.url}/main`,
          ANTHROPIC_CUSTOM_HEADERS: 'X-Team: secret-of-main',
        },
      }),
      anthropic('spare', {
        variables: {
          ANTHROPIC_AUTH_TOKEN: 'bearer-of-spare',
          ANTHROPIC_BASE_URL: `${upstream.url}/spare`,
        },
      }),
    ]);
    const endpoint = await openTwo(accounts);
    const own = { 'x-api-key': token, authorization: 'Bearer stolen', 'x-team': 'other', cookie: 'a=b' };
    const { status } = await post(endpoint, '/anthropic/v1/messages', own, JSON.stringify(messages));
    expect(status).toBe(200);
    await get(endpoint, '/anthropic/v1/models');
    for (const { request } of upstream.seen) {
      const text = JSON.stringify(request.headers);
      const isMain = request.url?.startsWith('/main');
      expect(text.includes(keyOf('main'))).toBe(isMain);
      expect(text.includes('secret-of-main')).toBe(isMain);
      expect(text.includes('bearer-of-spare')).toBe(!isMain);
      expect(text).not.toMatch(/stolen|cookie|"other"/);
      expect(text).not.toContain(token);
    }
    expect(asked()).toEqual(['main', 'spare', 'spare']);
  });

  it('of Bedrock sign each request for the region of their own account', async () => {
    const bedrock = (name: string, region: string): Entry => ({
      provider: 'bedrock',
      name,
      variables: {
        AWS_REGION: region,
        AWS_ACCESS_KEY_ID: `AKIA${name}`,
        AWS_SECRET_ACCESS_KEY: `secret-of-${name}`,
        ANTHROPIC_BEDROCK_BASE_URL: `${upstream.url}/${name}`,
      },
    });
    answering({ eu: limited(3_600) });
    const model = 'eu.anthropic.claude-opus-4-8-v1:0';
    const endpoint = await open(
      { provider: { name: 'bedrock', models: [model] } },
      { providers: listed([bedrock('eu', 'eu-west-1'), bedrock('us', 'us-east-1')]) },
    );
    const path = `/bedrock/model/${encodeURIComponent(model)}/invoke`;
    const body = JSON.stringify({ anthropic_version: 'bedrock-2023-05-31', messages: messages.messages });
    expect((await ask(endpoint, path, { body })).status).toBe(200);
    expect(asked()).toEqual(['eu', 'us']);
    for (const [index, [secret, region]] of [
      ['secret-of-eu', 'eu-west-1'],
      ['secret-of-us', 'us-east-1'],
    ].entries()) {
      const { request, body: text = '' } = upstream.seen[index] ?? {};
      const seen = { headers: request?.headers ?? {}, path: request?.url ?? '', text };
      expect(signatureProblem(seen as never, { secret: secret ?? '', region: region ?? '' })).toBeUndefined();
    }
  });
});
