import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import type { AgentCommand } from '../../domain/decide.ts';
import type { AgentKey, AgentStore, AgentTransaction } from '../../store/agent-store.ts';
import { transact } from './transact.ts';

/** A store that answers nothing until it is told to fail. */
function stuckStore() {
  let fail: (error: Error) => void = () => {};
  const stuck = new Promise<never>((_, reject) => {
    fail = reject;
  });
  stuck.catch(() => {});
  const store: AgentStore = { transaction: () => stuck };
  return { store, fail: () => fail(new Error('the store is gone')) };
}

const exhausted = { refused: true, status: 'RESOURCE_EXHAUSTED' };

test('while the store is slow, a tenant fills its share of the queue; others, runners and timers go on', async () => {
  const { store, fail } = stuckStore();
  const { command } = transact({ store, perform: () => {}, maxWaiting: 10 });
  const settled: string[] = [];
  const send = (name: string, tenant: number, type: 'kill' | 'due') => {
    const sent = command({ key: { tenant, id: 'agent' } }, { type });
    sent.catch(() => settled.push(name));
    return sent;
  };
  const accepted = Array.from({ length: 5 }, (_, i) => send(`kill ${i}`, 1, 'kill'));
  expect(await send('one too many', 1, 'kill')).toMatchObject(exhausted);
  accepted.push(send('of another tenant', 2, 'kill'), send('of a timer', 1, 'due'));
  const claim = {
    type: 'claim',
    runner: { id: 'r', name: 'r', pool: 'p', deferral: true, rehearses: true, sandboxed: false },
  } as const;
  accepted.push(command({ key: { tenant: 1, id: 'agent' } }, claim));
  fail();
  await Promise.allSettled(accepted);
  expect(settled).toContain('of another tenant');
  expect(settled).toContain('of a timer');
  await expect(accepted.at(-1)).rejects.toThrow('the store is gone');
  // The places are free again.
  await expect(command({ key: { tenant: 1, id: 'agent' } }, { type: 'kill' })).rejects.toThrow(
    'the store is gone',
  );
});

test('a command that finds its agent locked by another batch gets it, however many commands follow', async () => {
  let open = 0;
  let opened = () => {};
  const store: AgentStore = {
    async transaction(work) {
      open += 1;
      opened();
      const another = new Promise<void>((resolve) => {
        opened = resolve;
      });
      const result = await work({
        moment: async () => ({ now: '', closedTenants: [] }),
        agents: async () => [],
        // A tree that is free only while nobody else works on it.
        lock: async (wanted) =>
          wanted.map((want, i) => {
            const { key } = want as { key: AgentKey };
            return { ...key, wanted: i, root: key.id, parent: null, locked: key.id !== 'tree' || open === 1 };
          }),
      } as Partial<AgentTransaction> as AgentTransaction);
      // Batches overlap, if the next one starts at all before this one has ended.
      await Promise.race([another, pause(20)]);
      open -= 1;
      return result;
    },
  };
  const { command } = transact({ store, perform: () => {} });
  const send = (id: string) => command({ key: { tenant: 1, id } }, { type: 'due' });
  let isDone = false;
  const others = [...'abcdefgh'].map(async (id, i) => {
    for (let turn = 0; turn < 3 * i; turn += 1) await nextTurn();
    for (let count = 0; count < 1_000; count += 1) {
      await send(id);
      if (isDone) return true;
    }
    return false;
  });
  await nextTurn();
  await send('tree');
  isDone = true;
  expect(await Promise.all(others), 'sent on until it was done').not.toContain(false);
});

/** A store whose transactions commit when the test says so. */
function heldStore(slowBatchMs: number) {
  const sizes: number[] = [];
  const commits: (() => void)[] = [];
  const store: AgentStore = {
    async transaction(work) {
      const result = await work({
        moment: async () => ({ now: '', closedTenants: [] }),
        agents: async () => [],
        lock: async () => [],
      } as Partial<AgentTransaction> as AgentTransaction);
      await new Promise<void>((resolve) => commits.push(resolve));
      return result;
    },
  };
  const { command } = transact({
    store,
    perform: () => {},
    onBatch: (size) => sizes.push(size),
    slowBatchMs,
  });
  const send = (id: string) => command({ key: { tenant: 1, id } }, { type: 'due' });
  return { sizes, commits, send };
}

const someTurns = async () => {
  for (let turn = 0; turn < 5; turn += 1) await nextTurn();
};

test('the next batch starts when no more commands arrive and it is as large as the one in flight', async () => {
  const { sizes, commits, send } = heldStore(60_000);
  const sent = [send('a')];
  await eventually(() => expect(commits).toHaveLength(1));
  for (const id of ['b', 'c', 'd']) {
    expect(sizes).toEqual([1]);
    sent.push(send(id));
    await nextTurn();
  }
  await eventually(() => expect(sizes).toEqual([1, 3]));
  commits[0]?.();
  await sent[0];
  sent.push(send('e'), send('f'));
  await someTurns();
  expect(sizes, 'it is smaller').toEqual([1, 3]);
  sent.push(send('g'));
  await eventually(() => expect(sizes).toEqual([1, 3, 3]));
  sent.push(...['h', 'i', 'j'].map(send));
  await someTurns();
  expect(sizes, 'two are in flight').toEqual([1, 3, 3]);
  await eventually(() => expect(commits).toHaveLength(3));
  for (const end of commits) end();
  await eventually(() => expect(commits).toHaveLength(4));
  commits[3]?.();
  await Promise.all(sent);
});

test('the next batch starts beside one that is slow', async () => {
  const { sizes, commits, send } = heldStore(0);
  const sent = [send('a'), send('b')];
  await eventually(() => expect(commits).toHaveLength(1));
  sent.push(send('c'));
  await eventually(() => expect(sizes).toEqual([2, 1]));
  await eventually(() => expect(commits).toHaveLength(2));
  for (const end of commits) end();
  await Promise.all(sent);
});

const queueOf = (text: string): AgentCommand => ({
  type: 'queue',
  followUpId: 'f',
  digest: '',
  description: text,
  deliverAt: null,
  preempt: false,
  replace: false,
  change: {},
  tasks: [],
});

test('while the store is slow, what a tenant lets wait is bounded by its bytes too', async () => {
  const { store, fail } = stuckStore();
  const { command } = transact({ store, perform: () => {}, maxWaitingBytes: 100_000 });
  const send = (tenant: number, length: number) =>
    command({ key: { tenant, id: 'agent' } }, queueOf('x'.repeat(length)));
  const accepted = [send(1, 20_000), send(1, 20_000)];
  expect(await send(1, 20_000)).toMatchObject({
    ...exhausted,
    message: 'the commands of this tenant that are waiting are too large together; try again',
  });
  accepted.push(send(1, 100), send(2, 20_000));
  fail();
  for (const sent of accepted) await expect(sent).rejects.toThrow('the store is gone');
  // The bytes are free again.
  await expect(send(1, 20_000)).rejects.toThrow('the store is gone');
});

test('a batch is bounded by bytes too, and has at least one command', async () => {
  const sizes: number[] = [];
  const { store, fail } = stuckStore();
  const { command } = transact({ store, perform: () => {}, onBatch: (size) => sizes.push(size) });
  const mebibytes = (count: number) => 'x'.repeat(count * 1024 * 1024);
  const sent = [10, 10, 10, 20].map((count) =>
    command({ key: { tenant: 1, id: 'agent' } }, queueOf(mebibytes(count))),
  );
  fail();
  await Promise.allSettled(sent);
  // A batch that fails is tried again one command at a time.
  expect(sizes.filter((size, i) => size > 1 || sizes[i - 1] === undefined)).toEqual([2, 2]);
});

test.each([
  ['a lost connection', {}, 'Connection terminated unexpectedly', 1],
  ['a read-only server', { code: '25006' }, 'cannot execute UPDATE in a read-only transaction', 1],
  ['a slow statement', { code: '57014' }, 'canceling statement due to statement timeout', 4],
  ['a violated invariant', {}, 'invariant violated', 4],
  ['a deadlock', { code: '40P01' }, 'deadlock detected', 4],
  ['an outdated plan', { code: '0A000' }, 'cached plan must not change result type', 4],
])('a batch that fails because of %s', async (_, fields, message, transactions) => {
  let count = 0;
  const store: AgentStore = {
    transaction: async () => {
      count += 1;
      throw Object.assign(new Error(message), fields);
    },
  };
  const { command } = transact({ store, perform: () => {}, lockTimeoutMs: 0 });
  const sent = [1, 2, 3].map((tenant) => command({ key: { tenant, id: 'agent' } }, { type: 'kill' }));
  for (const { status } of await Promise.allSettled(sent)) expect(status).toBe('rejected');
  expect(count, 'transactions').toBe(transactions);
});
