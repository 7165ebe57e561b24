import { expect, test } from 'vitest';
import { statusText } from './display-text.ts';
import { canRetry, type PhaseReason, phaseReasons, phases, reasonRow } from './phases.ts';

test('every phase of an agent has a reason', () => {
  const found = new Set(phaseReasons.flatMap((phaseReason) => reasonRow({ phaseReason }).phases));
  expect([...found].sort()).toEqual(phases.filter((phase) => phase !== 'PHASE_UNSPECIFIED').sort());
});

test('a reason may mean something else in another phase', () => {
  const [pending, running] = (['PHASE_PENDING', 'PHASE_RUNNING'] as const).map((phase) =>
    reasonRow({ phase, phaseReason: 'STARTING' }),
  );
  expect(running).toEqual({ ...pending, advice: 'The runner is preparing the workspace.' });
});

test('a reason of a newer service is taken for the usual one of the phase', () => {
  const phaseReason = 'OUT_OF_LUCK' as PhaseReason;
  expect(reasonRow({ phase: 'PHASE_FAILED', phaseReason }).exit?.[0]).toBe(10);
  expect(statusText({ phase: 'PHASE_WAITING_FOR_INPUT', phaseReason, wakesAt: null })).toBe('idle');
});

test.each([
  ['PHASE_WAITING_FOR_INPUT', 'BLOCKED', null, true],
  ['PHASE_PENDING', 'RETRYING', '2026-03-01T12:00:00Z', true],
  ['PHASE_PENDING', 'RETRYING', null, false],
  ['PHASE_PENDING', 'STARTING', null, false],
  ['PHASE_WAITING_FOR_INPUT', 'RESTING', '2026-03-01T12:00:00Z', false],
] as const)('%s / %s with wakesAt %s can be retried: %s', (phase, phaseReason, wakesAt, expected) =>
  expect(canRetry({ phase, phaseReason, wakesAt })).toBe(expected),
);
