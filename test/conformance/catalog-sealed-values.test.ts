import { type Claim, limits, type Service } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Answer, violation } from '../support/api.ts';
import {
  apiWithNewKey,
  type Document,
  decode,
  postResource,
  readDocument,
  uniqueName,
} from '../support/catalog.ts';
import { execute } from '../support/database.ts';
import { expectError, expectOk, normalizeField } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { history, type Page, write } from './catalog-requests.ts';

const server = await useSharedServer({ runner: false });
const { api, operator } = server;

const value = 'a value that no reply shows';

/** The secrets that a run gets whose environment has these variables. */
async function secretsOf(
  t: TestTenant,
  variables: Document,
  mcpServers: Document = {},
): Promise<Claim['secrets']> {
  const environment = uniqueName('environment');
  await write(t.api, 'environment', environment, { variables });
  await write(t.api, 'workspace', t.workspace, { environment, pool: t.workspace, mcpServers });
  const name = uniqueName('agent');
  await t.spawn(name);
  const claim = await t.start(name);
  await t.end(claim);
  return claim.secrets;
}

const secretOf = async (t: TestTenant, name: string) =>
  (await secretsOf(t, { TOKEN: { fromSecret: name } }))[0];

/** The reply as text, its payloads decoded too. */
function everything({ body }: Answer<unknown>): string {
  const text = JSON.stringify(body);
  const payloads = [...text.matchAll(/"payload":"([^"]*)"/g)].map(([, payload = '']) =>
    Buffer.from(payload, 'base64').toString(),
  );
  return [text, ...payloads].join('\n');
}

describe('a secret', () => {
  test('has a fingerprint, and its value is in no reply', async () => {
    const name = uniqueName('secret');
    const path = `/v1/catalog/secret/${name}`;
    const replies: Answer<unknown>[] = [
      await postResource(api, 'secret', name, { value, note: 'mine' }),
      await postResource(api, 'secret', name, { value, note: 'ours' }, { updateMask: 'value,note' }),
      await postResource(api, 'Secrets', name, { value, fingerprint: 'made up' }),
      await api.get(path),
      await api.get('/v1/catalog/secrets?pageSize=1000'),
      await api.get(`${path}/history`),
      await api.del(path),
      await api.get(`${path}/history`),
    ];
    for (const reply of replies) {
      expectOk(reply);
      expect(everything(reply)).not.toContain(value);
      expect(everything(reply)).not.toMatch(/"(value|sealed|secret_id)":/);
    }
    const [created, patched, replaced, read] = replies as Answer<{ payload: string }>[];
    const { fingerprint } = decode(created?.body.payload ?? '');
    expect(fingerprint).toMatch(/^[0-9a-f]{16}$/);
    for (const reply of [patched, replaced, read])
      expect(decode(reply?.body.payload ?? '')).toMatchObject({ name, fingerprint });
  });

  test('says who wrote it and when, and is listed with its fingerprint', async () => {
    const name = uniqueName('secret');
    await write(api, 'secret', name, { value });
    const { document } = await readDocument(api, 'secret', name);
    expect(document).toEqual({
      name,
      fingerprint: expect.any(String),
      createdAt: expect.any(String),
      createdBy: expect.stringContaining('/admin'),
      updatedAt: document.createdAt,
      updatedBy: document.createdBy,
    });
    const { entries } = expectOk(
      await api.get<Page<{ name: string; payload: string }>>('/v1/catalog/secret'),
    );
    const entry = entries.find((one) => one.name === name);
    expect(decode(entry?.payload ?? '')).toEqual(document);
  });

  test('has another fingerprint with another value, and the old one again with the old value', async () => {
    const name = uniqueName('secret');
    const fingerprintOf = async (text: string) =>
      decode((await write(api, 'secret', name, { value: text })).payload).fingerprint;
    const first = await fingerprintOf('one');
    expect(await fingerprintOf('two')).not.toBe(first);
    expect(await fingerprintOf('one')).toBe(first);
    const other = decode((await write(api, 'secret', uniqueName('secret'), { value: 'one' })).payload);
    expect(other.fingerprint).not.toBe(first);
  });

  test('keeps its value when it is written without one', async () => {
    const t = await newTestTenant(api);
    const name = uniqueName('secret');
    const { fingerprint } = decode((await write(api, 'secret', name, { value, note: 1 })).payload);
    const { document } = await readDocument(api, 'secret', name);
    for (const [payload, more] of [
      [{ ...document, note: 2 }, {}],
      [{ note: 3, value: null }, {}],
      [{ note: 4, value: 'left out of the mask' }, { updateMask: 'note' }],
      [{}, {}],
    ] as const)
      expect(decode((await write(api, 'secret', name, payload, more)).payload)).toMatchObject({
        fingerprint,
      });
    expect(await secretOf(t, name)).toEqual({ name, value, problem: '', earlier: [] });
  });

  test('loses its value only by a mask that names it', async () => {
    const t = await newTestTenant(api);
    const name = uniqueName('secret');
    await write(api, 'secret', name, { value, note: 1 });
    const { payload } = await write(api, 'secret', name, {}, { updateMask: 'value' });
    expect(decode(payload)).toMatchObject({ note: 1 });
    expect(decode(payload)).not.toHaveProperty('fingerprint');
    expect((await secretOf(t, name))?.problem).toBe(
      `the secret "${name}" has no value; set it: muster secret set ${name}`,
    );
    await write(api, 'secret', name, { value: 'next' }, { updateMask: 'value' });
    expect((await secretOf(t, name))?.value).toBe('next');
  });

  test.each([
    ['empty', ''],
    ['a number', 12_345_678],
    ['an object', { value }],
    ['a list', [value]],
    ['too long', 'x'.repeat(limits.secretValueBytes + 1)],
    ['too long in bytes', 'ü'.repeat(limits.secretValueBytes / 2 + 1)],
  ])('whose value is %s is refused, and the error does not repeat it', async (_, bad) => {
    const name = uniqueName('secret');
    for (const more of [{}, { updateMask: 'value', ifGenerationMatch: '0' }]) {
      const refused = await postResource(api, 'secret', name, { value: bad }, more);
      expectError(refused, 'INVALID_ARGUMENT');
      expect(normalizeField(violation(refused))).toBe('payload.value');
      expect(JSON.stringify(refused.body)).toContain(`1 to ${limits.secretValueBytes} bytes`);
      expect(JSON.stringify(refused.body).length).toBeLessThan(1000);
    }
  });

  test('may have a value of several lines, in any script, up to its limit', async () => {
    const t = await newTestTenant(api);
    const [lines, long] = [uniqueName('secret'), uniqueName('secret')];
    const text = '-----BEGIN-----\n\tπρώτη\r\n🔑\n';
    await write(api, 'secret', lines, { value: text });
    await write(api, 'secret', long, { value: 'x'.repeat(limits.secretValueBytes) });
    const secrets = await secretsOf(t, { A: { fromSecret: lines }, B: { fromSecret: long } });
    expect(secrets.map((secret) => secret.value)).toEqual([text, 'x'.repeat(limits.secretValueBytes)]);
  });

  test('is gone when it is deleted, and starts again with the next generation', async () => {
    const t = await newTestTenant(api);
    const name = uniqueName('secret');
    const first = decode((await write(api, 'secret', name, { value })).payload);
    expect(expectOk(await api.del<{ generation: string }>(`/v1/catalog/secret/${name}`)).generation).toBe(
      '2',
    );
    expect((await secretOf(t, name))?.problem).toContain(`secret "${name}" not found`);
    const again = await write(api, 'secret', name, {});
    expect(again.generation).toBe('3');
    expect(decode(again.payload)).not.toHaveProperty('fingerprint');
    const { fingerprint } = decode((await write(api, 'secret', name, { value })).payload);
    expect(fingerprint).not.toBe(first.fingerprint);
    expect((await history(api, 'secret', name)).map(({ action }) => action)).toEqual([
      'WRITE',
      'WRITE',
      'DELETE',
      'WRITE',
    ]);
  });

  test('is written by admins and operators only, and read by all of the tenant', async () => {
    const name = uniqueName('secret');
    await write(api, 'secret', name, { value });
    const { tenant } = server;
    for (const role of ['viewer', 'member'] as const) {
      const caller = await apiWithNewKey(api, { role });
      expectError(await postResource(caller, 'secret', name, { value: 'mine' }), 'PERMISSION_DENIED');
      expectError(await postResource(caller, 'secret', uniqueName('new'), { value }), 'PERMISSION_DENIED');
      expectError(await caller.del(`/v1/catalog/secret/${name}`), 'PERMISSION_DENIED');
      expect(await readDocument(caller, 'secret', name)).toEqual(await readDocument(api, 'secret', name));
    }
    const more = { ref: { tenant }, justification: 'renewed' };
    expectOk(await postResource(operator, 'secret', name, { value: 'renewed' }, more));
  });

  test('is not changed by a write with a stale generation', async () => {
    const t = await newTestTenant(api);
    const name = uniqueName('secret');
    await write(api, 'secret', name, { value });
    const stale = await postResource(api, 'secret', name, { value: 'late' }, { ifGenerationMatch: '7' });
    expectError(stale, 'FAILED_PRECONDITION');
    expect((await secretOf(t, name))?.value).toBe(value);
  });
});

describe('a run gets', () => {
  test('each secret that its environment refers to once, and no other', async () => {
    const t = await newTestTenant(api);
    const [one, other] = [uniqueName('secret'), uniqueName('secret')];
    for (const name of [one, other]) await write(api, 'secret', name, { value: `value of ${name}` });
    const variables = { A: { fromSecret: one }, B: { fromSecret: one }, C: 'plain', D: { fromRunner: 'X' } };
    expect(await secretsOf(t, variables)).toEqual([
      { name: one, value: `value of ${one}`, problem: '', earlier: [] },
    ]);
    expect(await secretsOf(t, {})).toEqual([]);
  });

  test('the secrets that the MCP servers of its workspace refer to', async () => {
    const t = await newTestTenant(api);
    const names = Array.from({ length: 3 }, () => uniqueName('secret'));
    for (const name of names) await write(api, 'secret', name, { value: `value of ${name}` });
    const [one, two, three] = names.map((name) => ({ fromSecret: name }));
    const headers = { Authorization: one, 'X-Team': { fromRunner: 'X' } };
    const secrets = await secretsOf(t, { A: two }, {
      remote: { url: 'https://example.org/mcp', headers },
      local: { command: 'x', env: { A: three, B: two, C: 'plain' } },
    } as Document);
    expect(secrets.map(({ name }) => name).sort()).toEqual([...names].sort());
    for (const { name, value: given } of secrets) expect(given).toBe(`value of ${name}`);
    // Stored before its servers were checked.
    await execute(
      server.databaseUrl,
      `UPDATE resources SET document = (document::jsonb || '{"mcpServers": {"a": {"headers": 7}}}')::json WHERE kind = 'workspace' AND name = '${t.workspace}'`,
    );
    const name = uniqueName('agent');
    await t.spawn(name);
    expect((await t.start(name)).secrets).toHaveLength(1);
  });

  test('only secrets of its own tenant', async () => {
    const { admin } = await newTenant(operator);
    const name = uniqueName('secret');
    await write(api, 'secret', name, { value });
    const missing = `secret "${name}" not found; set it: muster secret set ${name}`;
    expect(await secretOf(await newTestTenant(admin), name)).toEqual({
      name,
      value: '',
      problem: missing,
      earlier: [],
    });
  });

  test('the values that it had before, for masking; within limits', async () => {
    const t = await newTestTenant(api);
    const name = uniqueName('secret');
    for (let i = 0; i < 12; i += 1) await write(api, 'secret', name, { value: `value number ${i}` });
    await write(api, 'secret', name, { note: 'the value stays' });
    const expected = Array.from({ length: 10 }, (_, i) => `value number ${10 - i}`);
    expect(await secretOf(t, name)).toMatchObject({ value: 'value number 11', earlier: expected });
    expectOk(await api.del(`/v1/catalog/secret/${name}`));
    expect((await secretOf(t, name))?.earlier[0]).toBe('value number 11');
    for (let i = 0; i < 4; i += 1)
      await write(api, 'secret', name, { value: `${i}`.repeat(limits.secretValueBytes) });
    expect((await secretOf(t, name))?.earlier).toHaveLength(2);
  });

  test('no more of them than fits', async () => {
    const t = await newTestTenant(api);
    const count = limits.secretBytesPerRun / limits.secretValueBytes + 2;
    const names = Array.from({ length: count }, () => uniqueName('secret'));
    for (const name of names)
      await write(api, 'secret', name, { value: 'x'.repeat(limits.secretValueBytes) });
    const variables = Object.fromEntries(names.map((name, i) => [`V${i}`, { fromSecret: name }]));
    const secrets = await secretsOf(t, variables);
    expect(secrets.filter(({ problem }) => problem === '')).toHaveLength(count - 2);
    for (const { value: given, problem } of secrets.slice(-2)) {
      expect(given).toBe('');
      expect(problem).toContain(`more than ${limits.secretBytesPerRun} bytes together`);
    }
  });

  test('no value that was sealed for another secret or with an unknown service secret', async () => {
    const t = await newTestTenant(api);
    const [mine, copied, foreign] = [uniqueName('secret'), uniqueName('secret'), uniqueName('secret')];
    for (const name of [mine, copied, foreign]) await write(api, 'secret', name, { value });
    await execute(
      server.databaseUrl,
      `UPDATE resources SET sealed = (SELECT sealed FROM resources WHERE name = '${mine}') WHERE name = '${copied}'`,
    );
    await execute(server.databaseUrl, `UPDATE resources SET secret_id = 'unknown' WHERE name = '${foreign}'`);
    for (const name of [copied, foreign])
      expect(await secretOf(t, name)).toMatchObject({
        value: '',
        problem: expect.stringContaining('sealed with a service secret that this service does not have'),
      });
    const { outdatedSecrets } = expectOk(await api.get<Service>('/v1/service'));
    expect(outdatedSecrets).toEqual([{ tenant: server.tenant, kind: 'secret', name: foreign, works: false }]);
    const viewer = await apiWithNewKey(api, { role: 'viewer' });
    expect(expectOk(await viewer.get<Service>('/v1/service')).outdatedSecrets).toEqual([]);
    // A new value cures it.
    await write(api, 'secret', foreign, { value: 'cured' });
    expect((await secretOf(t, foreign))?.value).toBe('cured');
  });
});
