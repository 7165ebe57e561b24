import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { signatureProblem } from '../provider/clouds.ts';
import type { SeenRequest, Step } from '../provider/script.ts';
import type { ProviderStub } from '../provider/stub.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { filesBelow, readUnlessGone } from '../support/files.ts';
import { gate, patienceMs, type TestAgents, useTestService } from './test-service.ts';

/** Every kind of account on one runner; the table of models says which model uses which. */
const canary = (what: string): string => `canary-${what}-${randomBytes(12).toString('hex')}`;
const secrets = {
  bearer: canary('bearer'),
  oauth: `sk-ant-oat01-${canary('oauth')}`,
  header: canary('header'),
  aws: canary('aws'),
  awsSession: canary('session'),
  google: canary('google'),
  azure: canary('azure'),
  access: canary('access'),
  refresh: canary('refresh'),
};
const region = 'eu-central-1';

const folder = mkdtempSync(join(tmpdir(), 'muster-accounts-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const inFolder = (name: string, content: unknown): string => {
  const file = join(folder, name);
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content), { mode: 0o600 });
  return file;
};
const authFile = join(folder, 'auth.json');

const models = {
  'opus-direct': { backend: 'BACKEND_A', name: 'claude-opus-4-8', provider: 'anthropic' },
  'opus-eu': { backend: 'BACKEND_A', name: 'eu.anthropic.claude-opus-4-8-v1:0', provider: 'bedrock' },
  'opus-google': { backend: 'BACKEND_A', name: 'claude-opus-4-8@20260301', provider: 'vertex' },
  'gpt-azure': { backend: 'BACKEND_B', name: 'team-deployment', provider: 'azure', model: 'gpt-5.5' },
  'gpt-chatgpt': { backend: 'BACKEND_B', name: 'gpt-5.5', provider: 'chatgpt' },
};

function environmentOf(stub: ProviderStub): Record<string, string> {
  const login = {
    id_token: 'id',
    access_token: secrets.access,
    refresh_token: secrets.refresh,
    account_id: 'acc-1',
  };
  inFolder('auth.json', { OPENAI_API_KEY: null, tokens: login, kept: 'as it is' });
  return {
    MUSTER_MODELS: inFolder('models.json', models),
    ANTHROPIC_AUTH_TOKEN: secrets.bearer,
    ANTHROPIC_CUSTOM_HEADERS: `X-Team: ${secrets.header}\nX-Other: 1`,
    CLAUDE_CODE_USE_BEDROCK: '1',
    ANTHROPIC_BEDROCK_BASE_URL: stub.url,
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: 'AKIASTUB',
    AWS_SECRET_ACCESS_KEY: secrets.aws,
    AWS_SESSION_TOKEN: secrets.awsSession,
    CLAUDE_CODE_USE_VERTEX: '1',
    ANTHROPIC_VERTEX_BASE_URL: `${stub.url}/v1`,
    ANTHROPIC_VERTEX_PROJECT_ID: 'team-project',
    CLOUD_ML_REGION: 'europe-west1',
    GOOGLE_APPLICATION_CREDENTIALS: inFolder('google.json', {
      type: 'external_account',
      audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/p',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      token_url: `${stub.url}/login/google`,
      credential_source: { file: inFolder('google.jwt', secrets.google) },
    }),
    AZURE_OPENAI_ENDPOINT: stub.url,
    AZURE_OPENAI_API_KEY: secrets.azure,
    MUSTER_CODEX_AUTH: authFile,
    MUSTER_CHATGPT_URL: `${stub.url}/backend-api/codex`,
    CODEX_REFRESH_TOKEN_URL_OVERRIDE: `${stub.url}/login/chatgpt`,
    MUSTER_LIMIT_WAIT_SECONDS: '0',
  };
}

let agents: TestAgents;
/** Agents of a runner whose only account of Claude is a token of `claude setup-token`. */
let team: TestAgents;
const visited: string[] = [];
const service = useTestService({ env: environmentOf }, async (started) => {
  agents = await started.emptyWorkspace();
  const pool = uniqueName('oauth');
  await writeResource(started.api, 'pool', pool, {});
  await started.runner(pool, {
    // An empty variable is not set.
    ANTHROPIC_API_KEY: '',
    CLAUDE_CODE_OAUTH_TOKEN: secrets.oauth,
    MUSTER_MODELS: join(folder, 'models.json'),
  });
  team = await started.emptyWorkspace({ pool });
});

async function play(model: string, ...steps: readonly Step[]) {
  const name = uniqueName('agent');
  const marker = service().script(...steps);
  visited.push(name);
  await agents.spawn(name, { model, description: `Do it. ${marker}` });
  const status = await agents.idle(name);
  return { name, marker, status, requests: service().stub.requestsOf(marker) };
}

/** A command whose output says what the agent's processes know. */
const look: Step = {
  shell: 'env; cat /proc/[0-9]*/environ | tr "\\0" "\\n"; cat /proc/[0-9]*/cmdline | tr "\\0" " "',
};
const said: Step = { say: 'That was all.' };

const logins = (which: string) => service().stub.logins.filter(({ path }) => path === `/login/${which}`);

const expectations: Record<keyof typeof models, (request: SeenRequest) => void> = {
  'opus-direct': ({ path, headers }) => {
    expect(path).toBe('/v1/messages');
    expect(headers).toMatchObject({ authorization: `Bearer ${secrets.bearer}`, 'x-team': secrets.header });
    expect(headers).not.toHaveProperty('x-api-key');
  },
  'opus-eu': (request) => {
    expect(request.path).toBe('/model/eu.anthropic.claude-opus-4-8-v1:0/invoke-with-response-stream');
    expect(request.body).toMatchObject({ anthropic_version: 'bedrock-2023-05-31' });
    expect(request.headers['x-amz-security-token']).toBe(secrets.awsSession);
    expect(signatureProblem(request, { secret: secrets.aws, region })).toBeUndefined();
  },
  'opus-google': ({ path, headers, body }) => {
    const place = 'projects/team-project/locations/europe-west1/publishers/anthropic';
    expect(path).toBe(`/v1/${place}/models/claude-opus-4-8@20260301:streamRawPredict`);
    expect(body).toMatchObject({ anthropic_version: 'vertex-2023-10-16', stream: true });
    expect(headers.authorization).toBe(`Bearer ${logins('google').at(-1)?.token}`);
  },
  'gpt-azure': ({ path, headers, body }) => {
    expect(path).toBe('/openai/v1/responses');
    expect(headers).toMatchObject({ 'api-key': secrets.azure });
    expect(headers).not.toHaveProperty('authorization');
    expect(body.model).toBe('team-deployment');
  },
  'gpt-chatgpt': ({ path, headers }) => {
    expect(path).toBe('/backend-api/codex/responses');
    expect(headers).toMatchObject({
      authorization: `Bearer ${secrets.access}`,
      'chatgpt-account-id': 'acc-1',
    });
  },
};

describe('the account that the table of models names', () => {
  it.concurrent.each(Object.keys(models) as (keyof typeof models)[])(
    '%s: signs the requests, meters the answers, and nothing of it is in the sandbox',
    async (model) => {
      const { name, status, requests } = await play(model, look, said);
      expect(status).toMatchObject({ model, response: 'That was all.', phaseReason: 'RESTING' });
      expect(requests.length).toBeGreaterThanOrEqual(2);
      for (const request of requests) expectations[model](request);
      expect(status).toMatchObject({ inputTokens: '200', outputTokens: '20' });
      expect(status.cost).toBeCloseTo(0.001 + 20 * (model.startsWith('opus') ? 25e-6 : 30e-6), 9);
      expect(await agents.warnings(name)).toEqual([]);
      const output = (await agents.texts(name, 'TOOL_RESULT')).join('\n');
      expect(output).toContain('HOME=');
      for (const secret of Object.values(secrets)) expect(output).not.toContain(secret);
    },
    patienceMs,
  );

  it.concurrent('a token of claude setup-token is a bearer token with the beta of Claude Code', async ({
    expect,
  }) => {
    const marker = service().script(look, said);
    await team.spawn('subscriber', { model: 'claude-opus-4-8', description: marker });
    expect(await team.idle('subscriber')).toMatchObject({ response: 'That was all.' });
    for (const { headers, body } of service().stub.requestsOf(marker)) {
      expect(headers.authorization).toBe(`Bearer ${secrets.oauth}`);
      expect(headers['anthropic-beta']).toMatch(/(^|,)claude-code-\d+,.*,oauth-2025-04-20$/);
      expect(JSON.stringify(body.system)).toMatch(/You are (Claude Code|a Claude agent)/);
    }
    expect((await team.texts('subscriber', 'TOOL_RESULT')).join()).not.toContain(secrets.oauth);
  });
});

describe('credentials of a cloud', () => {
  const expired = { message: 'The security token included in the request is expired' };
  it.concurrent.each([
    ['opus-eu', { status: 403, body: expired, headers: { 'x-amzn-errortype': 'ExpiredTokenException' } }],
    ['opus-google', { status: 401, body: { error: { code: 401, status: 'UNAUTHENTICATED' } } }],
  ] as const)(
    '%s: are renewed when they are refused, and the request is repeated',
    async (model, refusal) => {
      const before = logins('google').length;
      const { name, status, requests } = await play(model, { ...refusal, times: 1 }, said);
      expect(status).toMatchObject({ response: 'That was all.', phaseReason: 'RESTING' });
      expect(requests.length).toBe(2);
      expect(requests[0]?.text).toBe(requests[1]?.text);
      const [last] = requests.slice(-1);
      if (last) expectations[model](last);
      if (model === 'opus-google') expect(logins('google').length).toBe(before + 1);
      expect(await agents.warnings(name)).toEqual([]);
    },
  );
});

describe('a ChatGPT login', () => {
  it('that is refused is renewed once for two runs, written back, and both requests are repeated', async () => {
    const before = logins('chatgpt').length;
    // Both requests have been sent before the first is refused.
    const refusal = gate();
    const steps: Step[] = [{ until: refusal.promise }, { status: 401, times: 1 }, said];
    const sent = service().stub.requests.length;
    const playing = [play('gpt-chatgpt', ...steps), play('gpt-chatgpt', ...steps)];
    await service().stub.whenSeen(() => service().stub.requests.length >= sent + 2);
    refusal.open();
    const both = await Promise.all(playing);
    const [login, ...others] = logins('chatgpt').slice(before);
    expect(others).toEqual([]);
    expect(JSON.parse(login?.text ?? '')).toMatchObject({
      grant_type: 'refresh_token',
      refresh_token: secrets.refresh,
    });
    for (const { name, status, requests } of both) {
      expect(status).toMatchObject({ response: 'That was all.', phaseReason: 'RESTING' });
      expect(requests.map(({ headers }) => headers.authorization)).toEqual([
        `Bearer ${secrets.access}`,
        `Bearer ${login?.token}`,
      ]);
      expect(await agents.warnings(name)).toEqual([]);
    }
    const stored = JSON.parse(readFileSync(authFile, 'utf8')) as Record<string, Record<string, string>>;
    expect(stored).toMatchObject({
      kept: 'as it is',
      tokens: { access_token: login?.token, account_id: 'acc-1' },
    });
    expect(stored.tokens?.refresh_token).toMatch(/^canary-refresh-/);
    expect(statSync(authFile).mode & 0o777).toBe(0o600);
  });
});

it('a model whose account the runner lacks blocks the agent, and says what is missing', async () => {
  await team.spawn('misplaced', { model: 'opus-eu', description: 'x' });
  const status = await team.idle('misplaced');
  expect(status).toMatchObject({ phaseReason: 'BLOCKED', error: { code: 'MODEL_UNKNOWN' } });
  expect(status.error?.message).toContain(
    'needs an account of Amazon Bedrock, which this runner does not have',
  );
});

it('the names of the table are offered, and refusals list them', async () => {
  const { models: offered } = (await service().api.get<{ models: { model: string }[] }>('/v1/service')).body;
  expect(offered.map(({ model }) => model)).toEqual(Object.keys(models));
  const refused = await service().api.post('/v1/agent/spawn', {
    description: 'x',
    model: 'eu.anthropic.claude-opus-4-8-v1:0',
  });
  expect(refused.status).toBe(400);
  expect(JSON.stringify(refused.body)).toContain("this service's own: opus-direct, opus-eu");
});

it('no credential is in a timeline, a status, the log, the database or a file of an agent', async () => {
  const tokens = service().stub.logins.map(({ token }) => token);
  const all = [
    ...Object.values(secrets),
    ...tokens,
    readFileSync(authFile, 'utf8').match(/canary-refresh-\w+/)?.[0] ?? '',
  ];
  const answers = await Promise.all(
    visited.map(async (name) => [await agents.status(name), await agents.timeline(name)]),
  );
  const tables = await service().query<{ name: string }>(
    `SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables
     WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`,
  );
  const rows: unknown[] = [];
  for (const { name } of tables)
    rows.push(await service().query(`SELECT row_to_json(t)::text AS row FROM ${name} t`));
  const texts = [
    JSON.stringify(answers),
    service().server.output.join(''),
    JSON.stringify(rows),
    ...filesBelow(join(service().server.env.MUSTER_DATA ?? '', 'agents')).map(readUnlessGone),
  ];
  expect(all.every((secret) => secret.length > 16)).toBe(true);
  expect(texts.length).toBeGreaterThan(20);
  for (const secret of all) expect(texts.filter((text) => text.includes(secret))).toEqual([]);
});
