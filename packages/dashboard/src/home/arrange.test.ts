import type { AgentEntry } from '@muster/sdk';
import type { Phase, PhaseReason } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import {
  agentEntry as agent,
  secondsAgo as ago,
  agentEntryNow as now,
} from '../../../../test/support/samples.ts';
import { attentions } from '../live/model/attention.ts';
import { arrange, isSameOrder } from './arrange.ts';
import { type Filter, noFilter } from './filter.ts';

const standing = (phaseReason: PhaseReason, since: number, phase: Phase = 'PHASE_WAITING_FOR_INPUT') => ({
  phase,
  phaseReason,
  phaseSince: ago(since),
});

/** The sections as `title: names`. */
function shown(
  agents: readonly (readonly [string, AgentEntry])[],
  filter: Partial<Filter> = {},
  seen: readonly string[] = [],
): string[] {
  const names = new Map(agents.map(([page, { agentId }]) => [page, agentId.agent.join('/')]));
  const isSeen = (page: string) => seen.includes(names.get(page) ?? '');
  return arrange(agents, isSeen, { ...noFilter, ...filter }, now).sections.map(
    ({ attention, pages }) => `${attention}: ${pages.map((page) => names.get(page)).join(' ')}`,
  );
}

describe('the sections', () => {
  test('come in the order of who needs a person, and only those with somebody in them', () => {
    const fleet = [
      agent('idle', standing('DEFERRED', 5)),
      agent('works', standing('WORKING', 5, 'PHASE_RUNNING')),
      agent('limited', standing('PROVIDER_LIMIT', 5, 'PHASE_PENDING')),
      agent('rests', standing('RESTING', 5)),
      agent('half-done', standing('TASKS_UNFINISHED', 5)),
      agent('broke', standing('ERROR', 5, 'PHASE_FAILED')),
      agent('asks', standing('QUESTION', 5)),
    ];
    expect(shown(fleet)).toEqual([
      'question: asks',
      'failed: broke',
      'unfinished: half-done',
      'finished: rests',
      'waiting: limited',
      'working: works',
      'idle: idle',
    ]);
    expect(shown(fleet.slice(0, 2))).toEqual(['working: works', 'idle: idle']);
  });

  test('let go of ends that were seen, and of nothing that still waits for somebody', () => {
    const fleet = [
      agent('asks', standing('QUESTION', 5)),
      agent('half-done', standing('TASKS_UNFINISHED', 5)),
      agent('broke', standing('ERROR', 3, 'PHASE_FAILED')),
      agent('rests', standing('RESTING', 4)),
    ];
    expect(shown(fleet, {}, ['asks', 'half-done', 'broke', 'rests'])).toEqual([
      'question: asks',
      'unfinished: half-done',
      'idle: broke rests',
    ]);
  });

  test('have the longest waiting first where one waits, and the newest first where something ended', () => {
    const each = (reason: PhaseReason, phase?: Phase) => [
      agent(`${reason.toLowerCase()}-old`, standing(reason, 300, phase)),
      agent(`${reason.toLowerCase()}-new`, standing(reason, 10, phase)),
    ];
    expect(
      shown([
        ...each('QUESTION'),
        ...each('ERROR', 'PHASE_FAILED'),
        ...each('FINISHED', 'PHASE_COMPLETED'),
        ...each('KILLED', 'PHASE_CANCELED'),
      ]),
    ).toEqual([
      'question: question-old question-new',
      'failed: error-new error-old',
      'finished: finished-new finished-old',
      'idle: killed-new killed-old',
    ]);
  });

  test('have whoever works and was silent for longest last, and do not shuffle those who got on just now', () => {
    const works = (name: string, silent: number, age: number) =>
      agent(name, {
        ...standing('WORKING', age, 'PHASE_RUNNING'),
        progressAt: ago(silent),
        createdAt: ago(age),
      });
    const order = ['working: young old silent-2m silent-5m'];
    expect(
      shown([
        works('silent-5m', 300, 900),
        works('old', 1, 800),
        works('silent-2m', 120, 700),
        works('young', 30, 600),
      ]),
    ).toEqual(order);
    expect(
      shown([
        works('silent-5m', 300, 900),
        works('old', 40, 800),
        works('silent-2m', 120, 700),
        works('young', 2, 600),
      ]),
    ).toEqual(order);
  });

  test('are the same whatever order the agents came in', () => {
    const fleet = ['d', 'b', 'a', 'c'].map((name) => agent(name));
    expect(shown(fleet)).toEqual(['finished: a b c d']);
    expect(shown(fleet.toReversed())).toEqual(['finished: a b c d']);
  });
});

describe('a filter', () => {
  const fleet = [
    agent('build/web', { ...standing('QUESTION', 5), needsInput: 'Which Database?' }),
    agent(
      'build',
      { description: 'Ship the shop', labels: { team: 'web', tier: '1' } },
      { workspace: 'shop' },
    ),
    agent('broke', { ...standing('ERROR', 1, 'PHASE_FAILED'), error: 'No disk' }, { account: 'grace' }),
    agent(
      'lint',
      { model: 'model-b', labels: { team: 'api' } },
      { account: 'grace', ownerProvider: 'PROVIDER_IDP_OIDC' },
    ),
  ];

  test.each([
    ['build', ['question: build/web', 'finished: build']],
    ['BUILD/W', ['question: build/web']],
    ['database which', ['question: build/web']],
    ['ship', ['finished: build']],
    ['disk', ['failed: broke']],
    ['model-b', ['finished: lint']],
    ['team=web', ['finished: build']],
    ['ship model-b', []],
  ])('finds %s in names, descriptions, questions, errors, models and labels', (text, sections) => {
    expect(shown(fleet, { text })).toEqual(sections);
  });

  test('knows an owner with and without the provider', () => {
    expect(shown(fleet, { owner: 'grace' })).toEqual(['failed: broke', 'finished: lint']);
    expect(shown(fleet, { owner: 'idp_oidc/grace' })).toEqual(['finished: lint']);
    expect(shown(fleet, { owner: 'nobody' })).toEqual([]);
  });

  test('knows labels, all of which an agent must have', () => {
    expect(shown(fleet, { labels: ['team=web'] })).toEqual(['finished: build']);
    expect(shown(fleet, { labels: ['team=web', 'tier=1'] })).toEqual(['finished: build']);
    expect(shown(fleet, { labels: ['team=web', 'tier=2'] })).toEqual([]);
    expect(shown(fleet, { labels: ['team=w'] })).toEqual([]);
  });

  test('knows workspaces and sections, together with all else', () => {
    expect(shown(fleet, { workspace: 'shop' })).toEqual(['finished: build']);
    expect(shown(fleet, { phases: ['failed', 'finished'] })).toEqual([
      'failed: broke',
      'finished: build lint',
    ]);
    expect(shown(fleet, { phases: ['failed'], text: 'ship' })).toEqual([]);
  });

  test('changes what is shown, and not what is said about the whole', () => {
    const none = Object.fromEntries(attentions.map((attention) => [attention, 0]));
    const { summary } = arrange(fleet, () => false, { ...noFilter, owner: 'grace', phases: ['failed'] }, now);
    expect(summary).toEqual({
      total: 4,
      shown: 1,
      counts: { ...none, failed: 1, finished: 1 },
      needed: 2,
      rehearsed: 0,
      unsandboxed: 0,
      owners: ['codehost_oauth/ada', 'codehost_oauth/grace', 'idp_oidc/grace'],
      workspaces: ['default', 'shop'],
      labels: ['team=api', 'team=web', 'tier=1'],
    });
  });
});

test('two orders are the same when every agent stands in the same place of the same section', () => {
  const order = [
    { attention: 'failed', pages: ['a', 'b'] },
    { attention: 'working', pages: ['c'] },
  ] as const;
  expect(isSameOrder(order, structuredClone(order))).toBe(true);
  expect(isSameOrder(order, [order[0]])).toBe(false);
  expect(isSameOrder(order, [{ attention: 'failed', pages: ['b', 'a'] }, order[1]])).toBe(false);
  expect(isSameOrder(order, [{ attention: 'waiting', pages: ['a', 'b'] }, order[1]])).toBe(false);
});
