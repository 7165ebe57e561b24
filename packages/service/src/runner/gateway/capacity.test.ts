import { EventEmitter } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Capacity } from './capacity.ts';

class Holder extends EventEmitter {
  destroyed = false;

  close(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

/** How much can be taken without waiting. */
async function freeIn(capacity: Capacity): Promise<number> {
  const holder = new Holder();
  const takeOne = () => Promise.race([capacity.take(1, holder), nextTurn(null)]);
  const taken = [];
  for (let one = await takeOne(); one; one = await takeOne()) taken.push(one);
  holder.close();
  for (const release of taken) release();
  return taken.length;
}

it('is given in order of arrival: a small request does not overtake a large one', async () => {
  const capacity = new Capacity(10);
  const order: string[] = [];
  const take = (name: string, amount: number) =>
    capacity.take(amount, new Holder()).then((release) => {
      order.push(name);
      return release;
    });
  const first = await take('first', 8);
  const large = take('large', 10);
  const small = take('small', 1);
  await nextTurn();
  expect(order).toEqual(['first']);
  first?.();
  first?.();
  (await large)?.();
  (await small)?.();
  expect(order).toEqual(['first', 'large', 'small']);
  expect(await freeIn(capacity)).toBe(10);
});

it('is also taken from the shared one, and returned to both', async () => {
  const shared = new Capacity(3);
  const [one, other] = [new Capacity(2, shared), new Capacity(2, shared)];
  const release = await one.take(2, new Holder());
  expect([await freeIn(one), await freeIn(other), await freeIn(shared)]).toEqual([0, 1, 1]);
  release?.();
  release?.();
  expect([await freeIn(one), await freeIn(other), await freeIn(shared)]).toEqual([2, 2, 3]);
});

it('goes to the next in line when one that waits has closed', async () => {
  const capacity = new Capacity(10);
  const release = await capacity.take(6, new Holder());
  const gone = new Holder();
  const waited = capacity.take(10, gone);
  const behind = capacity.take(4, new Holder());
  gone.close();
  expect(await waited).toBeUndefined();
  (await behind)?.();
  release?.();
  expect(await capacity.take(1, gone)).toBeUndefined();
  expect([await freeIn(capacity), gone.listenerCount('close')]).toEqual([10, 0]);
});
