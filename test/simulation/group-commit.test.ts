import { expect, test } from 'vitest';
import { transact } from '../../packages/service/src/control/transact.ts';
import { MemoryStore } from './memory-store.ts';
import { MemoryTables } from './memory-tables.ts';
import { VirtualClock } from './virtual-clock.ts';

const turnOfTheEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test.each([0, 1, 2, 3, 4, 5, 6, 7, 8])(
  'a command that comes %i promises after another was answered is answered too',
  async (promises) => {
    const weather = { isAlive: () => true, latencyMs: () => 0, fate: () => 'fine' as const };
    const store = new MemoryStore(new MemoryTables(), new VirtualClock(0), new Map(), weather);
    const { command } = transact({ store, perform: () => {} });
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
