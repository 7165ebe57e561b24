import { AlreadyExistsError, ConnectionError, errorOf } from '@muster/sdk';
import { expect, test } from 'vitest';
import { formFieldOf, spawnProblems } from './spawn-problems.ts';

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
    ['model', 'Model is wrong'],
    ['tasks[0]', 'Tasks[0].id is wrong'],
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
  expect(spawnProblems(taken).fields.get('name')).toBe('The agent a exists');
  const repeated = new AlreadyExistsError(409, { code: 6, message: 'Idempotency-Key: "x" was used' });
  expect(String(spawnProblems(repeated).rest)).toContain('An earlier attempt already started the agent');
});
