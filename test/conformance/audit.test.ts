import type { AuditEntry } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Api, agent } from '../support/api.ts';
import { createKey, decode, deleteResource, uniqueName, writeResource } from '../support/catalog.ts';
import { useDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { browserOf } from '../support/sign-in.ts';
import { newTenant } from '../support/tenants.ts';

const server = await useSharedServer({ runner: false });
const admin = server.api;
const database = await useDatabase(server.databaseUrl);

interface Page {
  readonly entries: AuditEntry[];
  readonly nextPageToken: string;
}

const page = async (api: Api, request = {}): Promise<Page> =>
  expectOk(await api.post<Page>('/v1/audit', request));
const audit = async (request = {}, api = admin): Promise<AuditEntry[]> => (await page(api, request)).entries;

async function allPages(request: object): Promise<AuditEntry[]> {
  const entries: AuditEntry[] = [];
  let pageToken = '';
  do {
    const next = await page(admin, { ...request, pageToken });
    entries.push(...next.entries);
    pageToken = next.nextPageToken;
  } while (pageToken !== '');
  return entries;
}

describe('the audit', () => {
  test('has the writes of the catalog with who, when and why, and their documents if asked for', async () => {
    const name = uniqueName('audited');
    await writeResource(admin, 'persona', name, { instructions: 'one' }, { justification: 'first' });
    await writeResource(admin, 'persona', name, { instructions: 'two' }, { updateMask: 'instructions' });
    await deleteResource(admin, 'persona', name);
    const entries = await audit({ name, documents: true });
    expect(entries).toMatchObject([
      { action: 'DELETE', generation: '3', payload: '' },
      { action: 'WRITE', generation: '2', updateMask: 'instructions' },
      {
        ...{ actor: 'codehost_oauth/admin', kind: 'persona', name, action: 'WRITE', generation: '1' },
        ...{ justification: 'first', previousPayload: '', details: {} },
      },
    ]);
    const texts = entries.flatMap(({ payload, previousPayload }) =>
      [payload, previousPayload].map((text) => (text ? decode(text).instructions : '')),
    );
    expect(texts).toEqual(['', 'two', 'two', 'one', 'one', '']);
    expect(await audit({ name })).toMatchObject(Array(3).fill({ payload: '', previousPayload: '' }));
  });

  test('has sign-ins, sessions that another person ended, kills of the agents of others, and drained runners', async () => {
    const account = uniqueName('mia');
    const { key, api } = await createKey(admin, { role: 'member', account });
    const { session } = await browserOf(server.url, key);
    expectOk(await admin.post('/v1/session/revoke', { id: session.id }));
    const [mine, own] = [uniqueName('theirs'), uniqueName('own')];
    for (const name of [mine, own])
      expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'x' }));
    expectOk(await admin.post('/v1/agent/kill', { agentId: { ...agent(mine), account } }));
    expectOk(await api.post('/v1/agent/kill', { agentId: agent(own) }));
    // A repeated one changes nothing.
    expectOk(await admin.post('/v1/agent/kill', { agentId: { ...agent(mine), account } }));
    const who = `codehost_oauth/${account}`;
    const about = (await audit({ text: account })).filter(({ kind }) => kind !== 'token');
    expect(about.map(({ actor, kind, action, name }) => [actor, kind, action, name])).toEqual([
      ['codehost_oauth/admin', 'agent', 'KILL', mine],
      ['codehost_oauth/admin', 'session', 'REVOKE', who],
      [who, 'session', 'SIGN_IN', who],
    ]);
    expect(about[0]?.details).toMatchObject({ account: who, workspace: 'default' });
  });

  test('can be filtered by time, actor, kind, action, name and text, and pages show every record once', async () => {
    const account = uniqueName('zoe');
    const { api } = await createKey(admin, { role: 'member', account });
    const names = Array.from({ length: 7 }, (_, i) => `${account}-${i}`);
    for (const name of names)
      await writeResource(
        api,
        'persona',
        name,
        { instructions: name },
        { justification: `Because OF ${name}` },
      );
    // All at one time, as writes of several nodes may be.
    await database.query(
      `UPDATE resource_history SET at = '2026-11-01T00:00:00.001Z' WHERE name LIKE '${account}-%'`,
    );
    await database.query(
      `INSERT INTO audit (tenant, at, id, actor, key_id, kind, action, name, justification, details)
       SELECT k.tenant, '2026-11-01T00:00:00.001Z', gen_random_uuid(), 'codehost_oauth/' || k.account, '', 'session', 'SIGN_IN', n::text, '', '{}'
       FROM keys k, generate_series(1, 4) n WHERE k.account = '${account}'`,
    );
    const actor = `codehost_oauth/${account}`;
    for (const pageSize of [1, 3, 5])
      expect((await allPages({ actor, pageSize })).map(({ name }) => name).sort()).toEqual(
        [...names, '1', '2', '3', '4'].sort(),
      );
    const unfiltered = { from: '2026-11-01T00:00:00Z', to: '2026-11-01T00:00:01Z', pageSize: 2 };
    expect(await allPages(unfiltered)).toHaveLength(11);
    expect(await audit({ ...unfiltered, to: '2026-11-01T00:00:00.001Z' })).toEqual([]);
    expect(await audit({ text: `because of ${account}-3` })).toMatchObject([{ name: `${account}-3` }]);
    expect(await audit({ actor, kind: 'session' })).toHaveLength(4);
    expect(await audit({ actor, kind: 'persona', action: 'WRITE' })).toHaveLength(7);
    expect(await audit({ actor, kind: 'persona', action: 'DELETE' })).toEqual([]);
    expectError(await admin.post('/v1/audit', { kind: 'nothing' }), 'INVALID_ARGUMENT');
    const { nextPageToken } = await page(admin, { actor, pageSize: 1 });
    expectError(await admin.post('/v1/audit', { pageToken: nextPageToken }), 'INVALID_ARGUMENT');
  });

  test('is for admins, and has only their tenant', async () => {
    for (const role of ['member', 'viewer', 'runner']) {
      const { api } = await createKey(admin, { role });
      expectError(await api.post('/v1/audit'), 'PERMISSION_DENIED');
    }
    const { tenant, admin: chief } = await newTenant(server.operator);
    expect(await audit({}, chief)).toMatchObject([
      { kind: 'token', actor: expect.stringMatching('operator') },
    ]);
    expectError(await chief.post('/v1/audit', { tenant: server.tenant }), 'PERMISSION_DENIED');
    expect(await audit({ tenant }, server.operator)).toHaveLength(1);
  });

  test('has no secret', async () => {
    const { key, name } = await createKey(admin, { role: 'viewer' });
    await writeResource(admin, 'secret', name, { value: 'sealed-value-1' });
    const entries = await audit({ name, documents: true });
    const text = JSON.stringify(entries.map((entry) => ({ ...entry, payload: decode(entry.payload) })));
    expect(entries).toHaveLength(2);
    for (const secret of [key.split('.')[1] ?? '', 'sealed-value-1']) expect(text).not.toContain(secret);
  });
});
