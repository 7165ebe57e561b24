import { expect, test } from 'vitest';
import type { AgentStore } from '../store/agent-store.ts';
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
    runner: { id: 'r', name: 'r', deferral: true, rehearses: true, sandboxed: false },
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
