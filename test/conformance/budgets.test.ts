import type { AgentStatus, Claim } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Fields } from '../support/agents.ts';
import { eventually } from '../support/async.ts';
import { deleteResource, uniqueName, writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const budgetOf = async (t: TestTenant, document: Fields): Promise<string> => {
  const name = uniqueName('budget');
  await writeResource(api, 'budget', name, { workspace: t.workspace, ...document });
  return name;
};

const raise = (name: string, amountUsd: number) =>
  writeResource(api, 'budget', name, { amountUsd }, { updateMask: 'amountUsd' });

const budget = (status: AgentStatus, name: string) => status.budgets.find((one) => one.name === name);

/** The agent `a` in its first run, below a budget of the catalog. */
async function limited(document: Fields, spawn: Fields = {}) {
  const t = await newTestTenant(api);
  const name = await budgetOf(t, document);
  await t.spawn('a', spawn);
  return { t, name, run: await t.start('a') };
}

/** The runner ends a run whose request was refused. */
const park = (t: TestTenant, run: Claim) => t.end(run, 'PARKED', { limitUntil: new Date().toISOString() });

describe('a run', () => {
  test('gets what it asks for while enough is left, and is refused what is not', async () => {
    const { t, name, run } = await limited({ amountUsd: 1 });
    const first = await t.credit(run, 0.4);
    expect(first).toMatchObject({ unlimited: false, refusal: '' });
    expect(first.coveredUsd).toBeGreaterThanOrEqual(0.4);
    expect(first.coveredUsd).toBeLessThanOrEqual(0.5);
    await t.spend(run, 0.3);
    const { budgets } = await t.status('a');
    expect(budgets).toMatchObject([{ name, agentId: null, amountUsd: 1, resetsAt: null }]);
    expect(budgets[0]?.spentUsd).toBeCloseTo(0.3);
    expect(budgets[0]?.reservedUsd).toBeCloseTo(first.coveredUsd - 0.3);
    const refused = await t.credit(run, 1.1);
    expect(refused.refusal).toContain(`budget "${name}" of $1.00`);
    expect(refused.refusal).toContain('has too little left: the next request may cost up to $');
  });

  test('reserves nothing more when it repeats a request', async () => {
    const { t, name, run } = await limited({ amountUsd: 1 });
    const first = await t.credit(run, 0.4);
    expect(await t.credit(run, 0.4)).toEqual(first);
    expect(budget(await t.status('a'), name)?.reservedUsd).toBeCloseTo(first.coveredUsd);
  });

  test('returns what it did not spend, however it ends', async () => {
    const { t, name, run } = await limited({ amountUsd: 1 });
    await t.credit(run, 0.9);
    await t.spend(run, 0.2);
    await t.end(run);
    expect(budget(await t.status('a'), name)).toMatchObject({ reservedUsd: 0 });
    expect(budget(await t.status('a'), name)?.spentUsd).toBeCloseTo(0.2);
    await t.queue('a', 'again');
    const second = await t.start('a');
    await t.credit(second, 0.7);
    await t.stop('a', second.runId, 'KILL');
    await t.runner.report(second, { gone: true });
    expect(budget(await t.status('a'), name)?.spentUsd).toBeCloseTo(0.2);
    expect(budget(await t.status('a'), name)?.reservedUsd).toBe(0);
  });

  test('has spent amounts that are shown without the rest of floating-point sums', async () => {
    const { t, name, run } = await limited({ amountUsd: 1 });
    await t.credit(run, 0.6);
    for (const usd of [0.1, 0.2, 0.3]) await t.spend(run, usd);
    await t.end(run);
    expect(budget(await t.status('a'), name)?.spentUsd).toBe(0.6);
  });

  test('is not limited without a budget, nor by that of another workspace or account', async () => {
    const t = await newTestTenant(api);
    const other = await newTestTenant(api);
    await budgetOf(other, { amountUsd: 0 });
    await budgetOf(t, { amountUsd: 0, account: 'nobody' });
    await t.spawn('a');
    const run = await t.start('a');
    expect(await t.credit(run, 1000)).toEqual({ coveredUsd: 0, unlimited: true, refusal: '' });
    expect((await t.status('a')).budgets).toEqual([]);
  });

  test('of another runner, or that has ended, gets nothing', async () => {
    const { t, run } = await limited({ amountUsd: 1 });
    const other = await t.withAnotherRunner();
    await other.runner.poll();
    expectError(await other.runner.credit(run, 0.1), 'ABORTED');
    await t.end(run);
    expectError(await t.runner.credit(run, 0.1), 'ABORTED');
  });
});

describe('an agent that a budget stops', () => {
  test('says which, and continues with the same batch when it is raised', async () => {
    const { t, name, run } = await limited({ amountUsd: 0.5 });
    expect((await t.credit(run, 0.6)).refusal).not.toBe('');
    await park(t, run);
    const stopped = await t.status('a');
    expect(stopped).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', phaseReason: 'BUDGET', wakesAt: null });
    expect(stopped.needsInput).toContain(`budget "${name}"`);
    expect(stopped.run?.outcome).toBe('PARKED');
    await raise(name, 2);
    const again = await t.claim('a');
    expect(again.messages).toEqual(run.messages);
    expect(again.attempt).toBe(2);
    expect((await t.credit(again, 0.6)).refusal).toBe('');
  });

  test('is stopped too if its harness calls the refusal a failure', async () => {
    const { t, run } = await limited({ amountUsd: 0.5 });
    await t.credit(run, 0.6);
    await t.end(run, 'FAILED', { error: { code: 'HARNESS_ERROR', message: '403' } });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/BUDGET');
  });

  test('waits for the end of the window, if it has one', async () => {
    const { t, run } = await limited({ amountUsd: 0.5, window: 'day', zone: 'Asia/Kolkata' });
    await t.credit(run, 0.6);
    await park(t, run);
    const { phase, phaseReason, wakesAt, needsInput, budgets } = await t.status('a');
    expect({ phase, phaseReason }).toEqual({ phase: 'PHASE_PENDING', phaseReason: 'BUDGET' });
    expect(wakesAt).toMatch(/T18:30:00\.000Z$/);
    expect(budgets[0]?.resetsAt).toBe(wakesAt);
    expect(needsInput).toContain(wakesAt ?? '-');
  });

  test('starts no run while the budget is spent, and keeps the messages', async () => {
    const { t, name, run } = await limited({ amountUsd: 0.5 });
    await t.credit(run, 0.5);
    await t.spend(run, 0.5);
    await t.end(run);
    await t.queue('a', 'more');
    await eventually(async () => {
      expect(await t.offered()).toEqual([]);
      expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/BUDGET');
    });
    expect((await t.status('a')).followUps).toHaveLength(1);
    await raise(name, 1);
    expect((await t.claim('a')).messages.map(({ text }) => text)).toEqual(['more']);
  });

  test('continues when the budget is deleted, or when it is retried after another run has returned credit', async () => {
    const { t, name, run } = await limited({ amountUsd: 1 });
    await t.spawn('b');
    const other = await t.start('b');
    await t.credit(other, 0.9);
    await t.credit(run, 0.5);
    await park(t, run);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/BUDGET');
    await t.end(other);
    const second = await t.start('a');
    expect((await t.credit(second, 0.5)).refusal).toBe('');
    expect((await t.credit(second, 1.5)).refusal).not.toBe('');
    await park(t, second);
    await deleteResource(api, 'budget', name);
    expect((await t.credit(await t.start('a'), 50)).unlimited).toBe(true);
  });

  test('can be killed, and stopped by a person without keeping the batch', async () => {
    const { t, run } = await limited({ amountUsd: 0.5 });
    await t.credit(run, 0.6);
    await t.stop('a', run.runId);
    await t.end(run, 'INTERRUPTED');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
    await t.kill('a');
    expect(await t.phase('a')).toBe('CANCELED/KILLED');
  });
});

describe('the amount', () => {
  test('0 allows nothing, from the first run on', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { budgetUsd: 0 });
    await eventually(async () => {
      expect(await t.offered()).toEqual([]);
      expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/BUDGET');
    });
    expect((await t.status('a')).needsInput).toContain('The budget of the agent a of $0.00 is spent');
  });

  test('may be lowered below what is spent: the next request is refused', async () => {
    const { t, name, run } = await limited({ amountUsd: 5 });
    await t.credit(run, 1);
    await t.spend(run, 1);
    await raise(name, 0.5);
    expect((await t.credit(run, 3)).refusal).toContain('of $0.50 is spent');
  });

  test('that is not set limits nothing, and the write warns', async () => {
    const t = await newTestTenant(api);
    const payload = Buffer.from(JSON.stringify({ workspace: t.workspace })).toString('base64');
    const answer = await api.post<{ warnings: Fields[] }>(`/v1/catalog/budget/${uniqueName('budget')}`, {
      payload,
    });
    expect(expectOk(answer).warnings).toEqual([
      expect.objectContaining({ description: 'is not set: this budget limits nothing' }),
    ]);
    await t.spawn('a');
    expect((await t.credit(await t.start('a'), 5)).unlimited).toBe(true);
  });

  test.each<[Fields, string]>([
    [{ amountUsd: -1 }, 'amountUsd'],
    [{ amountUsd: 'ten' }, 'amountUsd'],
    [{ amountUsd: 1, window: '0h' }, 'window'],
    [{ amountUsd: 1, window: 'week' }, 'window'],
    [{ amountUsd: 1, zone: 'Mars/Olympus' }, 'zone'],
    [{ amountUsd: 1, zone: '+02:00' }, 'zone'],
    [{ amountUsd: 1, warnAt: 2 }, 'warnAt'],
    [{ amountUsd: 1, unpriced: 'maybe' }, 'unpriced'],
  ])('%j is refused, and the field named', async (document, field) => {
    const payload = Buffer.from(JSON.stringify(document)).toString('base64');
    const answer = await api.post(`/v1/catalog/budget/${uniqueName('budget')}`, { payload });
    expectError(answer, 'INVALID_ARGUMENT');
    expect(JSON.stringify(answer.body)).toContain(field);
  });
});

test('a model without a price is refused or allowed, as the budget says', async () => {
  const refusing = await limited({ amountUsd: 1 });
  const { refusal: refused } = await refusing.t.credit(refusing.run, 0, { unpricedModel: 'new-model' });
  expect(refused).toContain('The price of the model "new-model" is unknown');
  await park(refusing.t, refusing.run);
  expect(await refusing.t.status('a')).toMatchObject({
    phaseReason: 'BUDGET',
    needsInput: refused,
    error: { code: 'MODEL_UNPRICED', message: refused },
  });
  const allowing = await limited({ amountUsd: 1, unpriced: 'allow' });
  expect((await allowing.t.credit(allowing.run, 0, { unpricedModel: 'new-model' })).refusal).toBe('');
});

describe('a tree', () => {
  test('shares the budget of its root, and a child has one within it', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { budgetUsd: 1 });
    const root = await t.start('a');
    expect(root.preface).toBe('Your budget, for you and the agents that you spawn: $1.00 of $1.00 is left.');
    await t.spawn('a/b', { budgetUsd: 0.5 });
    const child = await t.start('a/b');
    expect((await t.credit(child, 0.6)).refusal).toContain('budget of the agent a/b');
    await t.credit(child, 0.4);
    expect((await t.credit(root, 0.8)).refusal).toContain('budget of the agent a ');
    expect((await t.status('a/b')).budgets.map(({ name, agentId }) => [name, agentId?.agent])).toEqual([
      ['a', ['a']],
      ['a/b', ['a', 'b']],
    ]);
  });

  test('a child gets no more than is left', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { budgetUsd: 1 });
    const root = await t.start('a');
    await t.credit(root, 0.8);
    const answer = await t.send('agent/spawn', 'a/b', { description: 'x', budgetUsd: 0.5 });
    expectError(answer, 'INVALID_ARGUMENT');
    expect(JSON.stringify(answer.body)).toContain(
      'budgetUsd: must be at most what the budget of the agent a has left',
    );
    await t.spawn('a/b', { budgetUsd: 0.1 });
    expectError(await t.send('agent/budget', 'a/b', { budgetUsd: 2 }), 'INVALID_ARGUMENT');
  });

  test('spends no more than its budget, however many runs ask at the same time', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { budgetUsd: 1 });
    const runs = [await t.start('a')];
    for (let i = 0; i < 12; i += 1) {
      await t.spawn(`a/c${i}`);
      runs.push(await t.start(`a/c${i}`));
    }
    const replies = await Promise.all(runs.map((run) => t.credit(run, 0.15)));
    const granted = replies.filter(({ refusal }) => refusal === '');
    expect(granted.length).toBeGreaterThanOrEqual(4);
    expect(granted.reduce((sum, { coveredUsd }) => sum + coveredUsd, 0)).toBeLessThanOrEqual(1 + 1e-6);
    const [own] = (await t.status('a')).budgets;
    expect((own?.spentUsd ?? 0) + (own?.reservedUsd ?? 0)).toBeLessThanOrEqual(1 + 1e-6);
  });

  test('continues when its budget is raised, and an agent can be given one later', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.spend(run, 2);
    expectOk(await t.send('agent/budget', 'a', { budgetUsd: 3 }));
    expect((await t.credit(run, 4)).refusal).toContain('budget of the agent a of $3.00 has too little left');
    await park(t, run);
    expectOk(await t.send('agent/budget', 'a', { budgetUsd: 5 }));
    const again = await t.start('a');
    expect((await t.credit(again, 2)).refusal).toBe('');
    expectOk(await t.send('agent/budget', 'a', { remove: true }));
    expect((await t.credit(again, 100)).unlimited).toBe(true);
  });
});

test('an agent is told once when a budget is nearly spent', async () => {
  const { t, name, run } = await limited({ amountUsd: 1, warnAt: 0.5 });
  await t.credit(run, 0.6);
  await t.spend(run, 0.6);
  await t.end(run);
  expect((await t.timeline('a', 'WARNING')).map(({ text }) => text)).toEqual([
    expect.stringContaining(`The budget "${name}" is nearly spent`),
  ]);
  await t.queue('a', 'next');
  const second = await t.turn('a');
  expect(second.preface).toBe(`The budget "${name}" is nearly spent: $0.40 of $1.00 is left.`);
  await t.queue('a', 'and next');
  expect((await t.turn('a')).preface).toBe('');
});

test('a policy gives a root agent its budget', async () => {
  const policy = uniqueName('policy');
  await writeResource(api, 'policy', policy, { budgetUsd: 2 });
  const t = await newTestTenant(api, {}, { policy });
  await t.spawn('a');
  await t.spawn('b', { budgetUsd: 7 });
  await t.spawn('a/c');
  const amounts = async (path: string) => (await t.status(path)).budgets.map(({ amountUsd }) => amountUsd);
  expect(await amounts('a')).toEqual([2]);
  expect(await amounts('b')).toEqual([7]);
  expect(await amounts('a/c')).toEqual([2]);
});

test('the list of budgets has those of the catalog and of agents, and who waits', async () => {
  const { t, name, run } = await limited({ amountUsd: 0.5, window: 'month', zone: 'Europe/Berlin' });
  await t.spawn('b', { budgetUsd: 3 });
  await t.credit(run, 0.6);
  await park(t, run);
  const { budgets } = expectOk(await api.post<{ budgets: Fields[] }>('/v1/budgets', {}));
  expect(budgets.find((one) => one.name === name)).toMatchObject({
    agentId: null,
    amountUsd: 0.5,
    window: 'month',
    zone: 'Europe/Berlin',
    workspace: t.workspace,
    waiting: 1,
  });
  expect(budgets.find(({ agentId }) => (agentId as Fields)?.workspace === t.workspace)).toMatchObject({
    name: 'b',
    amountUsd: 3,
    spentUsd: 0,
    waiting: 0,
  });
});

test('a budget that begins to hold counts what was spent in its window before', async () => {
  const t = await newTestTenant(api);
  await t.spawn('a');
  const run = await t.start('a');
  await t.spend(run, 3);
  const name = await budgetOf(t, { amountUsd: 4, window: 'month' });
  expect((await t.credit(run, 3.5)).refusal).toBe('');
  const state = budget(await t.status('a'), name);
  expect(state?.spentUsd).toBeCloseTo(3);
  expect((await t.credit(run, 4.5)).refusal).not.toBe('');
});

test('what a run spends before it asks for credit counts in a budget that another run uses already', async () => {
  const t = await newTestTenant(api);
  await t.spawn('a');
  await t.spawn('b');
  const [a, b] = [await t.start('a'), await t.start('b')];
  expect((await t.credit(a, 1)).unlimited).toBe(true);
  const name = await budgetOf(t, { amountUsd: 5 });
  await t.credit(b, 0.1);
  await t.spend(a, 4);
  expect(budget(await t.status('a'), name)?.spentUsd).toBeCloseTo(4);
  expect((await t.credit(a, 5)).refusal).toContain('has too little left');
  await t.end(a);
  await t.end(b);
  expect(budget(await t.status('a'), name)?.spentUsd).toBeCloseTo(4);
  expect(budget(await t.status('a'), name)?.reservedUsd).toBe(0);
});
