import { mintId } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { useMutation } from '@tanstack/react-query';
import { type RefObject, useEffect, useMemo, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { useSignedIn } from '../session/session.ts';
import { forgetChoices, type LastChoices, lastChoices, noChoices, rememberChoices } from './last-choices.ts';
import type { SpawnPreset } from './open-spawn.ts';
import { draftFrom, draftProblems, type SpawnDraft, spawnInputOf } from './spawn-draft.ts';
import { spawnProblems } from './spawn-problems.ts';
import { keepUnsent, unsentDraft } from './unsent-draft.ts';

/** What every part of the form works with. */
export interface FormPart {
  readonly draft: SpawnDraft;
  readonly set: (change: Partial<SpawnDraft>) => void;
  /** What is wrong, by field. */
  readonly problems: ReadonlyMap<string, string>;
}

interface SpawnFormState extends FormPart {
  readonly form: RefObject<HTMLFormElement | null>;
  /** What is wrong and fits no field. */
  readonly error: unknown;
  readonly isPending: boolean;
  readonly submit: () => void;
  /** What the form began with because it was chosen last. */
  readonly last: LastChoices;
  readonly forgetLast: () => void;
}

/** What is wrong with a text that is there is said at once; that something is missing, when it is sent. */
const toldAtOnce = ['name', 'outputSchema', 'owner'];

export function useSpawnForm(preset: SpawnPreset, onClose: () => void): SpawnFormState {
  const { client, caller } = useSignedIn();
  const [, navigate] = useLocation();
  const isPlain = Object.keys(preset).length === 0;
  const [last, setLast] = useState(() => lastChoices(caller.tenant));
  const [draft, setDraft] = useState(
    () => (isPlain ? unsentDraft(caller.keyId) : null) ?? draftFrom(preset, last),
  );
  // One for as long as the dialog is open: however often it is sent, one agent is started.
  const [idempotencyKey] = useState(mintId);
  const [attempts, setAttempts] = useState(0);
  const form = useRef<HTMLFormElement>(null);

  const spawn = useMutation({
    mutationFn: () => client.spawn(spawnInputOf(draft, preset.parent), { idempotencyKey }),
    onSuccess: ({ agentId }) => {
      rememberChoices(caller.tenant, draft);
      keepUnsent(caller.keyId, null);
      onClose();
      navigate(agentPage(agentId));
      // The dialog gives the focus back to where it was; but there is another page to read now.
      setTimeout(() => document.getElementById('main')?.focus());
    },
  });
  const own = useMemo(() => draftProblems(draft, preset.parent), [draft, preset.parent]);
  const told = useMemo(() => spawnProblems(spawn.error), [spawn.error]);
  const problems =
    attempts > 0
      ? new Map([...told.fields, ...own])
      : new Map([...own].filter(([field]) => toldAtOnce.includes(field)));

  // Whoever can't see the marks is led to the first of them.
  useEffect(() => {
    if (attempts > 0 && (told.fields.size > 0 || !spawn.isPending))
      form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [attempts, told, spawn.isPending]);

  const set = (change: Partial<SpawnDraft>) => {
    const next = { ...draft, ...change };
    setDraft(next);
    if (isPlain) keepUnsent(caller.keyId, next.description.trim() === '' ? null : next);
  };
  return {
    form,
    draft,
    set,
    problems,
    error: told.rest,
    isPending: spawn.isPending,
    submit: () => {
      if (spawn.isPending) return;
      setAttempts(attempts + 1);
      spawn.reset();
      if (own.size === 0) spawn.mutate();
    },
    last,
    forgetLast: () => {
      forgetChoices(caller.tenant);
      setLast(noChoices);
      set(noChoices);
    },
  };
}
