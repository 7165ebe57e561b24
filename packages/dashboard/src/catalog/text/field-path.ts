/** Where a value stands in a document: the names and places that lead to it. */
export type FieldPath = readonly (string | number)[];

/** `['tasks', 2, 'subject']` → `tasks[2].subject`, as the service writes it. */
export const pathWords = (path: FieldPath): string =>
  path.reduce<string>(
    (words, part) => (typeof part === 'number' ? `${words}[${part}]` : words ? `${words}.${part}` : part),
    '',
  );

/** `payload.tasks[2].subject` → `['tasks', 2, 'subject']`; undefined when it names no field of a document. */
export function payloadPath(field: string): FieldPath | undefined {
  const [, rest] = /^payload(?:\.(.*))?$/s.exec(field) ?? [];
  if (rest === undefined) return field === 'payload' ? [] : undefined;
  return [...rest.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([part, place]) =>
    place === undefined ? part : Number(place),
  );
}
