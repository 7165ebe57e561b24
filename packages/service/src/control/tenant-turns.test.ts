import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { OverloadedError } from './fair-share.ts';
import { TenantTurns } from './tenant-turns.ts';

/** Work that ends when it is told to. */
function played(turns: TenantTurns) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const start = (tenant: number, name: string): Promise<string> =>
    turns.run(tenant, async () => {
      begun.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
      return name;
    });
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.();
    await turn();
  };
  return { begun, start, end };
}

test('work of a tenant waits for its own turn only, in order', async () => {
  const { begun, start, end } = played(new TenantTurns(2, 'lists'));
  const all = [start(1, 'a'), start(1, 'b'), start(1, 'c'), start(1, 'd'), start(2, 'of another')];
  expect(begun).toEqual(['a', 'b', 'of another']);
  await end('b');
  expect(begun).toEqual(['a', 'b', 'of another', 'c']);
  await end('a');
  for (const name of ['c', 'd', 'of another']) await end(name);
  expect(await Promise.all(all)).toEqual(['a', 'b', 'c', 'd', 'of another']);
});

test('work that fails gives its turn on, and not all of it may wait', async () => {
  const turns = new TenantTurns(1, 'lists');
  const { begun, start, end } = played(turns);
  const failed = turns.run(1, () => Promise.reject(new Error('no')));
  const waiting = Array.from({ length: 1000 }, (_, i) => start(1, String(i)));
  await expect(start(1, 'one too many')).rejects.toThrow(OverloadedError);
  await expect(failed).rejects.toThrow('no');
  await turn();
  for (let i = 0; i < waiting.length; i += 1) await end(String(i));
  expect(await Promise.all(waiting)).toEqual(begun);
});
