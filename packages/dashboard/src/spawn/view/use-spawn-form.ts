import { type AgentId, type MusterClient, mintId, type Tenant } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { useMutation } from '@tanstack/react-query';
import { type RefObject, useEffect, useMemo, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import type { DraftImage } from '../../parts/model/images.ts';
import { problemText } from '../../parts/problem.tsx';
import { useForgetOutage } from '../../session/connection.ts';
import { useSignedIn } from '../../session/session.ts';
import {
  choiceNames,
  draftFrom,
  draftProblems,
  type LastChoices,
  noChoices,
  parseChoices,
  type SpawnDraft,
  type SpawnPreset,
  spawnInputOf,
  spawnProblems,
} from '../model/spawn-draft.ts';

export interface FormPart {
  readonly draft: SpawnDraft;
  readonly set: (change: Partial<SpawnDraft>) => void;
  /** Connects an input to a field of the draft. */
  readonly field: (name: Exclude<keyof SpawnDraft, 'tasks' | 'images'>) => {
    readonly value: string;
    readonly onChange: (value: string) => void;
    readonly error: string | undefined;
  };
  /** By field. */
  readonly problems: ReadonlyMap<string, string>;
}

interface SpawnFormState extends FormPart {
  readonly form: RefObject<HTMLFormElement | null>;
  /** An error that belongs to no field. */
  readonly error: unknown;
  readonly isPending: boolean;
  readonly submit: () => void;

  readonly last: LastChoices;
  readonly forgetLast: () => void;
}

/** Problems of these fields are shown while the user types; missing values are reported when the form is sent. */
const checkedWhileTyping = ['name', 'outputSchema', 'owner'];

/** Each tenant has its own catalog. */
const storageKey = ({ provider, org }: Tenant): string => `muster.spawn.${provider}/${org}`;

export function useSpawnForm(preset: SpawnPreset, onClose: () => void): SpawnFormState {
  const { caller } = useSignedIn();
  const isPlain = Object.keys(preset).length === 0;
  const choicesKey = storageKey(caller.tenant);
  const [last, setLast] = useState(() => parseChoices(localStorage.getItem(choicesKey)));
  const [draft, setDraft] = useState(
    () => (isPlain ? unsentDraft(caller.keyId) : null) ?? draftFrom(preset, last),
  );
  const [attempts, setAttempts] = useState(0);
  const form = useRef<HTMLFormElement>(null);
  const spawn = useSpawn(draft, preset, onClose);
  const local = useMemo(() => draftProblems(draft, preset.parent), [draft, preset.parent]);
  const remote = useMemo(() => spawnProblems(spawn.error), [spawn.error]);
  const problems =
    attempts > 0
      ? new Map([...remote.fields, ...local])
      : new Map([...local].filter(([field]) => checkedWhileTyping.includes(field)));

  // The first invalid field gets the focus.
  useEffect(() => {
    if (attempts > 0 && (remote.fields.size > 0 || !spawn.isPending))
      form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [attempts, remote, spawn.isPending]);

  const set = (change: Partial<SpawnDraft>) => {
    const next = { ...draft, ...change };
    setDraft(next);
    if (isPlain) saveUnsentDraft(caller.keyId, next.description.trim() === '' ? null : next);
  };
  return {
    form,
    draft,
    set,
    field: (name) => ({
      value: draft[name],
      onChange: (value) => set({ [name]: value }),
      error: problems.get(name),
    }),
    problems,
    error: remote.rest,
    isPending: spawn.isPending,
    submit: () => {
      if (spawn.isPending) return;
      setAttempts(attempts + 1);
      spawn.reset();
      if (local.size === 0) spawn.mutate();
    },
    last,
    forgetLast: () => {
      localStorage.removeItem(choicesKey);
      setLast(noChoices);
      set(noChoices);
    },
  };
}

/** Starts the agent, remembers its choices and opens its page. */
function useSpawn(draft: SpawnDraft, { parent }: SpawnPreset, onClose: () => void) {
  const { client, caller } = useSignedIn();
  const [, navigate] = useLocation();
  // One key per open dialog: sending the form again starts no second agent.
  const [idempotencyKey] = useState(mintId);
  const spawn = useMutation({
    mutationFn: async () => {
      const reply = await client.spawn(spawnInputOf(draft, parent), { idempotencyKey });
      if (draft.images.length > 0) await sendImages(client, reply.agentId, draft.images, idempotencyKey);
      return reply;
    },
    onSuccess: ({ agentId }) => {
      localStorage.setItem(storageKey(caller.tenant), JSON.stringify(draft, choiceNames));
      saveUnsentDraft(caller.keyId, null);
      onClose();
      navigate(agentPage(agentId));
      // After the dialog has restored the focus: the new page gets it.
      setTimeout(() => document.getElementById('main')?.focus());
    },
  });
  useForgetOutage(spawn);
  return spawn;
}

/**
 * The images follow the description as a message, in the same turn. Sending the form again after an error sends them once:
 * the message has the same id, and the same image too.
 */
async function sendImages(
  client: MusterClient,
  agentId: AgentId,
  images: readonly DraftImage[],
  followUpId: string,
): Promise<void> {
  try {
    const attachmentIds: string[] = [];
    for (const { file } of images)
      attachmentIds.push((await client.attachments.upload(agentId, file)).attachmentId);
    await client.queue(agentId, {
      followUpId,
      description: 'Images for the task.',
      attachmentIds,
      steer: true,
    });
  } catch (error) {
    const why = problemText(error);
    throw new Error(`The agent has started, but its images were not sent: ${why} Start it again to retry.`);
  }
}

/** The draft of a dialog that was closed, maybe by mistake. It is kept per key, until the page is closed. */
let unsent: { readonly keyId: string; readonly draft: SpawnDraft } | null = null;

const saveUnsentDraft = (keyId: string, draft: SpawnDraft | null): void => {
  unsent = draft && { keyId, draft };
};

const unsentDraft = (keyId: string): SpawnDraft | null => (unsent?.keyId === keyId ? unsent.draft : null);
