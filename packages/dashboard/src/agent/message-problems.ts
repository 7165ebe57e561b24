import { InvalidArgumentError } from '@muster/sdk';

/** What the service said of a message: by the fields of the form, and what fits none of them. */
export interface MessageProblems {
  readonly fields: ReadonlyMap<string, string>;
  readonly rest: unknown;
  /** Something that stands under the options is wrong. */
  readonly isInOptions: boolean;
}

const formField = (field: string): string | undefined =>
  /^(description|agent|model|reasoningEffort|serviceTier|fastMode|outputSchema|preempt|deliverAt|tasks)\b/.exec(
    field,
  )?.[1];

export function messageProblems(error: unknown): MessageProblems {
  const fields = new Map<string, string>();
  if (!(error instanceof InvalidArgumentError)) return { fields, rest: error, isInOptions: false };
  const strange = error.fieldViolations.filter(({ field, description }) => {
    const name = formField(field);
    if (name) fields.set(name, sentence(field, description));
    return name === undefined;
  });
  const isWhole = fields.size > 0 && strange.length === 0;
  return {
    fields,
    rest: isWhole ? null : error,
    isInOptions: [...fields.keys()].some((name) => name !== 'description'),
  };
}

/** Of a task the form shows one line each: which one it is about. */
function sentence(field: string, description: string): string {
  const line = /^tasks\[(\d+)\]/.exec(field)?.[1];
  const text = `${description.charAt(0).toUpperCase()}${description.slice(1)}`;
  return line === undefined ? text : `Line ${Number(line) + 1}: ${description}`;
}
