import { errorOf } from '@muster/sdk';
import { describe, expect, it } from 'vitest';
import { messageProblems } from './message-problems.ts';

const refusal = (...fields: string[]) =>
  errorOf(400, {
    code: 3,
    message: 'refused',
    details: [
      {
        '@type': 'type.googleapis.com/google.rpc.BadRequest',
        fieldViolations: fields.map((field) => ({ field, description: `wrong ${field}` })),
      },
    ],
  });

describe('what the service says of a message', () => {
  it('stands at the field it is about', () => {
    const { fields, rest, isInOptions } = messageProblems(refusal('model'));
    expect([...fields]).toEqual([['model', 'Wrong model']]);
    expect(rest).toBeNull();
    expect(isInOptions).toBe(true);
    expect(messageProblems(refusal('description')).isInOptions).toBe(false);
  });

  it('names the line of a task', () => {
    expect(messageProblems(refusal('tasks[1].subject')).fields.get('tasks')).toBe(
      'Line 2: wrong tasks[1].subject',
    );
  });

  it('is said as a whole when the form has no such field', () => {
    const strange = refusal('agentId.workspace');
    expect(messageProblems(strange)).toMatchObject({ rest: strange, isInOptions: false });
    const gone = errorOf(404, { code: 5, message: 'it has ended' });
    expect(messageProblems(gone).rest).toBe(gone);
    expect(messageProblems(null).rest).toBeNull();
  });
});
