import { AlreadyExistsError, InvalidArgumentError } from '@muster/sdk';

/** The service's error by field of the form; `rest` is an error without a field. */
export interface SpawnProblems {
  readonly fields: ReadonlyMap<string, string>;
  readonly rest: unknown;
}

const formFields: readonly (readonly [pattern: RegExp, field: string])[] = [
  [/^(description|expectedOutput|model|reasoningEffort|serviceTier|fastMode|outputSchema|tasks)$/, '$1'],
  [/^tasks\[(\d+)\].*$/, 'tasks[$1]'],
  [/^agentId\.agent(\[\d+\])?$/, 'name'],
  [/^(agentId\.)?workspace$/, 'workspace'],
  [/^(agent|persona|workspace\.persona)$/, 'persona'],
  [/^agentId\.(account|ownerProvider)$/, 'owner'],
];

/** The field of the form for a field of the request. */
export function formFieldOf(field: string): string | undefined {
  const match = formFields.find(([pattern]) => pattern.test(field));
  return match && field.replace(...match);
}

/** The fields under "More options". */
export const moreFields = [
  'reasoningEffort',
  'serviceTier',
  'fastMode',
  'expectedOutput',
  'outputSchema',
  'owner',
];

export function spawnProblems(error: unknown): SpawnProblems {
  const fields = new Map<string, string>();
  if (error instanceof AlreadyExistsError && error.message.startsWith('Idempotency-Key'))
    return {
      fields,
      rest: new Error('An earlier attempt already started the agent. Look for it in the list.'),
    };
  if (error instanceof AlreadyExistsError)
    return { fields: new Map([['name', sentence(error.message)]]), rest: null };
  if (!(error instanceof InvalidArgumentError)) return { fields, rest: error };
  let hasFieldForAll = error.fieldViolations.length > 0;
  for (const { field, description } of error.fieldViolations) {
    const name = formFieldOf(field);
    if (name) fields.set(name, sentence(description));
    else hasFieldForAll = false;
  }
  return { fields, rest: hasFieldForAll ? null : error };
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
