import { limits } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { newMember, postResource, uniqueName } from '../support/catalog.ts';
import { execute } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { history, write } from './catalog-requests.ts';

const server = await useSharedServer({ runner: false });

/** Adds documents of one kind to a tenant, of this size. */
const fill = (org: string, kind: string, count: number, bytes: number, createdBy = 'somebody') =>
  execute(
    server.databaseUrl,
    `INSERT INTO resources (tenant, kind, name, generation, document, bytes, created_by, indexed)
     SELECT id, '${kind}', 'a' || n, 1, '{}', ${bytes}, '${createdBy}', 1
     FROM tenants CROSS JOIN generate_series(1, ${count}) AS n WHERE org = '${org}'`,
  );

test('the number of documents of a kind in a tenant has a limit', async () => {
  const { admin, tenant } = await newTenant(server.operator);
  await fill(tenant.org, 'environment', limits.documentsPerKind - 1, 10);
  await write(admin, 'environment', 'last', { note: 'x' });
  const refused = await postResource(admin, 'environment', 'one-more', {});
  expectError(refused, 'RESOURCE_EXHAUSTED');
  const { message } = refused.body as unknown as { message: string };
  expect(message).toBe(
    'the tenant has 10000 documents of the kind environment, and the most is 10000; delete some: muster delete environment NAME',
  );
  await write(admin, 'environment', 'last', { note: 'a document that exists can be changed' });
  await write(admin, 'workspace', 'one-more', {});
  expectOk(await admin.del('/v1/catalog/environment/last'));
  await write(admin, 'environment', 'one-more', {});
});

test('a tenant has a number of schedules, of which one member creates at most half', async () => {
  const { admin, tenant } = await newTenant(server.operator);
  const { api: member, account } = await newMember(admin);
  const half = limits.schedulesPerTenant / 2;
  await fill(tenant.org, 'schedule', half, 10, `codehost_oauth/${account}`);
  expectError(await postResource(member, 'schedule', 'one-more', {}), 'RESOURCE_EXHAUSTED');
  const { admin: other, tenant: full } = await newTenant(server.operator);
  await fill(full.org, 'schedule', limits.schedulesPerTenant, 10);
  expectError(await postResource(other, 'schedule', 'one-more', {}), 'RESOURCE_EXHAUSTED');
});

test.each([
  ['workspace', { note: 'x'.repeat(1000) }, limits.documentBytesPerKind],
  ['secret', { value: 'x'.repeat(1000) }, limits.secretBytesPerTenant],
  ['integration', { note: 'x'.repeat(1000) }, limits.integrationBytesPerTenant],
  ['notification', { note: 'x'.repeat(1000) }, limits.notificationBytesPerTenant],
  ['trigger', { note: 'x'.repeat(1000) }, limits.triggerBytesPerTenant],
])('the size of a document of the kind %s has a limit', async (kind, document, most) => {
  const { admin, tenant } = await newTenant(server.operator);
  await fill(tenant.org, kind, 4, most / 4 - 250);
  const refused = await postResource(admin, kind, 'large', document);
  expectError(refused, 'RESOURCE_EXHAUSTED');
  expect((refused.body as unknown as { message: string }).message).toContain(`the most is ${most}`);
  await write(admin, kind, 'small', {});
  expectError(await postResource(admin, kind, 'small', document), 'RESOURCE_EXHAUSTED');
});

test('what one member creates is at most half of it, and others can still create', async () => {
  const { admin, tenant } = await newTenant(server.operator);
  const [one, other] = await Promise.all([newMember(admin), newMember(admin)]);
  await fill(tenant.org, 'persona', limits.documentsPerKind / 2, 10, `codehost_oauth/${one.account}`);
  expectError(await postResource(one.api, 'persona', uniqueName('p'), {}), 'RESOURCE_EXHAUSTED');
  await write(other.api, 'persona', uniqueName('p'), {});
});

test('the history has the newest documents, and who wrote all of them', async () => {
  const { admin, tenant } = await newTenant(server.operator);
  await write(admin, 'profile', 'busy', { note: 'first' }, { justification: 'at first' });
  await execute(
    server.databaseUrl,
    `UPDATE resources SET generation = ${limits.historyDocuments}
     WHERE name = 'busy' AND tenant = (SELECT id FROM tenants WHERE org = '${tenant.org}')`,
  );
  await write(admin, 'profile', 'busy', { note: 'second' });
  const [newest, first] = await history(admin, 'profile', 'busy');
  expect(newest?.payload).not.toBe('');
  expect(first).toMatchObject({ generation: '1', action: 'WRITE', justification: 'at first', payload: '' });
});
