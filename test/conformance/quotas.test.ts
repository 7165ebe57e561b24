import { randomBytes, randomUUID } from 'node:crypto';
import type { Service } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import type { Answer, Api } from '../support/api.ts';
import { eventually } from '../support/async.ts';
import { newMember, postResource, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { png, uploadTo } from '../support/images.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant, newWorkingTenant, TestTenant } from '../support/test-tenant.ts';

/** What one tenant may store; an account half of it, once there is another one. */
const server = await useSharedServer({
  runner: false,
  env: {
    MUSTER_TENANT_STORAGE_MB: '4',
    MUSTER_TENANT_CHECKPOINTS_MB: '1',
    MUSTER_TENANT_ATTACHMENTS_MB: '1',
  },
});
const mebibyte = 1024 * 1024;

/** A tenant whose admin has no agents, and two members. */
async function newTeam() {
  const { admin } = await newTenant(server.operator);
  const t = await newTestTenant(admin.as(admin.key));
  const [one, other] = await Promise.all([newMember(admin), newMember(admin)]);
  const agentsOf = (api: Api) => new TestTenant(api, t.workspace, t.runner);
  return { admin, one, other, t, first: agentsOf(one.api), second: agentsOf(other.api) };
}

/** Repeats a request until it is refused because a quota is used up; returns why, and how often it was accepted. */
async function untilFull(quota: string, send: (n: number) => Promise<Answer<unknown>>) {
  for (let accepted = 0; ; accepted += 1) {
    const answer = await send(accepted);
    if (answer.status === 200) continue;
    expectError(answer, 'RESOURCE_EXHAUSTED');
    const { message } = answer.body as { message: string };
    expect(message).toContain(`the quota of ${quota} is used up`);
    expect(message).toContain(`MUSTER_TENANT_${quota.toUpperCase()}_MB`);
    return { accepted, message };
  }
}

/** What is not compressed away. */
const text = (bytes: number): string => randomBytes(bytes / 2).toString('hex');

const share = (account: string, bytes: number): string =>
  `the account "${account}" uses \\d+ of ${bytes / 2} bytes, its share of the tenant's ${bytes}`;

test("messages fill an account's share of the storage; others go on, and runs end", async () => {
  const { one, other, first, second } = await newTeam();
  await first.spawn('a');
  await second.spawn('a');
  const { accepted, message } = await untilFull('storage', () => first.add({ description: text(200_000) }));
  expect(message).toMatch(new RegExp(share(one.account, 4 * mebibyte)));
  expect(accepted).toBeGreaterThan(5);
  expect(accepted).toBeLessThan(25);
  await untilFull('storage', () => first.add({ description: text(10_000) }));
  const large = { description: text(10_000) };
  expectError(await first.send('agent/spawn', 'b', large), 'RESOURCE_EXHAUSTED');
  const tasks = [{ subject: 'x', ...large }];
  expectError(await first.send('agent/tasks/create', 'a', { tasks }), 'RESOURCE_EXHAUSTED');
  const persona = { instructions: text(10_000) };
  expectError(await postResource(one.api, 'persona', uniqueName('p'), persona), 'RESOURCE_EXHAUSTED');
  expectOk(await postResource(other.api, 'persona', uniqueName('p'), {}));
  await second.queue('a', 'still admitted');
  await first.clear('a');
  await first.kill('a');
});

test('spawns, tasks and catalog writes count too, and a full tenant refuses every account', async () => {
  const { admin, one, other, first, second } = await newTeam();
  await untilFull('storage', (n) =>
    first.send('agent/spawn', `s${n}`, { description: text(200_000), model: 'rehearsal-a' }),
  );
  await second.spawn('a');
  await untilFull('storage', () =>
    second.send('agent/tasks/create', 'a', {
      tasks: [1, 2, 3].map((n) => ({ subject: `${n}`, description: text(60_000) })),
    }),
  );
  const { message } = await untilFull('storage', () =>
    postResource(admin, 'workspace', 'one', { note: text(200_000) }),
  );
  expect(message).toContain(`the tenant uses`);
  await eventually(async () => {
    const { quotas } = expectOk(await one.api.get<Service>('/v1/service'));
    expect(quotas.map(({ quota }) => quota)).toEqual(['storage', 'checkpoints', 'attachments']);
    const [storage] = quotas;
    expect(Number(storage?.accountLimit)).toBe(2 * mebibyte);
    expect(Number(storage?.accountBytes)).toBeGreaterThan(mebibyte);
    expect(Number(storage?.bytes)).toBeGreaterThan(3 * mebibyte);
  });
  expectOk(await admin.del('/v1/catalog/workspace/one'));
  const persona = { instructions: text(200_000) };
  expectError(await postResource(other.api, 'persona', uniqueName('p'), persona), 'RESOURCE_EXHAUSTED');
});

test("checkpoints of one account's agents leave room for those of others", async () => {
  const { one, t, first, second } = await newTeam();
  await first.spawn('a');
  await second.spawn('b');
  const [mine, theirs] = [await t.start('a'), await t.start('b')];
  const id = randomUUID();
  const { message } = await untilFull('checkpoints', (part) =>
    t.runner.savePart(mine, id, part, randomBytes(100_000)),
  );
  expect(message).toMatch(new RegExp(share(one.account, mebibyte)));
  await t.runner.saveCheckpoint(theirs, randomBytes(400_000));
});

test("images of one account's agents leave room for those of others", async () => {
  const { one, first, second } = await newTeam();
  await first.spawn('a');
  await second.spawn('b');
  const image = (name: string) => Buffer.concat([png(name), randomBytes(100_000)]);
  const { message } = await untilFull('attachments', (n) =>
    uploadTo(first.api, first.id('a'), image(`${n}`)),
  );
  expect(message).toMatch(new RegExp(share(one.account, mebibyte)));
  expectOk(await uploadTo(second.api, second.id('b'), image('other')));
});

test('the only account of a tenant may use all of a quota', async () => {
  const { admin } = await newTenant(server.operator);
  const { t, run } = await newWorkingTenant(admin);
  const id = randomUUID();
  const { accepted, message } = await untilFull('checkpoints', (part) =>
    t.runner.savePart(run, id, part, randomBytes(100_000)),
  );
  expect(message).toContain(`the tenant uses ${accepted * 100_000} of ${mebibyte} bytes`);
  expect(accepted).toBe(10);
});

test('what runners report counts, and is never refused', async () => {
  const { admin } = await newTenant(server.operator);
  const { t, run } = await newWorkingTenant(admin);
  const items = [{ type: 'MESSAGE', text: text(200_000) }];
  for (let report = 0; report < 30; report += 1) await t.report(run, { items });
  await untilFull('storage', () => t.add({ description: 'small' }));
  await t.report(run, { items });
  await t.clear('a');
  await t.end(run);
  expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
});
