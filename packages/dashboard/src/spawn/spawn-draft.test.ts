import type { AgentId } from '@muster/sdk';
import { describe, expect, test } from 'vitest';
import { noChoices } from './last-choices.ts';
import {
  type DraftTask,
  draftFrom,
  draftProblems,
  nameFrom,
  newTask,
  ownerIn,
  pathIn,
  type SpawnDraft,
  spawnInputOf,
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

describe('what the form sends', () => {
  test('only what was filled in', () => {
    expect(spawnInputOf(draft({ description: ' Fix it \n' }), undefined)).toEqual({
      path: { agent: [], workspace: 'default' },
      description: 'Fix it',
    });
  });

  test('every choice under the name the interface has for it', () => {
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
    });
  });

  test('tasks without their blank rows, with ids where others wait for them', () => {
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

  test('below a parent its workspace and owner, and a name even if none was typed', () => {
    expect(spawnInputOf(draft({ description: 'Write the tests, all of them' }), parent).path).toEqual({
      ...parent,
      agent: ['lead', 'write-the-tests-all'],
    });
    expect(pathIn({ name: 'tests', description: '' }, parent)).toEqual(['lead', 'tests']);
  });
});

describe('names and owners', () => {
  test('a name is made of the first words', () => {
    expect(nameFrom('Fix: the *login* page!')).toBe('fix-the-login-page');
    expect(nameFrom('¡…!')).toBe('child');
    expect(nameFrom('x'.repeat(100))).toHaveLength(40);
  });

  test('an owner is an account, under its provider if that is named', () => {
    expect(ownerIn('ada')).toEqual({ account: 'ada' });
    expect(ownerIn('idp_oidc/ada')).toEqual({ account: 'ada', ownerProvider: 'PROVIDER_IDP_OIDC' });
    for (const wrong of ['', 'nobody/ada', 'idp_oidc/', 'idp_oidc/a/b'])
      expect(ownerIn(wrong)).toBeUndefined();
  });
});

describe('what is wrong before the service is asked', () => {
  test('nothing with a text, or with tasks alone', () => {
    expect(draftProblems(draft({ description: 'x' }), undefined).size).toBe(0);
    expect(draftProblems(draft({ tasks: [task('t1')] }), undefined).size).toBe(0);
  });

  test('each field that is wrong is named', () => {
    const wrong = draft({
      name: 'a b',
      outputSchema: '{',
      owner: 'x/y/z',
      tasks: [newTask([]), task('t2', { subject: '', description: 'something' })],
    });
    expect([...draftProblems(wrong, undefined).keys()]).toEqual([
      'name',
      'tasks[0]',
      'outputSchema',
      'owner',
    ]);
    expect([...draftProblems(draft({ tasks: [newTask([])] }), undefined).keys()]).toEqual(['description']);
  });
});

describe('tasks of a draft', () => {
  test('a new one has an id of its own', () => {
    expect(newTask([task('t2'), task('t3')]).id).toBe('t4');
    expect(newTask([task('t2')]).id).toBe('t3');
    expect(newTask([]).id).toBe('t1');
  });

  test('nobody waits for one that was taken away', () => {
    expect(withoutTask([task('t1'), task('t2', { blockedBy: ['t1'] })], 't1')).toEqual([task('t2')]);
  });

  test('those of a preset keep their ids, edges and patterns', () => {
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
