import type { ListedKey } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { createKey, uniqueName } from '../support/catalog.ts';
import { useDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { loginRequests } from './login-requests.ts';

const server = await useSharedServer({ runner: false });
const admin = server.api;
const database = await useDatabase(server.databaseUrl);
const { newPerson, loggedIn, whoami, keysOf, auditOf } = loginRequests(admin, server.url, database);

describe('keys', () => {
  test('are listed for their account, and for admins of all accounts, page by page', async () => {
    const mine = await newPerson();
    const theirs = await newPerson({ role: 'viewer' });
    await loggedIn(mine.api, 'my laptop');
    const own = await keysOf(mine.api);
    expect(own.map(({ kind, name, client, role }) => [kind, name, client, role]).sort()).toEqual([
      ['login', '', 'my laptop', 'member'],
      ['token', mine.name, '', 'member'],
    ]);
    expect(own.every(({ lastUsedAt }) => lastUsedAt !== null)).toBe(true);
    expectError(await mine.api.post('/v1/keys', { account: theirs.account }), 'PERMISSION_DENIED');
    expectError(await mine.api.post('/v1/keys', { account: '*' }), 'PERMISSION_DENIED');
    expect(await keysOf(admin, { account: theirs.account })).toMatchObject([
      { name: theirs.name, role: 'viewer' },
    ]);
    const all = await keysOf(admin, { account: '*' });
    const paged: ListedKey[] = [];
    let pageToken = '';
    do {
      const reply = expectOk(
        await admin.post<{ entries: ListedKey[]; nextPageToken: string }>('/v1/keys', {
          account: '*',
          pageSize: 3,
          pageToken,
        }),
      );
      paged.push(...reply.entries);
      pageToken = reply.nextPageToken;
    } while (pageToken !== '');
    expect(paged.map(({ keyId }) => keyId)).toEqual(all.map(({ keyId }) => keyId));
    expect(JSON.stringify(all)).not.toContain(mine.key.split('.')[1]);
  });

  test('of tokens are revoked by deleting the token, with its record', async () => {
    const { api, name } = await newPerson();
    const { keyId } = await whoami(api);
    expectOk(await admin.post('/v1/keys/revoke', { keyId, justification: 'left' }));
    expectError(await api.get('/v1/whoami'), 'UNAUTHENTICATED');
    expectError(await admin.get(`/v1/catalog/token/${name}`), 'NOT_FOUND');
    expect((await auditOf({ kind: 'token', name }))[0]).toMatchObject({
      action: 'DELETE',
      justification: 'left',
    });
    expectError(await admin.post('/v1/keys/revoke', { keyId }), 'NOT_FOUND');
  });

  test('of others and of other tenants can not be revoked, nor seen', async () => {
    const [mine, theirs] = await Promise.all([newPerson(), newPerson()]);
    const { keyId } = await whoami(theirs.api);
    expectError(await mine.api.post('/v1/keys/revoke', { keyId }), 'PERMISSION_DENIED');
    const { admin: chief } = await newTenant(server.operator);
    expectError(await chief.post('/v1/keys/revoke', { keyId }), 'NOT_FOUND');
    expect((await keysOf(chief, { account: '*' })).map(({ keyId }) => keyId)).not.toContain(keyId);
    expectError(await chief.post('/v1/keys', { tenant: server.tenant }), 'PERMISSION_DENIED');
    const operator = await loggedIn(await operatorHere());
    const { keyId: operatorKey } = await whoami(operator);
    expectError(await admin.post('/v1/keys/revoke', { keyId: operatorKey }), 'PERMISSION_DENIED');
    await whoami(theirs.api);
  });

  const operatorHere = async (): Promise<Api> => {
    const { api, name } = await createKey(admin, { role: 'admin', account: uniqueName('op') });
    await database.query("UPDATE keys SET role = 'operator' WHERE name = $1", [name]);
    return api;
  };
});
