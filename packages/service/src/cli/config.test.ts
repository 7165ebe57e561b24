import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { defaultWorkers, readConfig, readRunnerConfig } from './config.ts';
import { ConfigError, secretVariables, withSecretFiles } from './variables.ts';

test.each([
  ['MUSTER_PUBLIC_URL', 'ftp://example.com'],
  ['MUSTER_PUBLIC_URL', 'https://example.com/?a=b'],
  ['MUSTER_PORT', 'high'],
  ['MUSTER_PORT', '-1'],
  ['MUSTER_PORT', '80.5'],
  ['MUSTER_PORT', '65536'],
  ['MUSTER_WORKERS', '0'],
  ['MUSTER_WORKERS', '1.5'],
  ['MUSTER_WORKERS', '9'],
  ['MUSTER_WORKERS', 'many'],
  ['MUSTER_RUNNER', 'maybe'],
  ['MUSTER_SHUTDOWN_SECONDS', '0'],
  ['MUSTER_DRAIN_SECONDS', '-1'],
  ['MUSTER_LOG', 'loud'],
  ['MUSTER_POOLER', 'statement'],
  ['MUSTER_DEFAULT_MODEL', 'llama'],
  ['MUSTER_BOOTSTRAP_ORG', 'a/b'],
  ['MUSTER_REHEARSAL_MS', 'soon'],
  ['MUSTER_SANDBOX_READ', '/srv:tools'],
  ['ANTHROPIC_BASE_URL', 'localhost'],
])('%s="%s" is refused with a one-line error that names the variable and the value', (name, value) => {
  const read = () => readConfig({ [name]: value });
  expect(read).toThrow(ConfigError);
  expect(read).toThrow(name);
  expect(read).toThrow(value);
  expect(read).not.toThrow('\n');
});

test.each([
  ['a short secret', `mst_id.${'s'.repeat(31)}`],
  ['another prefix', `key_id.${'s'.repeat(32)}`],
  ['no id', `mst_.${'s'.repeat(32)}`],
  ['no dot', `mst_${'s'.repeat(40)}`],
])('a MUSTER_BOOTSTRAP_KEY with %s is refused without showing it', (_, key) => {
  const read = () => readConfig({ MUSTER_BOOTSTRAP_KEY: key });
  expect(read).toThrow(ConfigError);
  expect(read).toThrow('MUSTER_BOOTSTRAP_KEY');
  expect(read).not.toThrow('s'.repeat(31));
});

test.each([
  ['MUSTER_POOLER', 'transaction'],
  ['MUSTER_DIRECT_URL', 'postgres://muster:secret@localhost/muster'],
  ['MUSTER_DATABASE_PASSWORD_FILE', '/run/secrets/database'],
])('%s without DATABASE_URL is refused', (name, value) => {
  expect(() => readConfig({ [name]: value })).toThrow(`${name} is set without DATABASE_URL`);
});

test.each([
  [1, 1],
  [2, 1],
  [3, 1],
  [4, 2],
  [6, 3],
  [8, 4],
  [64, 4],
])('on %i processors there are %i workers', (processors, workers) => {
  expect(defaultWorkers(processors)).toBe(workers);
});

test('a short MUSTER_SECRET is refused', () => {
  expect(() => readConfig({ MUSTER_SECRET: 'short' })).toThrow(
    'MUSTER_SECRET must have at least 32 characters',
  );
});

test.each([
  ['not JSON', '{'],
  ['of an unknown field', '{"codehost_app/acme": {"secrets": []}}'],
])('a MUSTER_TENANT_ALLOW that is %s is refused, with a runner or without', (_, text) => {
  for (const runner of ['on', 'off']) {
    const read = () => readConfig({ MUSTER_RUNNER: runner, MUSTER_TENANT_ALLOW: text });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(/^MUSTER_TENANT_ALLOW: /);
  }
});

test('accounts and the table of models are checked at the start, and choose the default model', () => {
  const folder = mkdtempSync(join(tmpdir(), 'muster-config-'));
  try {
    const MUSTER_MODELS = join(folder, 'models.json');
    const bedrock = { CLAUDE_CODE_USE_BEDROCK: '1', AWS_REGION: 'eu-west-1', MUSTER_MODELS };
    writeFileSync(MUSTER_MODELS, '{"a": {"backend": "BACKEND_A", "provider": "bedrock"}}');
    expect(() => readConfig({ MUSTER_MODELS })).toThrow(ConfigError);
    expect(() => readConfig({ MUSTER_MODELS })).toThrow(
      /^MUSTER_MODELS: can't use .*: "a"\.name is required$/,
    );
    expect(() => readConfig({ ...bedrock, AWS_REGION: '' })).toThrow(ConfigError);
    writeFileSync(
      MUSTER_MODELS,
      '{"opus-eu": {"backend": "BACKEND_A", "name": "eu.anthropic.x", "provider": "bedrock"}}',
    );
    expect(readConfig(bedrock)).toMatchObject({ defaultModel: 'opus-eu', runner: { sandbox: 'required' } });
    const { MUSTER_MODELS: _, ...without } = bedrock;
    expect(() => readConfig(without)).toThrow(
      /^MUSTER_MODELS is missing: with CLAUDE_CODE_USE_BEDROCK, name /,
    );
    expect(readConfig({ ...without, ANTHROPIC_BEDROCK_BASE_URL: 'https://proxy.example' }).defaultModel).toBe(
      'claude-opus-4-8',
    );
    writeFileSync(MUSTER_MODELS, '{}');
    expect(() => readConfig(bedrock)).toThrow(/^MUSTER_MODELS: .* has no model of Amazon Bedrock: /);
    writeFileSync(
      MUSTER_MODELS,
      '{"opus-eu": {"backend": "BACKEND_A", "name": "eu.anthropic.x", "provider": "bedrock"}}',
    );
    expect(readConfig({ MUSTER_MODELS, MUSTER_DEFAULT_MODEL: 'opus-eu' }).defaultModel).toBe('opus-eu');
    expect(readConfig({ MUSTER_MODELS, OPENAI_API_KEY: 'k' }).defaultModel).toBe('gpt-5.5');
    const MUSTER_ACCOUNTS = join(folder, 'accounts.yaml');
    expect(() => readConfig({ MUSTER_ACCOUNTS })).toThrow(ConfigError);
    writeFileSync(MUSTER_ACCOUNTS, '[{provider: openai, name: team, variables: {OPENAI_API_KEY: k}}]');
    expect(readConfig({ MUSTER_ACCOUNTS })).toMatchObject({
      defaultModel: 'gpt-5.5',
      runner: { sandbox: 'required' },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('by default a live agent keeps its newest 200,000 timeline entries, however old they are', () => {
  const { timelineEntries, timelineDays } = readConfig({});
  expect(timelineEntries).toBe(200_000);
  expect(timelineDays).toBeGreaterThanOrEqual(36_500);
});

test('a service drains behind a proxy, which MUSTER_PUBLIC_URL names, and its runner as long; a runner by itself does not', () => {
  const secondsOf = (env: NodeJS.ProcessEnv) => {
    const { drainMs, runner } = readConfig(env);
    return [drainMs, runner?.drainMs];
  };
  expect(secondsOf({})).toEqual([0, 0]);
  expect(secondsOf({ MUSTER_PUBLIC_URL: 'https://muster.example.com' })).toEqual([5_000, 5_000]);
  expect(secondsOf({ MUSTER_PUBLIC_URL: 'https://muster.example.com', MUSTER_DRAIN_SECONDS: '0' })).toEqual([
    0, 0,
  ]);
  expect(secondsOf({ MUSTER_DRAIN_SECONDS: '7' })).toEqual([7_000, 7_000]);
  expect(readRunnerConfig({ MUSTER_PUBLIC_URL: 'https://muster.example.com' }, '/tmp').drainMs).toBe(0);
});

describe('keys in files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'muster-keys-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const fileWith = (text: string): string => {
    const file = join(folder, `${Math.random()}`);
    writeFileSync(file, text);
    return file;
  };

  test.each(secretVariables)('%s_FILE names a file with the value', (name) => {
    const env = withSecretFiles({ [`${name}_FILE`]: fileWith(' the value\n'), MUSTER_PORT: '1' });
    expect(env).toMatchObject({ [name]: 'the value', MUSTER_PORT: '1' });
  });

  test('a variable and its file at once are refused without the value', () => {
    const read = () =>
      withSecretFiles({ OPENAI_API_KEY: 'sk-value', OPENAI_API_KEY_FILE: fileWith('sk-other') });
    expect(read).toThrow(
      new ConfigError('OPENAI_API_KEY and OPENAI_API_KEY_FILE are both set: unset one of them'),
    );
  });

  test.each([
    ['missing', () => join(folder, 'missing'), 'ENOENT'],
    ['a folder', () => folder, 'EISDIR'],
    ['empty', () => fileWith(' \n'), 'is empty'],
  ])('a file that is %s is refused with its path', (_, make, problem) => {
    const file = make();
    const read = () => withSecretFiles({ MUSTER_SECRET_FILE: file });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(/^MUSTER_SECRET_FILE: /);
    expect(read).toThrow(problem);
    expect(read).toThrow(file);
  });

  test('every variable of the documentation that holds a secret can come from a file', () => {
    const page = readFileSync(new URL('../../../../docs/operations.md', import.meta.url), 'utf8');
    const secrets = new Set(page.match(/\b[A-Z][A-Z_]*_(KEY|TOKEN|SECRET|BEARER_TOKEN_BEDROCK)\b/g));
    // AWS reads its own files, and the others are examples of secrets of agents.
    const ownFiles = ['AWS_SESSION_TOKEN', 'AWS_SECRET_ACCESS_KEY', 'NPM_TOKEN', 'TRACKER_TOKEN'];
    expect([...secrets].filter((name) => ![...secretVariables, ...ownFiles].includes(name))).toEqual([]);
  });
});
