import { type Claim, limits, type ReplyOf } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { type Answer, apiOf } from '../support/api.ts';
import { runConcurrently } from '../support/async.ts';
import { createKey, encode, uniqueName } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { useMeasuredServer } from './measured-server.ts';

/** Many budgets, and many requests for them, block nothing: measured-server.ts says what is measured. */
const catalog = limits.budgetsPerTenant;
const descendants = 500;
const floods = 2_000;

const { server, expectCheap } = await useMeasuredServer();
const api = apiOf(server);
const failed = (answers: readonly Answer<unknown>[]) =>
  answers.filter(({ status }) => status >= 400).map(({ status, body }) => [status, body]);

test(`${catalog} budgets of one tenant, each over all its agents`, async () => {
  const { admin } = await newTenant(await operatorOf(server));
  const t = await newTestTenant(admin);
  const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata'];
  await runConcurrently(catalog, 16, async (i) => {
    const document = { amountUsd: 10 + i, window: `${1 + i}h`, zone: zones[i % zones.length] };
    expectOk(await admin.post(`/v1/catalog/budget/${uniqueName('b')}`, { payload: encode(document) }));
  });
  await runConcurrently(60, 8, (i) => t.spawn(`a${i}`));
  const answers = await expectCheap(async () => {
    const { body } = await t.runner.poll({ free: { real: 0, rehearsed: 8 } });
    const all: Answer<unknown>[] = [];
    for (const claim of body.claims)
      all.push(
        await t.runner.started(claim),
        await t.runner.credit(claim, 0.2),
        await t.runner.report(claim, { usage: { costUsd: 0.1 } }),
        await t.runner.end(claim),
      );
    all.push(await t.send('agent/status', 'a0'), await admin.post('/v1/agents', { pageSize: 100 }));
    all.push(await admin.post('/v1/budgets'));
    return all;
  });
  expect(failed(answers)).toEqual([]);
  expect(answers.length).toBeGreaterThan(8);
});

test(`an agent with ${descendants - 1} agents below it, each with its own budget`, async () => {
  const t = await newTestTenant(api);
  await t.spawn('root', { budgetUsd: 1_000 });
  const path = ['root'];
  for (const name of ['b', 'c', 'd', 'e', 'f', 'g']) {
    path.push(name);
    await t.spawn(path.join('/'), { budgetUsd: 500 });
  }
  await runConcurrently(descendants - path.length, 16, (i) =>
    t.spawn(`${path.join('/')}/leaf-${i}`, { budgetUsd: 1 }),
  );
  const answers = await expectCheap(async () => {
    const { body } = await t.runner.poll({ free: { real: 0, rehearsed: 32 } });
    const credited = await Promise.all(body.claims.map((claim) => t.runner.credit(claim, 0.5)));
    const list = { workspace: t.workspace, allDepths: true, pageSize: 500 };
    const read = [await api.post('/v1/budgets'), await api.post('/v1/agents', list)];
    const ended = await Promise.all(body.claims.map((claim) => t.runner.end(claim)));
    return [...credited, ...read, ...ended];
  });
  expect(failed(answers)).toEqual([]);
  expect(failed(await expectCheap(async () => [await t.send('agent/kill', 'root')]))).toEqual([]);
  const { budgets } = expectOk(await api.post<ReplyOf<'budgets'>>('/v1/budgets'));
  expect(budgets.filter(({ agentId }) => agentId?.workspace === t.workspace)).toEqual([]);
});

test('a member that reads and sets budgets thousands of times', async () => {
  const t = await newTestTenant(api);
  const member = api.as((await createKey(api, { role: 'member' })).key);
  const agentId = { workspace: t.workspace, agent: ['flooded'] };
  expectOk(await member.post('/v1/agent/spawn', { agentId, description: 'x', model: 'rehearsal-a' }));
  const answers = await expectCheap(async () => {
    const flood = runConcurrently(floods, 32, (i) =>
      i % 2 === 0 ? member.post('/v1/budgets') : member.post('/v1/agent/budget', { agentId, budgetUsd: i }),
    );
    const beside = await newTestTenant(api);
    await beside.rested('beside');
    return flood;
  });
  // Too many at a time may be told to try again later.
  expect(answers.filter(({ status }) => status !== 200 && status !== 429)).toEqual([]);
});

test('an agent can ask for no credit, however often it tries', async () => {
  const t = await newTestTenant(api);
  await t.spawn('a', { budgetUsd: 1 });
  const claim: Claim = await t.start('a');
  const { agentKey, runId } = claim;
  const { runnerId } = t.runner;
  const agent = api.as(claim.token);
  const answers = await expectCheap(() =>
    runConcurrently(floods, 32, () =>
      agent.post('/v1/runner/credit', { runnerId, agentKey, runId, upToUsd: 0.9 }),
    ),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([403]));
  const [own] = (await t.status('a')).budgets;
  expect(own).toMatchObject({ spentUsd: 0, reservedUsd: 0 });
});
