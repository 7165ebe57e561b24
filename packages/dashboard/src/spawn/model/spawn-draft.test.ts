import { type AgentId, AlreadyExistsError, ConnectionError, errorOf } from '@muster/sdk';
import { describe, expect, test } from 'vitest';
import {
  choicesText,
  type DraftTask,
  draftFrom,
  draftProblems,
  formFieldOf,
  nameFrom,
  newTask,
  noChoices,
  ownerIn,
  parseChoices,
  pathIn,
  type SpawnDraft,
  spawnInputOf,
  spawnProblems,
  withoutTask,
} from './spawn-draft.ts';

const parent: AgentId = {
  tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'local' },
  ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
  account: 'ada',
  workspace: 'web',
  agent: ['lead'],
};
const draft = (change: Partial<SpawnDraft> = {}): SpawnDraft => ({ ...draftFrom({}, noChoices), ...change });
const task = (id: string, change: Partial<DraftTask> = {}): DraftTask => ({
  id,
  subject: id,
  description: '',
  blockedBy: [],
  pattern: null,
  ...change,
});

describe('the request', () => {
  test('contains only fields that were filled in', () => {
    expect(spawnInputOf(draft({ description: ' Fix it \n' }), undefined)).toEqual({
      path: { agent: [], workspace: 'default' },
      description: 'Fix it',
    });
  });

  test('contains every choice under its API name', () => {
    const all = draft({
      description: 'Fix it',
      name: 'fix/tests',
      workspace: 'web',
      persona: 'reviewer',
      model: ' opus ',
      reasoningEffort: 'high',
      serviceTier: 'flex',
      fastMode: 'off',
      expectedOutput: 'A patch',
      outputSchema: '{}',
      budgetUsd: ' 2.50 ',
      owner: 'service_profile/bot',
    });
    expect(spawnInputOf(all, undefined)).toEqual({
      path: {
        agent: ['fix', 'tests'],
        workspace: 'web',
        account: 'bot',
        ownerProvider: 'PROVIDER_SERVICE_PROFILE',
      },
      description: 'Fix it',
      persona: 'reviewer',
      model: 'opus',
      reasoningEffort: 'high',
      serviceTier: 'flex',
      fastMode: false,
      expectedOutput: 'A patch',
      outputSchema: '{}',
      budgetUsd: 2.5,
    });
  });

  test('contains tasks without empty rows, with ids for tasks that others depend on', () => {
    const tasks = [
      task('t1'),
      task('t2', { subject: ' ' }),
      task('t3', { blockedBy: ['t1'], pattern: 'src/**', description: 'All of it' }),
    ];
    expect(spawnInputOf(draft({ tasks }), undefined).tasks).toEqual([
      { id: 't1', subject: 't1' },
      {
        subject: 't3',
        description: 'All of it',
        blockedBy: ['t1'],
        activation: { filesModified: { pattern: 'src/**' } },
      },
    ]);
  });

  test('for a child contains the workspace and owner of the parent, and a name even if none was typed', () => {
    expect(spawnInputOf(draft({ description: 'Write the tests, all of them' }), parent).path).toEqual({
      ...parent,
      agent: ['lead', 'write-the-tests-all'],
    });
    expect(pathIn({ name: 'tests', description: '' }, parent)).toEqual(['lead', 'tests']);
  });
});

describe('names and owners', () => {
  test('a name is generated from the first words', () => {
    expect(nameFrom('Fix: the *login* page!')).toBe('fix-the-login-page');
    expect(nameFrom('¡…!')).toBe('child');
    expect(nameFrom('x'.repeat(100))).toHaveLength(40);
  });

  test('an owner is an account, with or without its provider', () => {
    expect(ownerIn('ada')).toEqual({ account: 'ada' });
    expect(ownerIn('idp_oidc/ada')).toEqual({ account: 'ada', ownerProvider: 'PROVIDER_IDP_OIDC' });
    for (const wrong of ['', 'nobody/ada', 'idp_oidc/', 'idp_oidc/a/b'])
      expect(ownerIn(wrong)).toBeUndefined();
  });
});

describe('the problems of a draft', () => {
  test('are empty with a description, or with tasks alone', () => {
    expect(draftProblems(draft({ description: 'x' }), undefined).size).toBe(0);
    expect(draftProblems(draft({ tasks: [task('t1')] }), undefined).size).toBe(0);
  });

  test('name each invalid field', () => {
    const wrong = draft({
      name: 'a b',
      outputSchema: '{',
      budgetUsd: '-1',
      owner: 'x/y/z',
      tasks: [newTask([]), task('t2', { subject: '', description: 'something' })],
    });
    expect([...draftProblems(wrong, undefined).keys()]).toEqual([
      'name',
      'tasks[0]',
      'outputSchema',
      'budgetUsd',
      'owner',
    ]);
    expect([...draftProblems(draft({ tasks: [newTask([])] }), undefined).keys()]).toEqual(['description']);
  });
});

describe('tasks of a draft', () => {
  test('a new task gets a free id', () => {
    expect(newTask([task('t2'), task('t3')]).id).toBe('t4');
    expect(newTask([task('t2')]).id).toBe('t3');
    expect(newTask([]).id).toBe('t1');
  });

  test('no task depends on a removed task', () => {
    expect(withoutTask([task('t1'), task('t2', { blockedBy: ['t1'] })], 't1')).toEqual([task('t2')]);
  });

  test('tasks of a preset keep their ids, dependencies and patterns', () => {
    const preset = {
      tasks: [
        { subject: 'one' },
        { id: 'x', subject: 'two', blockedBy: ['t1'], activation: { filesModified: { pattern: '' } } },
      ],
    };
    expect(draftFrom(preset, noChoices).tasks).toEqual([
      task('t1', { subject: 'one' }),
      task('x', { subject: 'two', blockedBy: ['t1'], pattern: '' }),
    ]);
  });
});

test.each([null, '', '{', 'null', '[]', '"x"', '7', '{"workspace": 7, "model": null}'])(
  'invalid stored choices are ignored: %j',
  (stored) => expect(parseChoices(stored)).toEqual(noChoices),
);

test('stored choices are parsed and written as text', () => {
  const choices = parseChoices('{"workspace":"web","model":"opus","description":"secret"}');
  expect(choices).toEqual({ ...noChoices, workspace: 'web', model: 'opus' });
  expect(choicesText(choices)).toBe('workspace web, model opus');
  expect(choicesText(noChoices)).toBe('');
});

const invalid = (...fields: string[]) =>
  errorOf(400, {
    code: 3,
    message: 'no',
    details: [
      {
        '@type': 'type.googleapis.com/google.rpc.BadRequest',
        fieldViolations: fields.map((field) => ({ field, description: `${field} is wrong` })),
      },
    ],
  });

test.each([
  ['description', 'description'],
  ['tasks', 'tasks'],
  ['tasks[2].blockedBy[0]', 'tasks[2]'],
  ['tasks[10]', 'tasks[10]'],
  ['agentId.agent[1]', 'name'],
  ['agentId.agent', 'name'],
  ['agentId.workspace', 'workspace'],
  ['workspace', 'workspace'],
  ['agent', 'persona'],
  ['workspace.persona', 'persona'],
  ['agentId.account', 'owner'],
  ['agentId.tenant.org', undefined],
])('%s of the request is %s of the form', (field, expected) => expect(formFieldOf(field)).toBe(expected));

test('errors of known fields are returned by field, and other errors as the rest', () => {
  const known = spawnProblems(invalid('model', 'tasks[0].id'));
  expect([...known.fields]).toEqual([
    ['model', 'Model is wrong.'],
    ['tasks[0]', 'Tasks[0].id is wrong.'],
  ]);
  expect(known.rest).toBeNull();
  const mixed = invalid('model', 'agentId.tenant');
  expect(spawnProblems(mixed).rest).toBe(mixed);
  const broken = new ConnectionError('gone');
  expect(spawnProblems(broken)).toEqual({ fields: new Map(), rest: broken });
  expect(spawnProblems(null).rest).toBeNull();
});

test('a taken name is an error of the name; a reused idempotency key explains that the agent was started', () => {
  const taken = new AlreadyExistsError(409, { code: 6, message: 'the agent a exists' });
  expect(spawnProblems(taken).fields.get('name')).toBe('The agent a exists.');
  const repeated = new AlreadyExistsError(409, { code: 6, message: 'Idempotency-Key: "x" was used' });
  expect(String(spawnProblems(repeated).rest)).toContain('An earlier attempt already started the agent');
});
