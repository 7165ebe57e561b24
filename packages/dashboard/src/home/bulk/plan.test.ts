import type { AgentEntry, Caller } from '@muster/sdk';
import { describe, expect, test } from 'vitest';
import { agentEntry } from '../../../../../test/support/samples.ts';
import { type BulkAction, callsOf, nameOf, planOf } from './plan.ts';
import { runEach, StoppedError } from './run-each.ts';

const running = { phase: 'PHASE_RUNNING', phaseReason: 'WORKING' } as const;
const ended = { phase: 'PHASE_COMPLETED', phaseReason: 'FINISHED' } as const;
const fleet: readonly (readonly [string, AgentEntry])[] = [
  agentEntry('build', running),
  agentEntry('build/web', running),
  agentEntry('build/web/css'),
  agentEntry('build/old', ended),
  agentEntry('builder'),
  agentEntry('hers', running, { account: 'grace' }),
];
const ada = { role: 'member', account: 'ada', ownerProvider: 'PROVIDER_CODEHOST_OAUTH' } as Caller;

const targets = (...names: string[]) =>
  fleet.map(([page, entry]) => ({ page, entry })).filter((target) => names.includes(nameOf(target)));
const plan = (action: BulkAction, names: string[], caller = ada) => {
  const { targets: chosen, below, left } = planOf(action, targets(...names), fleet, caller);
  return {
    targets: chosen.map(nameOf),
    below: below.map(nameOf),
    left: left.map(({ target, why }) => `${nameOf(target)}: ${why}`),
  };
};

describe('the plan', () => {
  test('leaves out what the action does not apply to, and says why', () => {
    const names = ['build', 'build/old', 'builder', 'hers'];
    expect(plan('message', names)).toEqual({
      targets: ['build', 'builder'],
      below: [],
      left: ['build/old: has ended', 'hers: belongs to grace'],
    });
    expect(plan('stop', names).left).toEqual([
      'build/old: has ended',
      'builder: is not in a turn',
      'hers: belongs to grace',
    ]);
    expect(plan('label', names).targets).toEqual(['build', 'build/old', 'builder']);
    expect(plan('label', names, { ...ada, role: 'admin' }).left).toEqual([]);
    expect(plan('message', names, { ...ada, role: 'viewer' })).toMatchObject({
      targets: [],
      left: expect.arrayContaining(['hers: you can only read']),
    });
  });

  test('of a kill names every live agent that ends too', () => {
    expect(plan('kill', ['build'])).toMatchObject({
      targets: ['build'],
      below: ['build/web', 'build/web/css'],
    });
    expect(plan('kill', ['build/web', 'builder']).below).toEqual(['build/web/css']);
    expect(callsOf('kill', targets('build', 'build/web/css', 'builder')).map(nameOf)).toEqual([
      'build',
      'builder',
    ]);
    expect(callsOf('stop', targets('build', 'build/web'))).toHaveLength(2);
  });
});

describe('doing something for each', () => {
  test('does a few at a time, and reports each', async () => {
    let [atOnce, most] = [0, 0];
    const outcomes = new Map<number, boolean>();
    await runEach(
      Array.from({ length: 50 }, (_, i) => i),
      async (i) => {
        atOnce += 1;
        most = Math.max(most, atOnce);
        await new Promise(setImmediate);
        atOnce -= 1;
        if (i % 10 === 0) throw new Error('no');
      },
      (i, { isDone }) => outcomes.set(i, isDone),
      new AbortController().signal,
    );
    expect(most).toBe(6);
    expect(outcomes.size).toBe(50);
    expect([...outcomes].filter(([, isDone]) => !isDone).map(([i]) => i)).toEqual([0, 10, 20, 30, 40]);
  });

  test('begins nothing after it was stopped, and says what was not done', async () => {
    const stopping = new AbortController();
    const begun: number[] = [];
    const errors: unknown[] = [];
    await runEach(
      Array.from({ length: 20 }, (_, i) => i),
      async (i) => {
        begun.push(i);
        stopping.abort();
      },
      (_, outcome) => !outcome.isDone && errors.push(outcome.error),
      stopping.signal,
    );
    expect(begun.length + errors.length).toBe(20);
    expect(begun.length).toBeLessThan(7);
    expect(errors[0]).toBeInstanceOf(StoppedError);
  });
});
