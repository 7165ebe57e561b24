import { expect, test } from 'vitest';
import { identity, spawn } from '../../../../../test/simulation/samples.ts';
import type { AgentTransaction, ReadState } from '../../store/agent-store.ts';
import { loadBatch, nameOf, type Submission } from './load-batch.ts';

const clearing = (id: string): Submission => ({
  target: { key: { tenant: 1, id } },
  command: { type: 'clear' },
});

/**
 * A parent and its child. Another node holds the parent, changes it and lets go of it after the first reads.
 * `calls` has what was sent, in order.
 */
function parentAndChild() {
  const calls: string[] = [];
  let version = 1;
  const transaction: Partial<AgentTransaction> = {
    lock: async (wanted) => {
      calls.push(`lock ${wanted.map(nameOf)}`);
      const isHeld = version === 1;
      return wanted.map(nameOf).map((id, i) => ({
        tenant: 1,
        id,
        wanted: i,
        root: 'parent',
        parent: id === 'child' ? 'parent' : null,
        locked: id !== 'parent' || !isHeld,
      }));
    },
    moment: async () => ({ now: `${version}`, closedTenants: [] }),
    agents: async (wanted) => {
      calls.push(`read ${wanted.map(({ want, parts }) => [nameOf(want), ...parts].join(' + '))}`);
      const found = wanted.map(({ want }) => ({
        state: { agent: { tenant: 1, id: nameOf(want), path: [nameOf(want)], sequence: version } },
        parts: { queue: [], checklist: [], children: [] },
      }));
      version = 2;
      return found as unknown as ReadState[];
    },
  };
  return { transaction: transaction as AgentTransaction, calls };
}

test('what was read of an agent before it was locked is read again, and the clock with it', async () => {
  const { transaction, calls } = parentAndChild();
  const all = ' + queue + checklist + children';
  const ofParent = clearing('parent');
  const ofChild = clearing('child');
  const { agents, ready, locked } = await loadBatch(transaction, [ofParent, ofChild]);
  expect(calls).toEqual([
    'lock parent,child',
    `read parent${all},child${all}`,
    'lock parent',
    'read parent + children',
  ]);
  expect(agents.get('parent')?.agent.sequence).toBe(2);
  expect(agents.now).toBe('2');
  expect(ready.map(({ submission }) => submission)).toEqual([ofChild]);
  expect(locked).toEqual([ofParent]);
});

test('what is known to be needed is read with the locks, and nothing is read twice', async () => {
  const { transaction, calls } = parentAndChild();
  const due: Submission = { target: { key: { tenant: 1, id: 'child' } }, command: { type: 'due' } };
  const { agents } = await loadBatch(transaction, [due, due]);
  expect(calls).toEqual(['lock child,child', 'read child + queue']);
  expect(agents.now).toBe('1');
});

test('a claim in a pool in which another node is claiming waits, and one in a free pool does not', async () => {
  const transaction: Partial<AgentTransaction> = {
    lock: async (wanted) =>
      wanted.map(nameOf).map((id, i) => ({ tenant: 1, id, wanted: i, root: id, parent: null, locked: true })),
    lockPools: async (pools) => pools.map(({ pool }) => pool !== 'busy'),
    freeRuns: async (pools) => pools.map((pool) => ({ ...pool, freeRuns: 1 })),
    moment: async () => ({ now: '1', closedTenants: [] }),
    agents: async () => [],
  };
  const claiming = (pool: string): Submission => ({
    target: { key: { tenant: 1, id: pool } },
    command: {
      type: 'claim',
      runner: { id: 'r', name: 'r', pool, deferral: true, rehearses: true, sandboxed: false },
    },
  });
  const [busy, free] = [claiming('busy'), claiming('free')];
  const { ready, locked } = await loadBatch(transaction as AgentTransaction, [busy, free]);
  expect(locked).toEqual([busy]);
  expect(ready.map(({ submission }) => submission)).toEqual([free]);
});

test('the spawn of a child waits while another node holds its root, which that may be killing', async () => {
  const transaction: Partial<AgentTransaction> = {
    lock: async (wanted) =>
      wanted.flatMap((want, i) => {
        const id = 'key' in want ? want.key.id : want.identity.path.join('/');
        if (id === 'root/parent/child') return [];
        return [{ tenant: 1, id, wanted: i, root: 'root', parent: 'root', locked: id !== 'root' }];
      }),
    moment: async () => ({ now: '1', closedTenants: [] }),
    agents: async () => [],
    liveDescendants: async () => new Map(),
  };
  const child = identity(['root', 'parent', 'child']);
  const spawning: Submission = {
    target: { identity: child },
    command: { ...spawn('c', []), identity: child },
  };
  const { ready, locked } = await loadBatch(transaction as AgentTransaction, [spawning]);
  expect(locked).toEqual([spawning]);
  expect(ready).toEqual([]);
});
