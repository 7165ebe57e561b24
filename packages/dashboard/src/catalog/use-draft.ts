import type { Kind } from '@muster/sdk/contract';
import { useEffect, useState } from 'react';
import { currentSession, usePerson } from '../session/session.ts';
import type { StoredResource } from './catalog-queries.ts';
import { templateOf } from './kind-words.ts';
import { textOf } from './text/read-text.ts';

/** What an edit began from. Generation 0 is a builtin, or nothing at all. */
export interface Base {
  readonly text: string;
  readonly generation: string;
}

interface Draft {
  readonly base: Base;
  readonly text: string;
}

export const baseOf = (kind: Kind, name: string, stored: StoredResource): Base => ({
  text: textOf(kind, name, stored.document),
  generation: stored.generation,
});

/** Edits that the end of a key cut short: they go on when the same person is signed in again. */
const cutShort = new Map<string, Draft>();

/**
 * The text that is being edited. As long as nobody has typed, it follows what is stored; once somebody has, it stays,
 * whatever happens to the resource meanwhile.
 */
export function useDraft(kind: Kind, name: string, stored: StoredResource | null, firstText?: string) {
  const latest: Base = stored
    ? baseOf(kind, name, stored)
    : { text: textOf(kind, name, templateOf(kind)), generation: '0' };
  const place = `${usePerson()} ${kind}/${name}`;
  const [draft, setDraft] = useState<Draft>(
    () => cutShort.get(place) ?? { base: latest, text: firstText ?? latest.text },
  );
  const isDirty = draft.text !== draft.base.text;
  const isOutrun = latest.generation !== draft.base.generation;
  if (isOutrun && !isDirty) setDraft({ base: latest, text: latest.text });
  useEffect(() => {
    cutShort.delete(place);
    return () => {
      if (isDirty && currentSession().state === 'out') cutShort.set(place, draft);
    };
  }, [place, draft, isDirty]);
  return {
    ...draft,
    isDirty,
    /** Somebody else has saved since this edit began. */
    isOutrun: isOutrun && isDirty,
    write: (text: string) => setDraft((current) => ({ ...current, text })),
    /** The edit goes on from another base, with another text. */
    rebase: (base: Base, text = base.text) => setDraft({ base, text }),
  };
}
