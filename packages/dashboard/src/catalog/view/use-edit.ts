import { type HistoryEntry, InvalidArgumentError, type MusterClient } from '@muster/sdk';
import { type DocumentWarning, inputFormatOf, type Kind } from '@muster/sdk/contract';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useHistoryState } from 'wouter/use-browser-location';
import { currentSession, useClient, usePerson } from '../../session/session.ts';
import { templateOf } from '../model/document-schema.ts';
import {
  type LineProblem,
  linesOf,
  readText,
  storableText,
  textOf,
  writtenText,
} from '../model/document-text.ts';
import { isGenerationConflict } from '../model/resource.ts';
import {
  type Document,
  invalidateResource,
  readResource,
  resourceQuery,
  type StoredResource,
  takeSecret,
} from './queries.ts';

/** The stored text that an edit started from. Generation 0 is a builtin, or no resource. */
export interface Base {
  readonly text: string;
  readonly generation: string;
}

interface Draft {
  readonly base: Base;
  readonly text: string;
}

export const baseOf = (kind: Kind, name: string, stored: StoredResource): Base => ({
  text: writtenText(kind, name, stored),
  generation: stored.generation,
});

/** The edit of a resource: its draft, the reason for the change, its save, and the result of the last action. */
export function useEdit(
  kind: Kind,
  name: string,
  stored: StoredResource | null,
  onSecret: (secret: string) => void,
) {
  const historyState = useHistoryState<{ readonly text?: string } | null>();
  const draft = useDraft(kind, name, stored, stored === null ? historyState?.text : undefined);
  const [reason, setReason] = useState('');
  const [message, setMessage] = useState('');
  const saving = useSave(kind, name, {
    onSaved: (now) => {
      draft.rebase(baseOf(kind, name, now));
      setReason('');
      setMessage(`Saved as generation ${now.generation}.`);
    },
    onSecret,
  });
  return {
    draft,
    /** It begins with a text that was made elsewhere. */
    hasFirstText: historyState?.text !== undefined,
    reason,
    setReason,
    message,
    saving,
    save: (text = draft.text, generation = draft.base.generation) => {
      setMessage('');
      saving.save({ text, generation, reason });
    },
    restore: (text: string) => {
      draft.setText(text);
      setMessage('The old version is in the editor. Save to make it the current one.');
    },
    discard: () => {
      saving.dismiss();
      draft.rebase(draft.base);
    },
  };
}

/** Unsaved drafts of a session that ended. The same person continues them after the next sign-in. */
const interruptedDrafts = new Map<string, Draft>();

/** The edited text. It follows the stored text until the user types; after that only the user changes it. */
export function useDraft(kind: Kind, name: string, stored: StoredResource | null, firstText?: string) {
  const latest: Base = stored
    ? baseOf(kind, name, stored)
    : { text: textOf(kind, name, templateOf(kind)), generation: '0' };
  const draftKey = `${usePerson()} ${kind}/${name}`;
  const [draft, setDraft] = useState<Draft>(
    () => interruptedDrafts.get(draftKey) ?? { base: latest, text: firstText ?? latest.text },
  );
  const isDirty = draft.text !== draft.base.text;
  const isStale = latest.generation !== draft.base.generation;
  if (isStale && !isDirty) setDraft({ base: latest, text: latest.text });
  useEffect(() => {
    interruptedDrafts.delete(draftKey);
    return () => {
      if (isDirty && currentSession().state === 'out') interruptedDrafts.set(draftKey, draft);
    };
  }, [draftKey, draft, isDirty]);
  return {
    ...draft,
    isDirty,
    /** Another save was made since this edit started. */
    isStale: isStale && isDirty,
    setText: (text: string) => setDraft((current) => ({ ...current, text })),
    /** Continues the edit from another base, with another text. */
    rebase: (base: Base, text = base.text) => setDraft({ base, text }),
  };
}

/** Another save was made first: the current resource, and the saves since, newest first. */
export interface Conflict {
  /** Null if it was deleted and no builtin has this name. */
  readonly theirs: StoredResource | null;
  readonly saves: readonly HistoryEntry<Document>[];
}

/** The text as it was stored, and what the service takes for mistakes in it. */
interface Warned {
  readonly text: string;
  readonly warnings: readonly DocumentWarning[];
}

interface SaveRequest {
  readonly text: string;
  /** The generation that the text is based on. */
  readonly generation: string;
  readonly reason: string;
}

async function conflictWith(
  client: MusterClient,
  kind: Kind,
  name: string,
  generation: string,
): Promise<Conflict> {
  const theirs = await readResource(client, kind, name);
  const { entries } = await client.catalog.history(kind, name, { pageSize: 20 });
  return { theirs, saves: entries.filter((entry) => BigInt(entry.generation) > BigInt(generation)) };
}

/** Saves a text only over the generation that it is based on. */
function useSave(
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
  const [warned, setWarned] = useState<Warned>({ text: '', warnings: [] });

  const { mutate, error, variables, isPending, reset } = useMutation({
    mutationFn: async ({ text, generation, reason }: SaveRequest) => {
      const { fields } = readText(kind, name, text);
      if (!fields) throw new Error('The text has errors. Fix them before you save.');
      try {
        const settings = {
          ifGenerationMatch: generation,
          justification: reason,
          text: storableText(text),
        };
        const written = await client.catalog.write(kind, name, fields, settings);
        const { document, secret } = takeSecret(kind, written.document);
        const inputFormat = inputFormatOf(kind);
        const stored = { kind, document, text: written.text, generation: written.generation, inputFormat };
        queries.setQueryData(resourceQuery(client, kind, name).queryKey, stored);
        setConflict(null);
        setWarned({ text: baseOf(kind, name, stored).text, warnings: written.warnings });
        onSaved(stored);
        // The secret must not get into the cache of queries and mutations.
        if (secret !== null) onSecret(secret);
      } catch (saveError) {
        if (!isGenerationConflict(saveError)) throw saveError;
        setConflict(await conflictWith(client, kind, name, generation));
      }
      await invalidateResource(queries, kind, name);
    },
  });

  return {
    save: mutate,
    isSaving: isPending,
    error,
    conflict,
    /** Shows what others saved since the text was read. */
    review: async ({ generation }: Base) => setConflict(await conflictWith(client, kind, name, generation)),
    dismiss: () => {
      setConflict(null);
      reset();
    },
    /** The service's errors about this text, by line. */
    serviceProblems: (text: string): readonly LineProblem[] =>
      variables?.text === text ? serviceProblems(kind, name, text, error) : [],
    /** The service's warnings about this text, by line, if it is the text that was saved. */
    serviceWarnings: (text: string): readonly LineProblem[] =>
      warned.text === text ? linesOf(warned.warnings, readText(kind, name, text).lineOf) : [],
  };
}

function serviceProblems(kind: Kind, name: string, text: string, error: unknown): readonly LineProblem[] {
  if (!(error instanceof InvalidArgumentError)) return [];
  return linesOf(error.fieldViolations, readText(kind, name, text).lineOf);
}
