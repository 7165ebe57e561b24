import { networkInterfaces } from 'node:os';
import { type AgentId, type AgentStatus, needsKey } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { version } from '../../packages/service/src/lib/version.ts';
import { agent, apiOf } from '../support/api.ts';
import { createKey, encode, postResource, readDocument, uniqueName } from '../support/catalog.ts';
import { routeEntries } from '../support/contract-schemas.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useTwoNodes } from '../support/shared-server.ts';
import { openRequest } from '../support/streams.ts';
import { metricsKey, newTenant } from '../support/tenants.ts';
import { agentOf, callersOfEachRole, untilRefused, whoami } from './role-callers.ts';

const { secondUrl, ...server } = await useTwoNodes();
const { admin, operator, member, viewer } = await callersOfEachRole(server);

describe('credentials', () => {
  test('every request has a bearer key of the form <key_prefix>_<key_id>.<secret>', async () => {
    const { key, api } = await createKey(admin, {});
    expect(key).toMatch(/^mst_[^_.]+\.[^.]+$/);
    expect((await whoami(api)).keyId).toBe(/^mst_([^.]+)\./.exec(key)?.[1]);
    const secret = key.slice(key.indexOf('.') + 1);
    expect(secret.length * Math.log2(64), 'at least 160 random bits').toBeGreaterThanOrEqual(160);
  });

  /** Routes without a key are tested in sign-in.test.ts. */
  const keyed = routeEntries.filter(([, route]) => needsKey(route));

  test.each(keyed)('%s without a credential is UNAUTHENTICATED', async (_, route) => {
    const path = route.path
      .replace('{pool}', 'default')
      .replace('{ref.kind}', 'persona')
      .replace('{ref.name}', 'default');
    const answer = await sendRaw(server.url, { method: route.method, path });
    expectError(answer, 'UNAUTHENTICATED');
  });

  test.each<[what: string, header: (key: string) => string]>([
    ['empty', () => ''],
    ['a scheme without a key', () => 'Bearer'],
    ['a scheme and a space', () => 'Bearer '],
    ['a key without a scheme', (key) => key],
    ['another scheme', (key) => `Basic ${Buffer.from(`x:${key}`).toString('base64')}`],
    ['a word', () => 'Bearer secret'],
    ['another prefix', (key) => `Bearer ${key.replace('mst_', 'key_')}`],
    ['no prefix', (key) => `Bearer ${key.replace('mst_', '')}`],
    ['no secret', (key) => `Bearer ${key.split('.')[0]}`],
    ['an empty secret', (key) => `Bearer ${key.split('.')[0]}.`],
    ['no key id', (key) => `Bearer mst_.${key.split('.')[1]}`],
    ['a beginning of the secret', (key) => `Bearer ${key.slice(0, -1)}`],
    ['the secret and one character more', (key) => `Bearer ${key}x`],
    ['something behind the key', (key) => `Bearer ${key} anything`],
    ['the key twice', (key) => `Bearer ${key} ${key}`],
    ['the secret twice', (key) => `Bearer ${key}.${key.split('.')[1]}`],
    ['another last character', (key) => `Bearer ${key.slice(0, -1)}${key.endsWith('a') ? 'b' : 'a'}`],
    ['the secret in another case', (key) => `Bearer ${flip(key)}`],
    ['an unknown key id', (key) => `Bearer mst_unknown.${key.split('.')[1]}`],
    ['a wrong secret', (key) => `Bearer ${key.split('.')[0]}.${'wrong'.repeat(8)}`],
    ['SQL', (key) => `Bearer ${key.split('.')[0]}' or '1'='1.x`],
    ['ten thousand characters long', () => `Bearer mst_${'x'.repeat(5_000)}.${'x'.repeat(5_000)}`],
  ])('an Authorization header that is %s is UNAUTHENTICATED', async (_, header) => {
    const { key } = await createKey(admin, {});
    const headers = { authorization: header(key) };
    const answer = await sendRaw(server.url, { method: 'GET', path: '/v1/whoami', headers });
    expectError(answer, 'UNAUTHENTICATED');
    expect(answer.text).not.toContain(key.split('.')[1]);
  });

  const flip = (key: string): string => {
    const dot = key.indexOf('.');
    const tail = key
      .slice(dot + 1)
      .replace(/[a-z]/i, (letter) =>
        letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
      );
    return `${key.slice(0, dot)}.${tail}`;
  };

  test('a key in the query or in the body is not a credential', async () => {
    const { key } = await createKey(admin, {});
    const path = `/v1/agents?access_token=${key}&key=${key}`;
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ key, authorization: `Bearer ${key}` });
    expectError(await sendRaw(server.url, { path, headers, body }), 'UNAUTHENTICATED');
  });

  test('one key id with the secret of another is UNAUTHENTICATED', async () => {
    const [one, two] = [await createKey(admin, {}), await createKey(admin, {})];
    const mixed = `${one.key.split('.')[0]}.${two.key.split('.')[1]}`;
    expectError(await admin.as(mixed).get('/v1/whoami'), 'UNAUTHENTICATED');
  });

  test('tenant and account of an agent are the caller’s when omitted', async () => {
    const name = uniqueName('derived');
    const body = { agentId: agent(name), description: 'x' };
    const { agentId } = expectOk(await member.post<{ agentId: AgentId }>('/v1/agent/spawn', body));
    expect(agentId).toEqual({
      tenant: server.tenant,
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'mia',
      agent: [name],
      workspace: 'default',
    });
  });

  test('whoami returns tenant, owner, key id, role, expiry and version, and nothing else', async () => {
    expect(await whoami(admin)).toEqual({
      tenant: server.tenant,
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'admin',
      keyId: /^mst_([^.]+)\./.exec(server.key)?.[1],
      role: 'admin',
      expiresAt: null,
      version,
    });
    const expiresAt = '2099-01-01T00:00:00.000Z';
    const document = {
      role: 'viewer',
      ownerProvider: 'PROVIDER_SERVICE_PROFILE',
      account: 'robot',
      expiresAt,
    };
    const { api } = await createKey(admin, document);
    const seen = await whoami(api);
    expect(seen).toMatchObject({
      role: 'viewer',
      ownerProvider: 'PROVIDER_SERVICE_PROFILE',
      account: 'robot',
    });
    expect(new Date(seen.expiresAt ?? 0)).toEqual(new Date(expiresAt));
  });
});

describe('revocation and expiry', () => {
  const revocations: [how: string, revoke: (name: string) => Promise<unknown>][] = [
    ['deleted', (name) => admin.del(`/v1/catalog/token/${name}`)],
    ['rotated', (name) => postResource(admin, 'token', name, { role: 'member', rotate: true })],
    [
      'given an expiry in the past',
      (name) =>
        postResource(
          admin,
          'token',
          name,
          { expiresAt: '2020-01-01T00:00:00Z' },
          { updateMask: 'expiresAt' },
        ),
    ],
  ];

  test.each(revocations)('a key whose token was %s stops working within 5 s', async (_, revoke) => {
    const { name, api } = await createKey(admin, { role: 'member' });
    await whoami(api);
    await revoke(name);
    await untilRefused(api);
  });

  test.each(revocations)('a key whose token was %s loses its open wait and streams', async (_, revoke) => {
    const { name, api } = await createKey(admin, { role: 'member' });
    const agentId = await agentOf(admin, 'admin');
    const wait = openRequest(api, '/v1/agent/wait', { agentId });
    const waitMany = openRequest(api, '/v1/agents/wait', { agentIds: [agentId] });
    const timeline = openRequest(api, '/v1/agent/timeline/stream', { agentId });
    const list = openRequest(api, '/v1/agents/stream', {});
    expect(await timeline.opened).toBe(200);
    expect(await list.opened).toBe(200);
    await revoke(name);
    for (const held of [wait, waitMany]) {
      const ending = await held.ended;
      if (!ending.cut && ending.status !== 200) expect(ending.status).toBe(401);
      expect(ending.text, 'no status reached the revoked key').not.toContain('"phase"');
    }
    await timeline.ended;
    await list.ended;
  });

  test('a key stops working when it expires, and so does its stream', async () => {
    const expiresAt = new Date(Date.now() + 2_000).toISOString();
    const { api } = await createKey(admin, { role: 'viewer', expiresAt });
    expect(new Date((await whoami(api)).expiresAt ?? 0)).toEqual(new Date(expiresAt));
    const stream = openRequest(api, '/v1/agents/stream', {});
    expect(await stream.opened).toBe(200);
    await untilRefused(api);
    await stream.ended;
  });

  test('revoking one key leaves the others of its account alone', async () => {
    const [one, two] = [await createKey(admin, {}), await createKey(admin, {})];
    expectOk(await admin.del(`/v1/catalog/token/${one.name}`));
    await untilRefused(one.api);
    await whoami(two.api);
  });

  test('a revoked runner key gets no more work', async () => {
    const { name, api } = await createKey(admin, { role: 'runner', pool: 'default' });
    expectOk(await admin.del(`/v1/catalog/token/${name}`));
    await untilRefused(api);
  });

  test('a token that is deleted and created again under its name does not revive the old key', async () => {
    const { name, api } = await createKey(admin, {});
    expectOk(await admin.del(`/v1/catalog/token/${name}`));
    const { api: fresh } = await createKey(admin, {}, {}, name);
    await untilRefused(api);
    await whoami(fresh);
  });

  test('a revocation reaches every node within 5 s', async () => {
    const { name, key } = await createKey(admin, {});
    const there = apiOf({ url: secondUrl, key });
    expectOk(await there.get('/v1/whoami'));
    const stream = openRequest(there, '/v1/agents/stream', {});
    expect(await stream.opened).toBe(200);
    expectOk(await admin.del(`/v1/catalog/token/${name}`));
    await untilRefused(there);
    await stream.ended;
  });
});

describe('metrics', () => {
  const metrics = async (url: string, key?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    return sendRaw(url, { method: 'GET', path: '/metrics', headers });
  };

  test('from the loopback /metrics needs no key', async () => {
    const { status, text } = await metrics(server.url);
    expect(status).toBe(200);
    expect(text).toMatch(/^# (HELP|TYPE) /m);
  });

  test.each(['attacker.example', 'localhost.attacker.example:8420', '192.168.1.5'])(
    'at Host "%s" /metrics needs an operator’s key, also from the loopback',
    async (host) => {
      const read = (headers: Record<string, string>) =>
        sendRaw(server.url, { method: 'GET', path: '/metrics', headers });
      expectError(await read({ host }), 'UNAUTHENTICATED');
      const authorization = `Bearer ${operator.key}`;
      expect((await read({ host, authorization })).status).toBe(200);
      expect((await read({ host: 'localhost:9000' })).status).toBe(200);
    },
  );

  test.each(['Forwarded', 'X-Forwarded-For', 'X-Forwarded-Host', 'X-Forwarded-Proto', 'X-Real-IP', 'Via'])(
    'through a proxy that sends %s /metrics needs a key, whatever it forwards as Host',
    async (header) => {
      const headers = { host: 'localhost', [header]: '127.0.0.1' };
      expectError(await sendRaw(server.url, { method: 'GET', path: '/metrics', headers }), 'UNAUTHENTICATED');
    },
  );

  test('a key of role metrics reads /metrics and nothing else, and only an operator makes one', async () => {
    const { key, api } = await metricsKey(operator, server.tenant);
    const headers = { host: 'muster.example', authorization: `Bearer ${key}` };
    expect((await sendRaw(server.url, { method: 'GET', path: '/metrics', headers })).status).toBe(200);
    expect((await whoami(api)).role).toBe('metrics');
    expectError(await api.post('/v1/agents', {}), 'PERMISSION_DENIED');
    expectError(await api.post('/mcp', {}), 'PERMISSION_DENIED');
    for (const caller of [admin, member])
      expectError(
        await postResource(caller, 'token', uniqueName('prometheus'), { role: 'metrics' }),
        'PERMISSION_DENIED',
      );
  });

  test('/metrics has no tenant labels', async () => {
    const { tenant, admin: chief } = await newTenant(operator);
    const account = uniqueName('chief');
    const { api } = await createKey(chief, { role: 'member', account });
    const name = uniqueName('measured');
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'x' }));
    expectOk(await api.post<AgentStatus>('/v1/agent/status', { agentId: agent(name) }));
    const { text } = await metrics(server.url);
    for (const word of [tenant.org, account, name, 'local"']) expect(text).not.toContain(word);
    expect(text).not.toMatch(/\b(tenant|org|account)=/);
  });

  const address = Object.values(networkInterfaces())
    .flat()
    .find((i) => i && !i.internal && i.family === 'IPv4')?.address;

  test.skipIf(address === undefined)('from elsewhere /metrics needs an operator’s key', async () => {
    const url = `http://${address}:${new URL(secondUrl).port}`;
    expectError(await metrics(url), 'UNAUTHENTICATED');
    expectError(await metrics(url, 'mst_none.none'), 'UNAUTHENTICATED');
    for (const caller of [viewer, member, admin]) {
      expectError(await metrics(url, caller.key), 'PERMISSION_DENIED');
    }
    expect((await metrics(url, operator.key)).status).toBe(200);
    const forged = { 'x-forwarded-for': '127.0.0.1', host: 'localhost' };
    const sent = await sendRaw(url, { method: 'GET', path: '/metrics', headers: forged });
    expectError(sent, 'UNAUTHENTICATED');
  });
});

test('the document of a token shows role and owner, and never the key', async () => {
  const { name, key } = await createKey(admin, { role: 'viewer', account: 'ann' });
  const { document } = await readDocument(admin, 'token', name);
  expect(document).toMatchObject({ role: 'viewer', account: 'ann' });
  expect(encode(document)).not.toContain(key);
  expect(JSON.stringify(document)).not.toContain(key.split('.')[1]);
});

test('no reply below /v1 may be cached, one-time secrets included', async () => {
  const agentId = await agentOf(admin, 'mia');
  const answers = [
    await postResource(admin, 'token', uniqueName('key'), {}),
    await postResource(admin, 'share-link', uniqueName('link'), { agentId }),
    await postResource(admin, 'integration', uniqueName('integration'), {}),
    await admin.get('/v1/whoami'),
    await admin.post('/v1/agent/status', { agentId }),
    await admin.as('mst_none.none').get('/v1/whoami'),
    await member.get('/v1/catalog/persona/none'),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 401, 404]);
  expect(answers.map(({ headers }) => headers.get('cache-control'))).toEqual(answers.map(() => 'no-store'));
});
