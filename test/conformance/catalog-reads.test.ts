import { describe, expect, test } from 'vitest';
import {
  createKey,
  decode,
  postResource,
  readDocument,
  readResource,
  uniqueName,
} from '../support/catalog.ts';
import { replySchemaProblem } from '../support/contract-schemas.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { type Audit, type Entry, everyKind, history, type Page, write } from './catalog-requests.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

describe('names and tenants', () => {
  test.each(['a', 'A.b_c-9', 'x'.repeat(128), '...', '-'])('%s is a catalog name', async (name) => {
    await write(api, 'profile', name, { note: name });
    expect((await readDocument(api, 'profile', name)).document).toMatchObject({ note: name });
  });

  test.each(['x'.repeat(129), 'a%20b', 'a%2Fb', '%C3%A4', 'a*', 'a:b', '100%25', '%2e', '%2e%2e'])(
    '%s is no catalog name: INVALID_ARGUMENT',
    async (name) => {
      const headers = { authorization: `Bearer ${server.key}` };
      const path = `/v1/catalog/profile/${name}`;
      expectError(await sendRaw(server.url, { path, headers }), 'INVALID_ARGUMENT', /name$/);
    },
  );

  test('names are case-sensitive, unlike kinds', async () => {
    const name = uniqueName('Case');
    await write(api, 'profile', name, {});
    expectError(await readResource(api, 'profile', name.toLowerCase()), 'NOT_FOUND');
  });

  test('a resource that does not exist is NOT_FOUND', async () => {
    for (const [kind] of everyKind)
      expectError(await readResource(api, kind, uniqueName('absent')), 'NOT_FOUND');
  });

  const ofTenant = (query: string): string => query.replace('OWN', server.tenant.org);
  test.each([
    ['nothing', ''],
    ['ref.tenant.*', '?ref.tenant.provider=PROVIDER_CODEHOST_APP&ref.tenant.org=OWN'],
    ['tenant.*', '?tenant.provider=PROVIDER_CODEHOST_APP&tenant.org=OWN'],
    ['provider and org', '?provider=PROVIDER_CODEHOST_APP&org=OWN'],
    ['org alone', '?org=OWN'],
    ['provider alone', '?ref.tenant.provider=PROVIDER_CODEHOST_APP'],
    ['empty and unspecified values', '?provider=PROVIDER_UNSPECIFIED&org='],
  ])("a read whose query names %s reads the caller's tenant", async (_, pattern) => {
    const query = ofTenant(pattern);
    const name = uniqueName('query');
    const path = `/v1/catalog/profile/${name}`;
    await write(api, 'profile', name, {});
    expect(expectOk(await api.get(path + query))).toMatchObject({ kind: 'profile', generation: '1' });
    expectOk(await api.get(`${path}/history${query}`));
    expectOk(await api.get(`/v1/catalog/profile${query}`));
    expectOk(await api.del(path + query));
  });

  test.each([
    '?ref.tenant.provider=PROVIDER_CODEHOST_APP&ref.tenant.org=another',
    '?tenant.provider=PROVIDER_CODEHOST_APP&tenant.org=another',
    '?provider=PROVIDER_CODEHOST_APP&org=another',
    '?ref.tenant.provider=PROVIDER_IDP_OIDC&ref.tenant.org=OWN',
    '?provider=PROVIDER_IDP_OIDC',
  ])('the query %s names another tenant: PERMISSION_DENIED', async (pattern) => {
    const query = ofTenant(pattern);
    expectError(await readResource(api, 'persona', 'default', query), 'PERMISSION_DENIED');
    expectError(await api.get(`/v1/catalog/persona${query}`), 'PERMISSION_DENIED');
    expectError(await api.get(`/v1/catalog/persona/default/history${query}`), 'PERMISSION_DENIED');
    expectError(await api.del(`/v1/catalog/persona/default${query}`), 'PERMISSION_DENIED');
  });

  test('a provider in the query that is no Provider value is INVALID_ARGUMENT', async () => {
    for (const key of ['ref.tenant.provider', 'tenant.provider', 'provider']) {
      const answer = await readResource(api, 'persona', 'default', `?${key}=CODEHOST`);
      expectError(answer, 'INVALID_ARGUMENT', key);
    }
  });

  test('the ref of a write has its tenant', async () => {
    const own = { tenant: server.tenant };
    await write(api, 'profile', uniqueName('ref'), {}, { ref: own });
    const foreign = { tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'another' } };
    expectError(
      await postResource(api, 'profile', uniqueName('ref'), {}, { ref: foreign }),
      'PERMISSION_DENIED',
    );
  });
});

describe('audit history', () => {
  test('every write adds a record: who, when, kind, name, generation, mask, justification', async () => {
    const name = uniqueName('audit');
    const { api: bob } = await createKey(api, { role: 'admin', account: 'bob' });
    await write(api, 'profile', name, { displayName: 'one' }, { justification: 'because' });
    expectOk(await postResource(bob, 'profile', name, { displayName: 'two' }, { updateMask: 'displayName' }));
    expectOk(await api.del(`/v1/catalog/profile/${name}?justification=no+longer+needed`));
    await write(api, 'profile', name, {}, { justification: '' });
    const answer = await api.get<Page<Audit>>(`/v1/catalog/profile/${name}/history`);
    const { entries } = expectOk(answer);
    expect(replySchemaProblem('resourceHistory', answer.body)).toBeUndefined();
    const [keyId, bobsKeyId] = await Promise.all(
      [api, bob].map(async (caller) => (await caller.get('/v1/whoami')).body.keyId),
    );
    expect(entries).toMatchObject([
      { action: 'WRITE', updateMask: '', justification: '', by: 'codehost_oauth/admin', keyId },
      { action: 'DELETE', justification: 'no longer needed', by: 'codehost_oauth/admin', keyId },
      {
        action: 'WRITE',
        generation: '2',
        updateMask: 'displayName',
        by: 'codehost_oauth/bob',
        keyId: bobsKeyId,
      },
      { action: 'WRITE', generation: '1', justification: 'because', by: 'codehost_oauth/admin', keyId },
    ]);
    expect(decode(entries[3]?.payload ?? '')).toMatchObject({ displayName: 'one' });
    expect(decode(entries[2]?.payload ?? '')).toMatchObject({ displayName: 'two' });
    const times = entries.map(({ at }) => Date.parse(at));
    expect(times).toEqual([...times].sort((a, b) => b - a));
  });

  test('the history outlives the resource', async () => {
    const name = uniqueName('audit');
    await write(api, 'profile', name, {});
    expectOk(await api.del(`/v1/catalog/profile/${name}`));
    expect((await history(api, 'profile', name)).map(({ action }) => action)).toEqual(['DELETE', 'WRITE']);
  });

  test('a platform operator must give a justification, which is recorded', async () => {
    const operator = server.operator;
    const name = uniqueName('operated');
    const ref = { tenant: server.tenant };
    for (const justification of [undefined, '', null]) {
      const answer = await postResource(operator, 'profile', name, {}, { ref, justification });
      expectError(answer, 'INVALID_ARGUMENT', 'justification');
    }
    expectOk(await postResource(operator, 'profile', name, {}, { ref, justification: 'ticket 7' }));
    const query = `ref.tenant.provider=PROVIDER_CODEHOST_APP&ref.tenant.org=${server.tenant.org}`;
    expectError(
      await operator.del(`/v1/catalog/profile/${name}?${query}`),
      'INVALID_ARGUMENT',
      'justification',
    );
    expectOk(await operator.del(`/v1/catalog/profile/${name}?${query}&justification=ticket+8`));
    expect(await history(api, 'profile', name)).toMatchObject([
      { action: 'DELETE', justification: 'ticket 8' },
      { action: 'WRITE', justification: 'ticket 7' },
    ]);
  });

  test('a history has pages, newest first, each record once', async () => {
    const name = uniqueName('audit');
    for (let n = 1; n <= 7; n += 1) await write(api, 'profile', name, { n });
    const seen: string[] = [];
    let token = '';
    do {
      const path = `/v1/catalog/profile/${name}/history?pageSize=3&pageToken=${encodeURIComponent(token)}`;
      const { entries, nextPageToken } = expectOk(await api.get<Page<Audit>>(path));
      expect(entries.length).toBeLessThanOrEqual(3);
      seen.push(...entries.map(({ generation }) => generation));
      token = nextPageToken;
    } while (token !== '');
    expect(seen).toEqual(['7', '6', '5', '4', '3', '2', '1']);
  });
});

describe('list and delete', () => {
  test('a list has each resource of the kind once, page by page', async () => {
    const names = Array.from({ length: 7 }, () => uniqueName('listed'));
    for (const name of names) await write(api, 'integration', name, { type: name });
    await write(api, 'profile', uniqueName('listed'), {});
    const seen: Entry[] = [];
    let token = '';
    do {
      const path = `/v1/catalog/integration?pageSize=3&pageToken=${encodeURIComponent(token)}`;
      const page = expectOk(await api.get<Page<Entry>>(path));
      expect(replySchemaProblem('listResources', page)).toBeUndefined();
      expect(page.entries.length).toBeLessThanOrEqual(3);
      seen.push(...page.entries);
      token = page.nextPageToken;
    } while (token !== '');
    expect(new Set(seen.map((entry) => entry.name)).size).toBe(seen.length);
    for (const name of names) {
      const entry = seen.find((e) => e.name === name);
      expect(entry).toMatchObject({
        kind: 'integration',
        inputFormat: 'INPUT_FORMAT_YAML',
        generation: '1',
        builtin: false,
      });
      expect(decode(entry?.payload ?? '')).toMatchObject({ type: name });
    }
    expect(new Set(seen.map(({ kind }) => kind))).toEqual(new Set(['integration']));
  });

  test('the last page has an empty nextPageToken', async () => {
    const { nextPageToken } = expectOk(await api.get<Page<Entry>>('/v1/catalog/vm-profile?pageSize=1000'));
    expect(nextPageToken).toBe('');
  });

  test.each([
    ['pageSize', 'pageSize=many'],
    ['pageSize', 'pageSize=-1'],
    ['pageSize', 'pageSize=1.5'],
    ['pageToken', 'pageToken=nonsense'],
  ])('a wrong %s is INVALID_ARGUMENT: %s', async (field, query) => {
    expectError(await api.get(`/v1/catalog/persona?${query}`), 'INVALID_ARGUMENT', field);
  });

  test('a delete removes the resource', async () => {
    const name = uniqueName('deleted');
    const path = `/v1/catalog/profile/${name}`;
    await write(api, 'profile', name, {});
    const answer = await api.del(path);
    expectOk(answer);
    expect(replySchemaProblem('deleteResource', answer.body)).toBeUndefined();
    expectError(await api.get(path), 'NOT_FOUND');
    expectError(await api.del(path), 'NOT_FOUND');
    const { entries } = expectOk(await api.get<Page<Entry>>('/v1/catalog/profile?pageSize=1000'));
    expect(entries.map((e) => e.name)).not.toContain(name);
  });

  test('a patch of a deleted resource is NOT_FOUND', async () => {
    const name = uniqueName('deleted');
    await write(api, 'profile', name, {});
    expectOk(await api.del(`/v1/catalog/profile/${name}`));
    expectError(await postResource(api, 'profile', name, {}, { updateMask: 'note' }), 'NOT_FOUND');
  });

  test('a delete checks ifGenerationMatch', async () => {
    const name = uniqueName('deleted');
    const path = `/v1/catalog/profile/${name}`;
    await write(api, 'profile', name, {});
    await write(api, 'profile', name, {});
    expectError(await api.del(`${path}?ifGenerationMatch=1`), 'FAILED_PRECONDITION');
    expectError(await api.del(`${path}?ifGenerationMatch=-1`), 'INVALID_ARGUMENT', 'ifGenerationMatch');
    expectError(await api.del(`${path}?ifGenerationMatch=x`), 'INVALID_ARGUMENT', 'ifGenerationMatch');
    expect((await readDocument(api, 'profile', name)).generation).toBe('2');
    expectOk(await api.del(`${path}?ifGenerationMatch=2`));
  });

  test('generations are per resource', async () => {
    const [one, two] = [uniqueName('own'), uniqueName('own')];
    await write(api, 'profile', one, {});
    await write(api, 'profile', one, {});
    expect((await write(api, 'profile', two, {})).generation).toBe('1');
    expect((await write(api, 'integration', one, {})).generation).toBe('1');
  });
});
