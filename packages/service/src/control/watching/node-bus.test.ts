import type pg from 'pg';
import { afterEach, expect, test, vi } from 'vitest';
import type { Log } from '../../lib/log.ts';
import type { OtherWorkers } from '../../lib/worker-channel.ts';
import { NodeBus } from './node-bus.ts';
import { Wakes } from './wakes.ts';

test('what a worker commits wakes the other workers of its service, without the database', () => {
  const handlers: ((body: never, from: number) => unknown)[] = [];
  const start = (): Wakes => {
    const wakes = new Wakes();
    const mine = handlers.length;
    const workers: Pick<OtherWorkers, 'on' | 'tell'> = {
      on: (_name, handler) => void handlers.push(handler),
      tell: (_name, body) => {
        for (const [i, handle] of handlers.entries())
          if (i !== mine) handle(structuredClone(body) as never, mine);
      },
    };
    new NodeBus({
      database: { query: () => new Promise(() => {}) } as unknown as pg.Pool,
      connection: {},
      wakes,
      log: {} as Log,
      workers: workers as OtherWorkers,
    });
    return wakes;
  };
  const [one, other] = [start(), start()];
  const woken: string[] = [];
  other.watchAgent({ tenant: 1, id: 'agent' }, ({ phase }) => woken.push(phase));
  other.watchRunner({
    runnerId: 'runner',
    tenant: 0,
    pool: 'default',
    hasRoom: true,
    wake: () => woken.push('runner'),
  });
  one.watchAgent({ tenant: 1, id: 'agent' }, () => woken.push('its own'));
  one.perform([
    { type: 'changed', tenant: 1, id: 'agent', phase: 'PHASE_RUNNING', sequence: 1 },
    { type: 'work', tenant: 1, pool: 'default' },
  ]);
  expect(woken).toEqual(['its own', 'PHASE_RUNNING', 'runner']);
});

afterEach(() => vi.useRealTimers());

test.each([
  ['of a shared server', {}, 1],
  ['of the embedded server, which has none', { isOwn: true }, 0],
])('commits that follow each other are one notification for the other nodes %s', (_, connection, count) => {
  vi.useFakeTimers();
  const sent: unknown[] = [];
  const wakes = new Wakes();
  new NodeBus({
    database: {
      query: async (statement: unknown) => {
        sent.push(statement);
        return { rows: [] };
      },
    } as unknown as pg.Pool,
    connection,
    wakes,
    log: {} as Log,
    workers: null,
  });
  for (const id of ['one', 'other'])
    wakes.perform([{ type: 'changed', tenant: 1, id, phase: 'PHASE_RUNNING', sequence: 1 }]);
  vi.runAllTimers();
  expect(sent).toHaveLength(count);
});
