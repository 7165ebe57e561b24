import type pg from 'pg';
import { expect, test } from 'vitest';
import { openLog } from '../../lib/log.ts';
import { Metrics } from '../../lib/metrics.ts';
import type { Transact } from '../batches/transact.ts';
import { Wakes, type WatchedState } from '../watching/wakes.ts';
import { Timers } from './timers.ts';

/** Timers whose database answers with these rows. */
function timersOn(rows: readonly object[]) {
  const wakes = new Wakes();
  const sent: unknown[] = [];
  const timers = new Timers({
    database: { query: async () => ({ rows }) } as unknown as pg.Pool,
    transact: { command: async (...command: unknown[]) => sent.push(command) } as unknown as Transact,
    blockOnStateError: (_subject, work) => work(),
    wakes,
    log: openLog('silent'),
    metrics: new Metrics(),
  });
  return { timers, wakes, sent };
}

const row = { tenant: 1, id: 'a', number: null, text: null };

test('a tick wakes who watches an agent, also if no notification has come', async () => {
  const watched = { ...row, what: 'watched', number: 7, text: 'PHASE_RUNNING' };
  const { timers, wakes } = timersOn([watched]);
  const seen: WatchedState[] = [];
  wakes.watchAgent({ tenant: 1, id: 'a' }, (state) => seen.push(state));
  await timers.tick();
  expect(seen).toEqual([{ phase: 'PHASE_RUNNING', sequence: 7 }]);
});

test('a tick sends the commands of what is due and of what was lost', async () => {
  const { timers, sent } = timersOn([
    { ...row, what: 'due' },
    { ...row, what: 'lost', number: 3 },
  ]);
  await timers.tick();
  const target = { key: { tenant: 1, id: 'a' } };
  expect(sent).toEqual([
    [target, { type: 'due' }],
    [target, { type: 'lose', runId: 3 }],
  ]);
});
