import type { ChangeRequest } from '@muster/sdk';
import { describe, expect, it } from 'vitest';
import { checksText, countTexts, hasFailingChecks, isOpen } from './change-requests.ts';

const request = (state: ChangeRequest['state'], checks: ChangeRequest['checks']): ChangeRequest =>
  ({ state, checks }) as ChangeRequest;

describe('a change request', () => {
  it('without checks is never one whose checks pass', () => {
    expect(checksText({ checks: { state: 'NONE', failing: [] } })).toEqual(['no checks', 'quiet']);
    expect(checksText({ checks: { state: 'PASSING', failing: [] } })).toEqual(['checks passing', 'good']);
  });

  it('counts the checks that fail', () => {
    expect(checksText({ checks: { state: 'FAILING', failing: ['build'] } })[0]).toBe('1 check failing');
    expect(checksText({ checks: { state: 'FAILING', failing: [] } })[0]).toBe('checks failing');
  });

  it('is open also as a draft; only then its checks matter', () => {
    const failing = { state: 'FAILING', failing: ['build'] } as const;
    expect(isOpen({ state: 'DRAFT' })).toBe(true);
    expect(hasFailingChecks([request('DRAFT', { ...failing, failing: ['build'] })])).toBe(true);
    expect(hasFailingChecks([request('MERGED', { ...failing, failing: ['build'] })])).toBe(false);
  });

  it('names its threads and rounds, if there are any', () => {
    const review = { state: 'COMMENTED', openThreads: 1, resolvedThreads: 2 } as const;
    expect(countTexts({ review, rounds: 1 })).toEqual(['threads on lines: 1 open, 2 resolved', '1 round']);
    expect(countTexts({ review: { ...review, openThreads: 0, resolvedThreads: 0 }, rounds: 0 })).toEqual([]);
  });
});
