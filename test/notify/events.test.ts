import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import {
  type ChangeRequestRow,
  insertChangeRequest,
  saveChangeRequest,
} from '../../packages/service/src/store/statements/change-requests.ts';
import { fanOut } from '../../packages/service/src/store/statements/notifications.ts';
import {
  noteLostRunners,
  type RunnerRow,
  registerRunner,
  renewPausedLease,
} from '../../packages/service/src/store/statements/runners.ts';
import { until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { agentRowId } from '../support/database.ts';
import { DeliveryBench } from './delivery-bench.ts';
import { deliveriesOf, spawn, startNotifying, writeNotification } from './notify-scenario.ts';

let bench: DeliveryBench;
beforeAll(async () => {
  bench = await DeliveryBench.start();
});
afterEach(() => bench.reset());
afterAll(() => bench.close());

async function events(): Promise<unknown[]> {
  const { rows } = await bench.pool.query(
    "SELECT tenant, type, agent IS NOT NULL AS of_agent, workspace, account, data ->> 'name' AS name, data ->> 'text' AS text FROM events ORDER BY id",
  );
  return rows;
}

test('a change request that is opened, merged, closed, opened again or paused', async () => {
  await bench.target('all');
  const agent = await bench.agent();
  const row: ChangeRequestRow = {
    ...{
      tenant: 1,
      name: 'project-1',
      integration: 'host',
      repo: 'team/project',
      repo_url: 'u',
      number: 1,
      agent,
    },
    ...{ url: 'https://h/1', title: 'A title', state: 'OPEN', branch: 'b', base: 'main', head_sha: 's' },
    ...{ checks: { state: 'NONE', failing: [] }, rounds: 0, check_rounds: 0, paused: false, told: {} },
    review: { state: 'NONE', openThreads: 0, resolvedThreads: 0 },
    ...{ created_at: new Date().toISOString(), updated_at: new Date().toISOString() },
  };
  await insertChangeRequest(bench.pool, row);
  await insertChangeRequest(bench.pool, row);
  const save = (changed: Partial<ChangeRequestRow>) =>
    saveChangeRequest(bench.pool, { ...row, ...changed, asked: 0 }, 1_000, 0);
  await save({ title: 'Another title' });
  await save({ state: 'DRAFT' });
  await save({ state: 'MERGED' });
  await save({ state: 'CLOSED' });
  await save({ state: 'OPEN', paused: true });
  await save({ state: 'OPEN', paused: true });
  const of = (type: string, text = 'A title') => ({
    ...{ tenant: 1, type, of_agent: true, workspace: '', account: '', name: 'team/project#1', text },
  });
  expect(await events()).toEqual([
    of('change_request.opened'),
    of('change_request.merged'),
    of('change_request.closed'),
    of('change_request.opened'),
    of('change_request.paused'),
  ]);
  await bench.settle();
  expect(bench.sent.get('all')?.[0]).toMatchObject({
    ...{ title: 'Change request team/project#1 was opened', text: 'A title', agent: { key: agent } },
  });
});

const runner = (fields: Partial<RunnerRow>): RunnerRow => ({
  machine: {},
  ...{
    tenant: 1,
    id: agentRowId(900),
    name: 'builder',
    pool: 'default',
    build: '',
    capabilities: [],
    backends: [],
  },
  ...{
    rehearses: false,
    free_real: 0,
    free_rehearsed: 0,
    polls: 1,
    leaving: false,
    accounts: [],
    token: 't',
  },
  ...fields,
});

test('a runner whose lease has expired, once, in its tenant; one of the service in every tenant', async () => {
  await bench.target('one');
  await bench.target('two', { tenant: 2 });
  await registerRunner(bench.pool, JSON.stringify([runner({})]), 60_000);
  await registerRunner(
    bench.pool,
    JSON.stringify([runner({ id: agentRowId(901), tenant: 0, name: 'own' })]),
    60_000,
  );
  await bench.pool.query("UPDATE runners SET lease_until = now() - interval '1 second'");
  await noteLostRunners(bench.pool);
  await noteLostRunners(bench.pool);
  const of = (tenant: number, name: string) => ({
    ...{ tenant, type: 'runner.lost', of_agent: false, workspace: '', account: '', name },
    text: 'Its lease has expired. Pool: default.',
  });
  const found = await events();
  expect(found).toHaveLength(3);
  expect(found).toEqual(expect.arrayContaining([of(1, 'builder'), of(1, 'own'), of(2, 'own')]));
  await bench.pool.query('DELETE FROM runners');
});

test('an account of a runner that is paused, once until it is used again', async () => {
  await bench.target('one');
  const account = (state: 'PAUSED' | 'FREE') =>
    [
      {
        account: 'anthropic/team',
        state,
        runs: 0,
        pausedUntil: null,
        accepted: true,
        error: state === 'PAUSED' ? 'at its limit' : '',
      },
    ] as const;
  const row = (polls: number, state: 'PAUSED' | 'FREE') =>
    JSON.stringify([runner({ polls, accounts: account(state) })]);
  await registerRunner(bench.pool, row(1, 'FREE'), 60_000);
  for (const [polls, state] of [
    [2, 'PAUSED'],
    [3, 'PAUSED'],
    [4, 'FREE'],
    [5, 'PAUSED'],
  ] as const)
    expect(await renewPausedLease(bench.pool, row(polls, state), 60_000)).toHaveLength(1);
  // Not newer than the last one.
  expect(await renewPausedLease(bench.pool, row(5, 'PAUSED'), 60_000)).toHaveLength(0);
  const paused = {
    ...{ tenant: 1, type: 'account.resting', of_agent: false, workspace: '', account: '' },
    ...{ name: 'anthropic/team', text: 'Runner builder: at its limit' },
  };
  expect(await events()).toEqual([paused, paused]);
});

test('a budget that is nearly spent, and one that is spent, once in a window', async () => {
  const started = await startNotifying();
  const { api, receiver } = started;
  try {
    await writeResource(api, 'budget', 'small', { amountUsd: 1, warnAt: 0.5, workspace: 'web' });
    const url = `${receiver.url}/web`;
    await writeNotification(api, 'web', {
      url,
      workspace: 'web',
      events: ['budget.warned', 'budget.spent', 'agent.budget'],
    });
    await writeNotification(api, 'other', {
      url,
      workspace: 'other',
      events: ['budget.warned', 'budget.spent'],
    });
    const types = async () =>
      (await deliveriesOf(api, 'web')).map(({ type, name }) => `${type} ${name}`).reverse();
    await spawn(api, '!usage 1 0 1 0.6', 'web');
    await until('the warning', types, (all) => all.length > 0);
    expect(await types()).toEqual(['budget.warned small']);
    await spawn(api, '!usage 1 0 1 0.6', 'web');
    await until('the end of the budget', types, (all) => all.length >= 3);
    await spawn(api, '!usage 1 0 1 0.6', 'web');
    await until('another agent', types, (all) => all.length >= 4);
    expect([...(await types())].sort()).toEqual([
      'agent.budget ',
      'agent.budget ',
      'budget.spent small',
      'budget.warned small',
    ]);
    expect(await deliveriesOf(api, 'other')).toEqual([]);
    await until(
      'the posts',
      async () => receiver.bodies('/web'),
      (posts) => posts.length >= 4,
    );
    const [warned] = receiver.bodies<{ data: { title: string; dashboardUrl: string } }>('/web');
    expect(warned?.data).toMatchObject({
      title: 'Budget small is nearly spent',
      dashboardUrl: `${api.url}/catalog/budget/small`,
    });
  } finally {
    await started.close();
  }
});

test('a disabled account is told nothing of its agents, and its team still is', async () => {
  const owner = { owner_provider: 'PROVIDER_CODEHOST_OAUTH', account: 'eve' };
  const agent = await bench.agent(owner);
  for (const [name, createdBy] of [
    ['own', 'codehost_oauth/eve'],
    ['manager', 'codehost_oauth/mia'],
  ] as const) {
    await bench.target(name, { account: 'eve' });
    await bench.pool.query(
      "INSERT INTO resources (tenant, kind, name, generation, document) VALUES (1, 'notification', $1, 1, $2)",
      [name, JSON.stringify({ createdBy })],
    );
  }
  await bench.target('team');
  const told = async () => {
    await bench.asks(agent);
    await fanOut(bench.pool, 1, 100, 0);
    const { rows } = await bench.pool.query('DELETE FROM notification_deliveries RETURNING target');
    return rows.map(({ target }) => target).sort();
  };
  expect(await told()).toEqual(['manager', 'own', 'team']);
  await bench.pool.query(
    `INSERT INTO members (tenant, owner_provider, account, disabled, created_at) VALUES (1, $1, $2, true, now())`,
    [owner.owner_provider, owner.account],
  );
  expect(await told()).toEqual(['manager', 'team']);
});
