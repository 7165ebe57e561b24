import { describe, expect, test } from 'vitest';
import { claimingRunner, ended, followUp, report, spawn } from '../../../../test/simulation/samples.ts';
import type { AgentState } from './agent.ts';
import { type AgentCommand, type Command, decide } from './decide.ts';
import type { DomainEvent } from './events.ts';
import { LoadedAgents } from './loaded-agents.ts';
import { isRefusal } from './refusal.ts';

const now = '2026-03-01T12:00:00.000Z';

/** The state after a command, and what happened. */
function after(
  command: Command,
  state: AgentState | null,
): { state: AgentState; events: readonly DomainEvent[] } {
  const loaded = new LoadedAgents(now);
  if (state) loaded.add(state);
  const decision = decide(loaded, command, state);
  if (isRefusal(decision)) throw new Error(decision.message);
  const [change] = decision.changes;
  if (!change) throw new Error('nothing changed');
  return { state: change.after, events: change.events };
}

const id = '019513f0-0000-7000-8000-000000000001';
const spawned = after(spawn(id, ['root']), null).state;
const claimed = after(claimingRunner('r', 'runner'), spawned).state;
const running = after(report('r', 1, 1, { started: true }), claimed).state;
const thread = {
  place: {
    ...{ repo: '', path: 'a.ts', line: 1, startLine: 1, side: 'NEW' as const, quote: '' },
    ...{ changeRequest: 'cr', hostId: 'T1', url: '' },
  },
  id: '019513f0-0000-7000-8000-000000000002',
} as const;
const comment = { author: 'ada', kind: 'PERSON', permission: 'write', body: 'Why?', url: '' } as const;
const review = (hostId: string, followUpId = 'm'): AgentCommand =>
  followUp(followUpId, {
    review: { threads: [{ ...thread, comments: [{ ...comment, hostId }] }], taskIds: followUpId },
  });
const resolve = (byHost: boolean): AgentCommand => ({
  ...{ type: 'resolveThread', threadId: thread.id, state: 'RESOLVED', byHost },
});
const reviewed = after(review('C1'), running).state;
const usage = { costUsd: 0.5, inputTokens: 10, cachedInputTokens: 2, outputTokens: 3 };

describe('what happened', () => {
  test.each<[what: string, state: AgentState, command: AgentCommand, events: readonly unknown[]]>([
    ['nothing, when a message is queued for a run', running, followUp('m'), []],
    ['nothing, when a host tells of a comment', running, review('C1'), []],
    ['nothing, when a host tells that a thread is resolved', reviewed, resolve(true), []],
    [
      'a change of phase',
      claimed,
      report('r', 1, 1, { started: true }),
      [{ type: 'phaseChanged', fromReason: 'STARTING', to: 'PHASE_RUNNING', reason: 'WORKING' }],
    ],
    [
      'a push',
      running,
      report('r', 1, 2, { pushes: [{ repo: 'https://h/a', ref: 'b', commits: [], files: [] }] }),
      [{ type: 'branchPushed', repo: 'https://h/a', branch: 'b' }],
    ],
    [
      'a use of tokens',
      running,
      report('r', 1, 2, { usage }),
      [
        {
          type: 'spent',
          runId: 1,
          usage: { cost: 0.5, inputTokens: 10, outputTokens: 3 },
          parts: [],
          isLate: false,
        },
      ],
    ],
    [
      'the end of a run, before the change of phase that it leads to',
      running,
      report('r', 1, 2, { end: ended('COMPLETED') }),
      [{ type: 'runEnded', runId: 1, outcome: 'COMPLETED' }, { type: 'phaseChanged' }],
    ],
    [
      'a comment of a person here',
      reviewed,
      review('', 'n'),
      [{ type: 'threadAnswered', threadId: thread.id, how: 'reply', comment: { body: 'Why?' } }],
    ],
    [
      'a thread that is resolved here',
      reviewed,
      resolve(false),
      [{ how: 'resolve', comment: null, at: now }],
    ],
  ])('%s', (_what, state, command, events) => {
    expect(after(command, state).events).toMatchObject(events);
  });

  test('a late report says what the run used beyond what was counted', () => {
    const parts = [{ model: 'm', account: 'a', costUsd: 0.75 }];
    const counted = after(report('r', 1, 2, { usage, end: ended('COMPLETED') }), running).state;
    const late = after(
      {
        ...{
          type: 'late',
          runId: 1,
          report: 2,
          runner: 'runner',
          pool: 'default',
          items: [],
          missing: 0,
          parts,
        },
        usage: { cost: 0.75, inputTokens: 10, cachedInputTokens: 2, outputTokens: 5 },
      },
      counted,
    );
    const more = { cost: 0.25, inputTokens: 0, cachedInputTokens: 0, outputTokens: 2 };
    expect(late.events).toEqual([{ type: 'spent', runId: 1, at: now, usage: more, parts, isLate: true }]);
  });
});
