import type { Kind } from '@muster/sdk/contract';
import { DeletedMeanwhile } from './deleted-meanwhile.tsx';
import { MergeView } from './merge-view.tsx';
import { type Base, baseOf, type useDraft } from './use-draft.ts';
import type { Conflict } from './use-save.ts';

/** After a refused save: both edits side by side, or the news that the resource is gone. */
export function Reconcile({
  kind,
  name,
  draft,
  conflict,
  isSaving,
  onSave,
  onClose,
  onGone,
}: {
  readonly kind: Kind;
  readonly name: string;
  readonly draft: ReturnType<typeof useDraft>;
  readonly conflict: Conflict;
  readonly isSaving: boolean;
  readonly onSave: (text: string, generation: string) => void;
  /** Back to the editor. */
  readonly onClose: () => void;
  /** There is nothing here any more, and nobody wants it back. */
  readonly onGone: () => void;
}) {
  const { theirs, saves } = conflict;
  const isDeleted = theirs === null || theirs.generation === '0';
  const now: Base = theirs ? baseOf(kind, name, theirs) : { text: '', generation: '0' };
  const goOn = (text: string) => {
    draft.rebase(now, text);
    onClose();
  };
  const discard = () => {
    goOn(now.text);
    if (theirs === null) onGone();
  };
  const save = (text: string) => {
    goOn(text);
    onSave(text, now.generation);
  };
  if (isDeleted)
    return (
      <DeletedMeanwhile
        saves={saves}
        isSaving={isSaving}
        onSave={() => save(draft.text)}
        onBack={onClose}
        onDiscard={discard}
      />
    );
  return (
    <MergeView
      key={theirs.generation}
      kind={kind}
      name={name}
      base={draft.base}
      mine={draft.text}
      theirs={now}
      saves={saves}
      isSaving={isSaving}
      onSave={save}
      onEdit={goOn}
      onBack={onClose}
      onDiscard={discard}
    />
  );
}
