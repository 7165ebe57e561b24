import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { accountNames, accountsOf, accountText } from './accounts.ts';

const folder = mkdtempSync(join(tmpdir(), 'muster-accounts-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const inFolder = (name: string, content: string): string => {
  const file = join(folder, name);
  writeFileSync(file, content, { mode: 0o600 });
  return file;
};
const withFile = (content: string | readonly object[], environment: Record<string, string> = {}) =>
  accountsOf({
    ...environment,
    MUSTER_ACCOUNTS: inFolder(
      'accounts.yaml',
      typeof content === 'string' ? content : JSON.stringify(content),
    ),
  });
const call = { method: 'POST', path: '/v1/messages', query: '', headers: {}, body: new Uint8Array() };

it('lists accounts of every kind in order, after that of the variables', async () => {
  const login = { tokens: { id_token: 'i', access_token: 'a', refresh_token: 'r', account_id: 'acc' } };
  const accounts = withFile(
    `
- provider: anthropic
  name: team
  models: [claude-opus-*]
  variables:
    ANTHROPIC_AUTH_TOKEN_FILE: ${inFolder('team.key', ' token-of-team\n')}
    ANTHROPIC_BASE_URL: https://claude.example.com/base
- provider: anthropic
  name: plan
  variables: { CLAUDE_CODE_OAUTH_TOKEN: { fromRunner: MUSTER_PLAN_TOKEN } }
- { provider: bedrock, name: eu, variables: { AWS_REGION: eu-west-1, AWS_PROFILE: eu } }
- { provider: vertex, name: g, variables: { CLOUD_ML_REGION: global, ANTHROPIC_VERTEX_PROJECT_ID: p } }
- { provider: openai, name: key, variables: { OPENAI_API_KEY: sk-1 } }
- { provider: azure, name: z, variables: { AZURE_OPENAI_ENDPOINT: 'https://z.example', AZURE_OPENAI_API_KEY: k } }
- { provider: chatgpt, name: desk, variables: { MUSTER_CODEX_AUTH: ${inFolder('auth.json', JSON.stringify(login))} } }
`,
    { ANTHROPIC_API_KEY: 'sk-own', MUSTER_PLAN_TOKEN: 'token-of-plan' },
  );
  const ids = Object.values(accounts).flatMap(({ all }) => all.map(({ id }) => id));
  expect(ids).toEqual([
    ...['anthropic/default', 'anthropic/team', 'anthropic/plan'],
    ...['bedrock/eu', 'vertex/g', 'openai/key', 'azure/z', 'chatgpt/desk'],
  ]);
  const authorized = await Promise.all((accounts.anthropic?.all ?? []).map((one) => one.authorize(call)));
  expect(authorized.map(({ url, headers }) => [String(url), headers])).toEqual([
    ['https://api.anthropic.com/v1/messages', { 'x-api-key': 'sk-own' }],
    ['https://claude.example.com/base/v1/messages', { authorization: 'Bearer token-of-team' }],
    [
      'https://api.anthropic.com/v1/messages',
      { authorization: 'Bearer token-of-plan', 'anthropic-beta': 'oauth-2025-04-20' },
    ],
  ]);
  expect(accountText('BACKEND_B', accounts)).toContain('z: Azure OpenAI');
  expect(accountText('BACKEND_A', accounts)).toContain(
    'also ANTHROPIC_API_KEY, then team: ANTHROPIC_AUTH_TOKEN, then plan: CLAUDE_CODE_OAUTH_TOKEN',
  );
});

const spare = { provider: 'anthropic', name: 'spare' };
const key = { ANTHROPIC_API_KEY: 'sk-secret' };
it.each([
  ['a syntax error', '- provider: [sk-secret', /line 1 is not valid YAML or JSON/],
  ['no list', '{"provider":"anthropic"}', /expected a list of accounts such as \[/],
  ['no entry', '[]', /expected a list of accounts/],
  ['a text', ['sk-secret'], /\[0\]: expected an account such as \{/],
  [
    'an unknown field',
    [{ ...spare, key: 'sk-secret' }],
    /\[0\]\.key: unknown field; expected provider, name/,
  ],
  [
    'another provider',
    [{ provider: 'acme', name: 'a' }],
    /\[0\]\.provider: expected one of anthropic, .*"acme"/,
  ],
  ['no name', [{ provider: 'anthropic', variables: key }], /\[0\]\.name: expected 1 to 64 .*got nothing/],
  ['a reserved name', [{ ...spare, name: 'default', variables: key }], /"default" is the account of the/],
  [
    'a name twice',
    [
      { ...spare, variables: key },
      { ...spare, variables: key },
    ],
    /\[1\]\.name: another anthropic account has the name "spare"/,
  ],
  ['models', [{ ...spare, models: 'claude', variables: key }], /\[0\]\.models: expected at most 100/],
  ['no credentials', [spare], /\[0\]\.variables: ANTHROPIC_API_KEY is required/],
  [
    "another provider's variable",
    [{ ...spare, variables: { OPENAI_API_KEY: 'sk-secret' } }],
    /\.OPENAI_API_KEY: not a variable of anthropic accounts; expected ANTHROPIC_API_KEY/,
  ],
  [
    'a missing file',
    [{ ...spare, variables: { ANTHROPIC_API_KEY_FILE: '/nonexistent' } }],
    /\.ANTHROPIC_API_KEY_FILE: can't read \/nonexistent/,
  ],
  [
    'a value and a file',
    [{ ...spare, variables: { ...key, ANTHROPIC_API_KEY_FILE: '/nonexistent' } }],
    /ANTHROPIC_API_KEY is given twice/,
  ],
  ['a number', [{ ...spare, variables: { ANTHROPIC_API_KEY: 5 } }], /expected a text, or \{"fromRunner"/],
  [
    'a variable that is not set',
    [{ ...spare, variables: { ANTHROPIC_API_KEY: { fromRunner: 'MUSTER_NONE' } } }],
    /fromRunner: the runner has no variable MUSTER_NONE/,
  ],
  [
    'a variable that agents may get',
    [{ ...spare, variables: { ANTHROPIC_API_KEY: { fromRunner: 'SPARE' } } }],
    /agents may be given the variable SPARE; use one whose name begins with MUSTER_/,
  ],
  [
    'an incomplete account',
    [{ provider: 'azure', name: 'z', variables: { AZURE_OPENAI_API_KEY: 'sk-secret' } }],
    /\[0\]\.variables: AZURE_OPENAI_ENDPOINT must be set/,
  ],
])('%s is refused, with the file, the entry and the field, and without a value', (_, content, error) => {
  const read = () => withFile(content as string, { SPARE: 'sk-secret' });
  expect(read).toThrow(error);
  expect(read).toThrow(/^MUSTER_ACCOUNTS \(.*accounts\.yaml\): /);
  expect(read).not.toThrow('sk-secret');
});

it('a file that is not there is named', () => {
  expect(() => accountsOf({ MUSTER_ACCOUNTS: '/nonexistent' })).toThrow(
    /^MUSTER_ACCOUNTS \(\/nonexistent\): can't be read/,
  );
});

it('the accounts of a provider together have a name that differs when one of them does', () => {
  const named = (...keys: string[]) =>
    accountNames(
      withFile(
        keys.map((secret, at) => ({ ...spare, name: `a${at}`, variables: { ANTHROPIC_API_KEY: secret } })),
      ),
    ).anthropic;
  expect(named('a', 'b')).toBe(named('a', 'b'));
  expect(new Set([named('a', 'b'), named('a'), named('a', 'c')]).size).toBe(3);
});
