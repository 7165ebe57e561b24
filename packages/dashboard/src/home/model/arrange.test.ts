import type { AgentEntry } from '@muster/sdk';
import type { Phase, PhaseReason } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import {
  agentEntry as agent,
  secondsAgo as ago,
  agentEntryNow as now,
} from '../../../../../test/support/samples.ts';
import { attentions } from '../../live/model/attention.ts';
import { arrange, isSameOrder, type Viewer } from './arrange.ts';
import { type Filter, noFilter } from './filter.ts';
import { sectionTitle } from './grouping.ts';
import { rangeBetween } from './selected-range.ts';

const state = (phaseReason: PhaseReason, since: number, phase: Phase = 'PHASE_WAITING_FOR_INPUT') => ({
  phase,
  phaseReason,
  phaseSince: ago(since),
});

const ada: Viewer = { role: 'admin', ownerProvider: 'PROVIDER_CODEHOST_OAUTH', account: 'ada' };

/** The sections as `id: names`. */
function shown(
  agents: readonly (readonly [string, AgentEntry])[],
  filter: Partial<Filter> = {},
  seen: readonly string[] = [],
  viewer = ada,
): string[] {
  const names = new Map(agents.map(([page, { agentId }]) => [page, agentId.agent.join('/')]));
  const marked = agents.map(
    ([page, entry]) =>
      [page, { ...entry, seen: seen.includes(names.get(page) ?? '') ? entry.sequence : '0' }] as const,
  );
  return arrange(marked, { ...noFilter, ...filter }, viewer, now).sections.map(
    ({ id, pages }) => `${id}: ${pages.map((page) => names.get(page)).join(' ')}`,
  );
}

describe('the sections', () => {
  test('are sorted by urgency, and empty sections are left out', () => {
    const fleet = [
      agent('idle', state('DEFERRED', 5)),
      agent('working', state('WORKING', 5, 'PHASE_RUNNING')),
      agent('limited', state('PROVIDER_LIMIT', 5, 'PHASE_PENDING')),
      agent('resting', state('RESTING', 5)),
      agent('half-done', state('TASKS_UNFINISHED', 5)),
      agent('broken', state('ERROR', 5, 'PHASE_FAILED')),
      agent('question', state('QUESTION', 5)),
    ];
    expect(shown(fleet)).toEqual([
      'question: question',
      'failed: broken',
      'unfinished: half-done',
      'finished: resting',
      'waiting: limited',
      'working: working',
      'idle: idle',
    ]);
    expect(shown(fleet.slice(0, 2))).toEqual(['working: working', 'idle: idle']);
  });

  test('move seen ends to idle, and keep agents that need a person', () => {
    const fleet = [
      agent('question', state('QUESTION', 5)),
      agent('half-done', state('TASKS_UNFINISHED', 5)),
      agent('broken', state('ERROR', 3, 'PHASE_FAILED')),
      agent('resting', state('RESTING', 4)),
    ];
    expect(shown(fleet, {}, ['question', 'half-done', 'broken', 'resting'])).toEqual([
      'question: question',
      'unfinished: half-done',
      'failed-seen: broken',
      'idle: resting',
    ]);
  });

  test('of pinned agents is above all others, by name, and agents keep their status in filters and counts', () => {
    const fleet = [
      agent('question', state('QUESTION', 5)),
      agent('z-pinned', { ...state('QUESTION', 9), pinned: true }),
      agent('a-pinned', { ...state('RESTING', 1), pinned: true }),
    ];
    expect(shown(fleet)).toEqual(['pinned: a-pinned z-pinned', 'question: question']);
    expect(shown(fleet, { phases: ['question'] })).toEqual(['pinned: z-pinned', 'question: question']);
    expect(arrange(fleet, noFilter, ada, now).summary).toMatchObject({
      needingAttention: 2,
      counts: { question: 2, finished: 1 },
    });
  });

  test('sort waiting agents oldest first and ended agents newest first', () => {
    const each = (reason: PhaseReason, phase?: Phase) => [
      agent(`${reason.toLowerCase()}-old`, state(reason, 300, phase)),
      agent(`${reason.toLowerCase()}-new`, state(reason, 10, phase)),
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

  test('sort working agents that were silent longest last, and keep the order of agents with recent progress', () => {
    const works = (name: string, silent: number, age: number) =>
      agent(name, {
        ...state('WORKING', age, 'PHASE_RUNNING'),
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

  test('do not depend on the order of the input', () => {
    const fleet = ['d', 'b', 'a', 'c'].map((name) => agent(name));
    expect(shown(fleet)).toEqual(['finished: a b c d']);
    expect(shown(fleet.toReversed())).toEqual(['finished: a b c d']);
  });
});

describe('a filter', () => {
  const fleet = [
    agent('build/web', { ...state('QUESTION', 5), needsInput: 'Which Database?' }),
    agent(
      'build',
      { description: 'Ship the shop', labels: { team: 'web', tier: '1' } },
      { workspace: 'shop' },
    ),
    agent('broken', { ...state('ERROR', 1, 'PHASE_FAILED'), error: 'No disk' }, { account: 'grace' }),
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
    ['disk', ['failed: broken']],
    ['model-b', ['finished: lint']],
    ['team=web', ['finished: build']],
    ['ship model-b', []],
  ])('finds %s in names, descriptions, questions, errors, models and labels', (text, sections) => {
    expect(shown(fleet, { text })).toEqual(sections);
  });

  test('matches an owner with and without the provider', () => {
    expect(shown(fleet, { owner: 'grace' })).toEqual(['failed: broken', 'finished: lint']);
    expect(shown(fleet, { owner: 'idp_oidc/grace' })).toEqual(['finished: lint']);
    expect(shown(fleet, { owner: 'nobody' })).toEqual([]);
  });

  test('matches agents that have all of its labels', () => {
    expect(shown(fleet, { labels: ['team=web'] })).toEqual(['finished: build']);
    expect(shown(fleet, { labels: ['team=web', 'tier=1'] })).toEqual(['finished: build']);
    expect(shown(fleet, { labels: ['team=web', 'tier=2'] })).toEqual([]);
    expect(shown(fleet, { labels: ['team=w'] })).toEqual([]);
  });

  test('matches workspaces and sections, combined with the other fields', () => {
    expect(shown(fleet, { workspace: 'shop' })).toEqual(['finished: build']);
    expect(shown(fleet, { phases: ['failed', 'finished'] })).toEqual([
      'failed: broken',
      'finished: build lint',
    ]);
    expect(shown(fleet, { phases: ['failed'], text: 'ship' })).toEqual([]);
  });

  test('does not change the totals of the whole fleet', () => {
    const none = Object.fromEntries(attentions.map((attention) => [attention, 0]));
    const { summary } = arrange(fleet, { ...noFilter, owner: 'grace', phases: ['failed'] }, ada, now);
    expect(summary).toEqual({
      total: 4,
      totals: { mine: 2, everyone: 4 },
      scope: 'everyone',
      shown: 1,
      counts: { ...none, failed: 1, finished: 1 },
      needingAttention: 2,
      rehearsed: 0,
      unsandboxed: 0,
      owners: ['codehost_oauth/ada', 'codehost_oauth/grace', 'idp_oidc/grace'],
      workspaces: ['default', 'shop'],
      labels: ['team=api', 'team=web', 'tier=1'],
    });
  });
});

describe('the scope', () => {
  const grace = { account: 'grace' };
  const fleet = [
    agent('hers', { ...state('QUESTION', 900) }, grace),
    agent('mine', { ...state('QUESTION', 5) }),
    agent('other', state('RESTING', 5), { account: 'ada', ownerProvider: 'PROVIDER_IDP_OIDC' }),
  ];
  const member: Viewer = { ...ada, role: 'member' };

  test('of a member is the own agents, of others everyone’s, unless the filter says otherwise', () => {
    const names = (viewer: Viewer, filter: Partial<Filter> = {}) => shown(fleet, filter, [], viewer);
    expect(names(member)).toEqual(['question: mine']);
    expect(names(ada)).toEqual(['question: mine hers', 'finished: other']);
    expect(names({ ...ada, role: 'viewer' })).toHaveLength(2);
    expect(names(ada, { scope: 'mine' })).toEqual(['question: mine']);
    expect(names(member, { scope: 'everyone' })).toEqual(['question: mine hers', 'finished: other']);
    expect(names(member, { owner: 'grace' })).toEqual(['question: hers']);
    expect(names(member, { owner: 'grace', scope: 'mine' })).toEqual(['question: hers']);
  });

  test('counts only its agents, and offers all people', () => {
    const { summary } = arrange(fleet, noFilter, member, now);
    expect(summary).toMatchObject({
      scope: 'mine',
      total: 1,
      totals: { mine: 1, everyone: 3 },
      needingAttention: 1,
      counts: { question: 1, finished: 0 },
      owners: ['codehost_oauth/ada', 'codehost_oauth/grace', 'idp_oidc/ada'],
    });
  });
});

describe('grouping', () => {
  const fleet = [
    agent('a', { ...state('RESTING', 9), labels: { team: 'web' } }),
    agent('b', { ...state('QUESTION', 5), labels: { team: 'api' } }, { account: 'grace', workspace: 'shop' }),
    agent('c', { ...state('WORKING', 5, 'PHASE_RUNNING'), labels: { team: 'web' } }, { workspace: 'shop' }),
    agent('d', { ...state('QUESTION', 3), pinned: true, labels: { team: 'web' } }),
    agent('e', { ...state('QUESTION', 1), labels: {} }),
  ];

  test.each<[Filter['group'], readonly string[]]>([
    ['status', ['pinned: d', 'question: e b', 'finished: a', 'working: c']],
    ['person', ['pinned: d', 'person:codehost_oauth/ada: e a c', 'person:codehost_oauth/grace: b']],
    ['workspace', ['pinned: d', 'workspace:default: e a', 'workspace:shop: b c']],
    ['label:team', ['pinned: d', 'label:api: b', 'label:web: a c', 'label:: e']],
    ['label:toString', ['pinned: d', 'label:: e b a c']],
    ['none', ['pinned: d', 'all:: e b a c']],
  ])('by %s', (group, sections) => {
    expect(shown(fleet, { group })).toEqual(sections);
  });

  test('keeps a bound on the sections', () => {
    const many = Array.from({ length: 1_000 }, (_, i) => agent(`n${i}`, { labels: { id: `${i}` } }));
    const { sections, summary } = arrange(many, { ...noFilter, group: 'label:id' }, ada, now);
    expect(sections).toHaveLength(201);
    expect(sections.at(-1)).toMatchObject({ id: 'more:', pages: expect.objectContaining({ length: 800 }) });
    expect(summary.shown).toBe(1_000);
  });

  test('has titles for people', () => {
    const owners = ['codehost_oauth/ada', 'idp_oidc/ada', 'codehost_oauth/grace'];
    const title = (id: string, group: Filter['group']) => sectionTitle(id, group, owners);
    expect(title('question', 'status')).toBe('Needs input');
    expect(title('person:codehost_oauth/grace', 'person')).toBe('grace');
    expect(title('person:idp_oidc/ada', 'person')).toBe('ada (idp_oidc)');
    expect(title('workspace:question', 'workspace')).toBe('question');
    expect(title('label:', 'label:team')).toBe('No team');
    expect(title('label:a:b', 'label:team')).toBe('a:b');
  });
});

test.each<[Filter['sort'], string]>([
  ['name', 'a b c'],
  ['-name', 'c b a'],
  ['created', 'b c a'],
  ['-created', 'a c b'],
  ['changed', 'c a b'],
  ['cost', 'c a b'],
  ['-cost', 'b a c'],
])('sorts by %s', (sort, names) => {
  const at = (name: string, createdAt: number, since: number, treeCost: number) =>
    agent(name, { ...state('RESTING', since), createdAt: ago(createdAt), treeCost });
  const fleet = [at('c', 200, 1, 3), at('a', 300, 2, 2), at('b', 100, 3, 1)];
  expect(shown(fleet, { sort, group: 'none' })).toEqual([`all:: ${names}`]);
});

test('a range is all rows between two, in either direction', () => {
  const sections = [
    { id: 'failed', pages: ['a', 'b'] },
    { id: 'working', pages: ['c', 'd'] },
  ];
  expect(rangeBetween(sections, 'b', 'd')).toEqual(['b', 'c', 'd']);
  expect(rangeBetween(sections, 'c', 'a')).toEqual(['a', 'b', 'c']);
  expect(rangeBetween(sections, null, 'a')).toBeNull();
  expect(rangeBetween(sections, 'gone', 'a')).toBeNull();
});

test('two orders are the same when every agent has the same position in the same section', () => {
  const order = [
    { id: 'failed', pages: ['a', 'b'] },
    { id: 'working', pages: ['c'] },
  ] as const;
  expect(isSameOrder(order, structuredClone(order))).toBe(true);
  expect(isSameOrder(order, [order[0]])).toBe(false);
  expect(isSameOrder(order, [{ id: 'failed', pages: ['b', 'a'] }, order[1]])).toBe(false);
  expect(isSameOrder(order, [{ id: 'waiting', pages: ['a', 'b'] }, order[1]])).toBe(false);
});
