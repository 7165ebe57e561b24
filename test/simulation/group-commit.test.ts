import { expect, test } from 'vitest';
import { transact } from '../../packages/service/src/control/batches/transact.ts';
import { MemoryStore } from './memory-store.ts';
import { MemoryTables } from './memory-tables.ts';
import { identity, spawn } from './samples.ts';
import { VirtualClock } from './virtual-clock.ts';

const turnOfTheEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const newStore = (): MemoryStore => {
  const faults = { isAlive: () => true, latencyMs: () => 0, fault: () => 'none' as const };
  return new MemoryStore(new MemoryTables(), new VirtualClock(0), new Map(), faults);
};

test.each([0, 1, 2, 3, 4, 5, 6, 7, 8])(
  'a command that comes %i promises after another was answered is answered too',
  async (promises) => {
    const { command } = transact({ store: newStore(), perform: () => {} });
    const target = { key: { tenant: 1, id: 'nobody' } };
    let isAnswered = false;
    await command(target, { type: 'clear' });
    for (let i = 0; i < promises; i += 1) await null;
    const second = command(target, { type: 'clear' }).then(() => {
      isAnswered = true;
    });
    await turnOfTheEventLoop();
    await turnOfTheEventLoop();
    expect(isAnswered).toBe(true);
    await second;
  },
);

test('a batch that takes long to decide lets other work run meanwhile, and is still one batch', async () => {
  const sizes: number[] = [];
  const { command } = transact({ store: newStore(), perform: () => {}, onBatch: (size) => sizes.push(size) });
  const happened: string[] = [];
  const replyOf = (name: string) => () => {
    if (happened.length === 0) setImmediate(() => happened.push('other work'));
    for (const endMs = Date.now() + 15; Date.now() < endMs; );
    happened.push(name);
    return {};
  };
  const names = ['a', 'b', 'c', 'd'];
  await Promise.all(
    names.map((name) =>
      command({ identity: identity([name]) }, spawn(name, [name]), {
        of: replyOf(name),
        key: { tenant: 1, keyId: 'k', key: name, digest: '' },
      }),
    ),
  );
  expect(sizes).toEqual([4]);
  expect(happened.filter((name) => name !== 'other work')).toEqual(names);
  expect(happened.indexOf('other work')).toBeLessThan(happened.indexOf('d'));
});
