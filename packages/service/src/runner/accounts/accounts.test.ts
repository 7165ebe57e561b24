import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Account } from './account.ts';
import { accountNames, accountsOf, accountText, usualProvider } from './accounts.ts';

const folder = mkdtempSync(join(tmpdir(), 'muster-accounts-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const call = { method: 'POST', path: '/responses', query: '', headers: {}, body: new Uint8Array() };
const claudeCall = {
  ...call,
  path: '/v1/messages',
  query: 'beta=true',
  headers: { 'anthropic-beta': 'a-1' },
};

describe('the account of Anthropic', () => {
  const authorized = async (environment: Record<string, string>) => {
    const { url, headers } = (await accountsOf(environment).anthropic?.all[0]?.authorize(claudeCall)) ?? {};
    return { url: String(url), headers };
  };

  it('is the bearer token, else the key, else the token of claude setup-token, with its beta', async () => {
    const all = { ANTHROPIC_AUTH_TOKEN: 't', ANTHROPIC_API_KEY: 'k', CLAUDE_CODE_OAUTH_TOKEN: 'o' };
    expect(await authorized(all)).toEqual({
      url: 'https://api.anthropic.com/v1/messages?beta=true',
      headers: { 'anthropic-beta': 'a-1', authorization: 'Bearer t' },
    });
    expect((await authorized({ ...all, ANTHROPIC_AUTH_TOKEN: '' })).headers).toEqual({
      'anthropic-beta': 'a-1',
      'x-api-key': 'k',
    });
    expect((await authorized({ CLAUDE_CODE_OAUTH_TOKEN: 'o' })).headers).toEqual({
      'anthropic-beta': 'a-1,oauth-2025-04-20',
      authorization: 'Bearer o',
    });
  });

  it('adds the custom headers, which are secret like a key', async () => {
    const environment = {
      ANTHROPIC_API_KEY: 'k',
      ANTHROPIC_BASE_URL: 'http://proxy/base',
      ANTHROPIC_CUSTOM_HEADERS: 'X-Team: platform-team\n\nX-Colon: a:b \n',
    };
    const { url, headers } = await authorized(environment);
    expect(url).toBe('http://proxy/base/v1/messages?beta=true');
    expect(headers).toMatchObject({ 'x-team': 'platform-team', 'x-colon': 'a:b' });
    expect(accountsOf(environment).anthropic?.all[0]?.secrets()).toEqual(['k', 'platform-team']);
  });

  it.each([
    ['no colon', 'X-Team', 'ANTHROPIC_CUSTOM_HEADERS, line 1, must be "Name: value"'],
    ['a bad name', 'X-A: b\nX Team: secretvalue', 'ANTHROPIC_CUSTOM_HEADERS, line 2, must be "Name: value"'],
    [
      'a reserved name',
      'Host: x',
      'ANTHROPIC_CUSTOM_HEADERS, line 1, must not set host: the gateway sets it',
    ],
  ])('refuses custom headers with %s without showing a value', (_, headers, error) => {
    const environment = { ANTHROPIC_API_KEY: 'k', ANTHROPIC_CUSTOM_HEADERS: headers };
    expect(() => accountsOf(environment)).toThrow(error);
    expect(() => accountsOf(environment)).not.toThrow('secretvalue');
  });
});

it('Azure is reached below /openai/v1, or with an API version below /openai', async () => {
  const environment = { AZURE_OPENAI_ENDPOINT: 'https://team.openai.azure.com/', AZURE_OPENAI_API_KEY: 'k' };
  const urlWith = async (more: object) =>
    String((await accountsOf({ ...environment, ...more }).azure?.all[0]?.authorize(call))?.url);
  expect(await urlWith({})).toBe('https://team.openai.azure.com/openai/v1/responses');
  expect(await urlWith({ AZURE_OPENAI_API_VERSION: '2025-04-01-preview' })).toBe(
    'https://team.openai.azure.com/openai/responses?api-version=2025-04-01-preview',
  );
});

it.each([
  [{ CLAUDE_CODE_USE_BEDROCK: '1' }, 'AWS_REGION must be'],
  [{ CLAUDE_CODE_USE_BEDROCK: '1', AWS_REGION: 'a.b/c' }, 'AWS_REGION must be'],
  [{ CLAUDE_CODE_USE_VERTEX: '1' }, 'CLOUD_ML_REGION must be'],
  [{ CLAUDE_CODE_USE_VERTEX: '1', CLOUD_ML_REGION: 'global' }, 'ANTHROPIC_VERTEX_PROJECT_ID must be'],
  [{ AZURE_OPENAI_API_KEY: 'k' }, 'AZURE_OPENAI_ENDPOINT must be set'],
  [{ AZURE_OPENAI_ENDPOINT: 'https://a' }, 'AZURE_OPENAI_API_KEY must be set'],
  [{ AZURE_OPENAI_ENDPOINT: 'ftp://a', AZURE_OPENAI_API_KEY: 'k' }, 'AZURE_OPENAI_ENDPOINT must be an http'],
  [{ MUSTER_CODEX_AUTH: '/nonexistent/auth.json' }, 'MUSTER_CODEX_AUTH must be the path of auth.json'],
])('an incomplete account is refused: %j', (environment, error) => {
  expect(() => accountsOf(environment)).toThrow(error);
});

it('of several accounts the first in a fixed order serves the backend', () => {
  const a = { ANTHROPIC_API_KEY: 'k' };
  const vertex = { CLAUDE_CODE_USE_VERTEX: '1', CLOUD_ML_REGION: 'eu', ANTHROPIC_VERTEX_PROJECT_ID: 'p' };
  const bedrock = { CLAUDE_CODE_USE_BEDROCK: 'true', AWS_REGION: 'eu-west-1' };
  const usual = (environment: object) => usualProvider('BACKEND_A', accountsOf({ ...environment }));
  expect(usual({})).toBeUndefined();
  expect(usual({ ...a, CLAUDE_CODE_USE_BEDROCK: '0' })).toBe('anthropic');
  expect(usual({ ...a, ...vertex })).toBe('vertex');
  expect(usual({ ...a, ...vertex, ...bedrock })).toBe('bedrock');
  expect(accountText('BACKEND_A', accountsOf({ ...a, ...vertex, ...bedrock }))).toBe(
    'Amazon Bedrock (AWS credentials, eu-west-1); also ANTHROPIC_API_KEY; also Google Vertex (Google credentials, p, eu)',
  );
});

describe('a ChatGPT login', () => {
  const file = join(folder, 'auth.json');
  const jwt = (expiresInSeconds: number, id: string): string => {
    const claims = { exp: Math.floor(Date.now() / 1_000) + expiresInSeconds, id };
    return `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`;
  };
  const store = (access_token: string, refresh_token = 'refresh-1'): void =>
    writeFileSync(
      file,
      JSON.stringify({ tokens: { id_token: 'id', access_token, refresh_token, account_id: 'acc' } }),
    );
  const stored = () => (JSON.parse(readFileSync(file, 'utf8')) as { tokens: Record<string, string> }).tokens;

  const asked: string[] = [];
  let answer: () => { status: number; body: object };
  const server = createServer(async (request, response) => {
    asked.push(await text(request));
    const { status, body } = answer();
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  beforeAll(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  const fresh = jwt(3_600, 'fresh');
  beforeEach(() => {
    asked.length = 0;
    answer = () => ({ status: 200, body: { access_token: fresh, refresh_token: 'refresh-2' } });
  });

  const account = (): Account => {
    const { port } = server.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}/oauth/token`;
    const { chatgpt } = accountsOf({ MUSTER_CODEX_AUTH: file, CODEX_REFRESH_TOKEN_URL_OVERRIDE: url });
    const [login] = chatgpt?.all ?? [];
    if (!login) throw new Error('no account');
    return login;
  };
  const tokenOf = async (from: Account) => (await from.authorize(call)).headers.authorization;

  it('is renewed before its access token expires, once for all requests', async () => {
    store(jwt(60, 'old'));
    const login = account();
    const tokens = await Promise.all([tokenOf(login), tokenOf(login), tokenOf(login)]);
    expect(new Set(tokens)).toEqual(new Set([`Bearer ${fresh}`]));
    expect(asked.length).toBe(1);
    expect(stored()).toEqual({
      id_token: 'id',
      access_token: fresh,
      refresh_token: 'refresh-2',
      account_id: 'acc',
    });
    expect(login.secrets()).toEqual(expect.arrayContaining(['id', fresh, 'refresh-2', 'refresh-1']));
  });

  it('that another process has renewed is read again instead', async () => {
    store(jwt(3_600, 'first'));
    const login = account();
    const used = await login.authorize(call);
    const second = jwt(3_600, 'second');
    store(second);
    await login.renew?.(used);
    expect(await tokenOf(login)).toBe(`Bearer ${second}`);
    // The other process was faster: the refresh token is used up, and the file has changed by then.
    const third = jwt(3_600, 'third');
    answer = () => {
      store(third);
      return { status: 400, body: { error: { code: 'refresh_token_reused' } } };
    };
    await login.renew?.(await login.authorize(call));
    expect(await tokenOf(login)).toBe(`Bearer ${third}`);
    expect(asked.length).toBe(1);
  });

  it.each([
    [401, 'PROVIDER_KEY_REFUSED', { error: { code: 'refresh_token_expired', message: 'secret' } }],
    [503, undefined, {}],
  ])('that is not renewed (%i) fails with %s, without the text of the answer', async (status, code, body) => {
    store(jwt(0, 'old'));
    answer = () => ({ status, body });
    const error = await tokenOf(account()).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name: 'AccountError', code });
    expect(String(error)).toContain(`MUSTER_CODEX_AUTH (${status}`);
    expect(String(error)).not.toContain('secret');
    expect(stored().refresh_token).toBe('refresh-1');
  });

  it.each([
    ['an API key only', '{"OPENAI_API_KEY":"sk-secret"}', 'it has no tokens of a ChatGPT login'],
    ['no JSON', 'sk-secret', 'it has no tokens of a ChatGPT login'],
    ['a part', '{"tokens":{"id_token":"sk-secret"}}', 'tokens.access_token must be a token'],
  ])('whose file has %s is refused without showing it', (_, content, error) => {
    writeFileSync(file, content);
    chmodSync(file, 0o600);
    expect(account).toThrow(error);
    expect(account).not.toThrow('sk-secret');
  });
});

it('the name of an account differs when its key does, and does not contain it', () => {
  const named = (key: string) => accountNames(accountsOf({ ANTHROPIC_API_KEY: key }));
  expect(named('sk-secret-1')).toEqual(named('sk-secret-1'));
  expect(named('sk-secret-1')).not.toEqual(named('sk-secret-2'));
  expect(named('sk-secret-1').anthropic).toMatch(/^anthropic\/[0-9a-f]{12}$/);
  expect(accountNames({})).toEqual({});
});
