import { EventEmitter } from 'node:events';
import { expect, it } from 'vitest';
import { Capacity } from './capacity.ts';

class Holder extends EventEmitter {
  destroyed = false;

  close(): void {
    this.destroyed = true;
    this.emit('close');
  }
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
  expect([capacity.free, capacity.waiting]).toEqual([2, 2]);
  first?.();
  first?.();
  (await large)?.();
  (await small)?.();
  expect(order).toEqual(['first', 'large', 'small']);
  expect([capacity.free, capacity.waiting]).toEqual([10, 0]);
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
  expect([capacity.free, capacity.waiting, gone.listenerCount('close')]).toEqual([10, 0, 0]);
});
