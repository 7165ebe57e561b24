import { type HistoryEntry, InvalidArgumentError } from '@muster/sdk';
import { inputFormatOf, type Kind } from '@muster/sdk/contract';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useClient } from '../session/session.ts';
import {
  type Document,
  forgetResource,
  readIfThere,
  resourceQuery,
  type StoredResource,
  takeSecret,
} from './catalog-queries.ts';
import { isOutrun } from './is-outrun.ts';
import { payloadPath } from './text/field-path.ts';
import { type LineProblem, readText } from './text/read-text.ts';

/** Somebody else was quicker: what stands there now, and the saves by which it came to that, newest first. */
export interface Conflict {
  /** Null when it was deleted, and nothing builtin stands in its place. */
  readonly theirs: StoredResource | null;
  readonly saves: readonly HistoryEntry<Document>[];
}

export interface SaveRequest {
  readonly text: string;
  /** What the text was made from. */
  readonly generation: string;
  readonly reason: string;
}

/** Saves a text over the generation it was made from, and over no other. */
export function useSave(
  kind: Kind,
  name: string,
  {
    onSaved,
    onSecret,
  }: { readonly onSaved: (stored: StoredResource) => void; readonly onSecret: (secret: string) => void },
) {
  const client = useClient();
  const queries = useQueryClient();
  const [conflict, setConflict] = useState<Conflict | null>(null);

  const { mutate, error, variables, isPending, reset } = useMutation({
    mutationFn: async ({ text, generation, reason }: SaveRequest) => {
      const { fields } = readText(kind, name, text);
      if (!fields) throw new Error('The text has errors. Mend them first.');
      try {
        const settings = { ifGenerationMatch: generation, justification: reason };
        const written = await client.catalog.write(kind, name, fields, settings);
        const { document, secret } = takeSecret(kind, written.document);
        const stored = { kind, document, generation: written.generation, inputFormat: inputFormatOf(kind) };
        queries.setQueryData(resourceQuery(client, kind, name).queryKey, stored);
        setConflict(null);
        onSaved(stored);
        // The secret goes past what queries and mutations remember.
        if (secret !== null) onSecret(secret);
      } catch (refusal) {
        if (!isOutrun(refusal)) throw refusal;
        const theirs = await readIfThere(client, kind, name);
        const { entries } = await client.catalog.history(kind, name, { pageSize: 20 });
        setConflict({
          theirs,
          saves: entries.filter((entry) => BigInt(entry.generation) > BigInt(generation)),
        });
      }
      await forgetResource(queries, kind, name);
    },
  });

  return {
    save: mutate,
    isSaving: isPending,
    error,
    conflict,
    forget: () => {
      setConflict(null);
      reset();
    },
    /** What the service said of lines of this very text. */
    refusedLines: (text: string): readonly LineProblem[] =>
      variables?.text === text ? refusedLines(kind, name, text, error) : [],
  };
}

function refusedLines(kind: Kind, name: string, text: string, error: unknown): readonly LineProblem[] {
  if (!(error instanceof InvalidArgumentError)) return [];
  const { lineOf } = readText(kind, name, text);
  return error.fieldViolations.flatMap(({ field, description }) => {
    const path = payloadPath(field);
    const what = field.replace(/^payload\.?/, '') || 'The document';
    return path ? [{ line: lineOf(path), message: `${what} ${description}` }] : [];
  });
}
