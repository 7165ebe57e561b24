import { tenantName } from '@muster/sdk/contract';
import { afterAll, expect, test } from 'vitest';
import { muster } from '../archive/archives.ts';
import { apiOf } from '../support/api.ts';
import { encode, uniqueName } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { startServer } from '../support/server.ts';
import { operatorOf, tenantOf } from '../support/tenants.ts';

const server = await startServer({ runner: false });
afterAll(() => server.close());
const operator = await operatorOf(server);
const run = (...args: string[]) =>
  muster(args, { ...server.env, MUSTER_URL: server.url, MUSTER_API_KEY: operator.key });

const firstToken = (org: string, document: object) =>
  operator.post('/v1/catalog/token/first', {
    ref: { tenant: tenantOf(org) },
    payload: encode(document),
    justification: 'a new tenant',
  });
const namesOf = async () =>
  (JSON.parse((await run('tenant', 'ls', '-o', 'json')).stdout) as { tenant: string }[]).map(
    ({ tenant }) => tenant,
  );

test.each<[document: object, field: string]>([
  [{}, 'payload.role'],
  [{ account: 'ada' }, 'payload.role'],
  [{ roel: 'admin', account: 'ada' }, 'payload.roel'],
  [{ role: 'admin', acount: 'ada' }, 'payload.acount'],
  [{ role: 'agent' }, 'payload.role'],
  [{ role: 'boss' }, 'payload.role'],
])('a token %j for a tenant that does not exist is refused, and creates none', async (document, field) => {
  const org = uniqueName('org');
  expect(await firstToken(org, document)).toMatchObject({
    status: 400,
    body: { code: 3, message: expect.stringContaining(field) },
  });
  expect(await namesOf()).not.toContain(`codehost_app/${org}`);
  expectOk(await firstToken(org, { role: 'admin', account: 'ada' }));
  expect(await namesOf()).toContain(`codehost_app/${org}`);
  // In a tenant that exists, these are open documents with a default as everywhere.
  if (field === 'payload.acount') expectOk(await firstToken(org, document));
});

test('tenants are created and listed on the server, and an operator creates their tokens', async () => {
  const name = tenantName(tenantOf(uniqueName('made')));
  const made = await run('tenant', 'create', name, '--account', 'ada');
  expect(made).toMatchObject({ code: 0, stderr: `the key of ada, admin of ${name}; shown once\n` });
  const admin = apiOf({ url: server.url, key: made.stdout.trim() });
  expect((await admin.get('/v1/whoami')).body).toMatchObject({ account: 'ada', role: 'admin' });
  const listed = await run('tenant', 'ls');
  expect(listed.stdout).toMatch(/^TENANT +STATUS *\ncodehost_app\/local +open *\n/);
  await run('tenant', 'close', name);
  expect((await run('tenant', 'ls')).stdout).toContain(`${name}  closed`);
  await run('tenant', 'open', name);

  const create = ['token', 'create', 'ci', '--tenant', name, '--account', 'ci'];
  expect(await run(...create)).toMatchObject({ code: 2, stderr: expect.stringContaining('justification') });
  const token = await run(...create, '--justification', 'for builds');
  const key = apiOf({ url: server.url, key: token.stdout.trim() });
  expect((await key.get('/v1/whoami')).body).toMatchObject({
    account: 'ci',
    role: 'member',
    tenant: { org: name.split('/')[1] },
  });
});

test.each<[args: string[], code: number, words: string]>([
  [['tenant', 'create', 'codehost_app/local'], 5, 'the tenant codehost_app/local exists already'],
  [['tenant', 'create', 'acme'], 2, 'expected a tenant as <provider>/<org>'],
  [['tenant', 'create', 'codehost_app/a*b'], 2, 'expected <provider>/<org>'],
  [['tenant', 'create', 'PROVIDER_UNSPECIFIED/acme'], 2, 'expected <provider>/<org>'],
  [['tenant', 'create', 'codehost_app/acme', '--account', 'a/b'], 2, '--account: expected at most 256'],
  [['tenant', 'create', 'codehost_app/acme', '--acount', 'a'], 2, 'unknown option'],
  [['token', 'create', 'x', '--tenant', 'acme'], 2, 'expected a tenant as <provider>/<org>'],
  [
    ['token', 'create', 'x', '--tenant', 'codehost_app/none', '--justification', 'y'],
    2,
    'payload.role: is required in the first token of a tenant: "admin" creates codehost_app/none',
  ],
])('muster %j is refused in one line', async (args, code, words) => {
  const said = await run(...args);
  expect(said).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(words) });
  expect(said.stderr.split('\n').length, said.stderr).toBe(2);
  expect(await namesOf()).not.toContain('codehost_app/acme');
});
