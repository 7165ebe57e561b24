import { type AgentStatus, phaseReasons, reasonRow } from '@muster/sdk/contract';
import { expect, it } from 'vitest';
import { attemptText, explanationOf, ordinal, outcomeText, runText } from './status-text.ts';

it('a retry names the run that it repeats, and the number of the attempt if it is known', () => {
  expect(attemptText({ runId: '4', batch: '4' }, 1)).toBe('');
  expect(attemptText({ runId: '6', batch: '4' }, 3)).toBe('3rd attempt of run 4');
  expect(attemptText({ runId: '6', batch: '4' }, 0)).toBe('retry of run 4');
});

it('ordinals have the right ending', () => {
  expect([1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map(ordinal)).toEqual([
    ...['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '21st', '22nd', '101st', '111th'],
  ]);
});

it('a live run shows its state, an ended one its outcome', () => {
  expect(runText({ state: 'RUNNING', outcome: '' })).toBe('working');
  expect(runText({ state: 'ENDED', outcome: 'HANDED_BACK' })).toBe('handed back by runner');
});

it('shows an outcome that it does not know', () => {
  expect(outcomeText('LOST')).toBe('lost: runner disconnected');
  expect(outcomeText('TURNED_INTO_STEAM')).toBe('turned into steam');
});

it('every reason is explained, with the facts of the agent', () => {
  const agent = {
    phase: 'PHASE_PENDING',
    model: 'opus',
    backend: 'BACKEND_A',
    pool: 'default',
    needsInput: 'The key is wrong.',
    wakesAt: null,
    tasks: [],
  } as unknown as AgentStatus;
  const error = { code: 'DISK_FULL', message: 'The disk is full.' };
  for (const phaseReason of phaseReasons)
    for (const phase of reasonRow({ phaseReason }).phases)
      for (const fault of [null, error])
        expect(explanationOf({ ...agent, phase, phaseReason, error: fault })).toMatch(/^[^{}]+\.$/);
  expect(explanationOf({ ...agent, phaseReason: 'BLOCKED', error })).toBe('Blocked: the key is wrong.');
  expect(explanationOf({ ...agent, phaseReason: 'RETRYING', error })).toBe(
    'The disk is full. The agent retries the same messages.',
  );
});
