import { reasonOf } from '@muster/sdk';
import type { Kind } from '@muster/sdk/contract';
import { useId, useMemo, useState } from 'react';
import { Button } from '../parts/button.tsx';
import { DiffLines } from '../parts/diff-lines.tsx';
import { Age } from '../parts/times.tsx';
import { MergeConflict } from './merge-conflict.tsx';
import { diffText } from './text/diff-text.ts';
import { type MergeChoice, mergedText, mergeTexts } from './text/merge-text.ts';
import { readText } from './text/read-text.ts';
import type { Base } from './use-draft.ts';
import type { Conflict } from './use-save.ts';
import './merge-view.css';

/**
 * Two edits of one document. Nothing of either is lost: what each changed is shown, what fits together is put together,
 * and where both changed the same lines somebody chooses.
 */
export function MergeView({
  kind,
  name,
  base,
  mine,
  theirs,
  saves,
  isSaving,
  onSave,
  onEdit,
  onBack,
  onDiscard,
}: {
  readonly kind: Kind;
  readonly name: string;
  readonly base: Base;
  readonly mine: string;
  readonly theirs: Base;
  readonly saves: Conflict['saves'];
  readonly isSaving: boolean;
  readonly onSave: (text: string) => void;
  /** Goes on with this text in the editor. */
  readonly onEdit: (text: string) => void;
  readonly onBack: () => void;
  readonly onDiscard: () => void;
}) {
  const titleId = useId();
  const parts = useMemo(() => mergeTexts(base.text, mine, theirs.text), [base, mine, theirs]);
  const [choices, setChoices] = useState<ReadonlyMap<number, MergeChoice>>(new Map());
  const merged = mergedText(parts, choices);
  const problems = merged === null ? [] : readText(kind, name, merged).problems;
  const places = parts.flatMap((part, at) => (part.isConflict ? [at] : []));
  const open = places.filter((at) => !choices.has(at)).length;
  return (
    <section className="merge-view" aria-labelledby={titleId}>
      <header>
        <h2 id={titleId}>Somebody saved this while you were editing</h2>
        <p>Nothing was overwritten, and your text is not lost. Look at both, then save what comes of them.</p>
        <Saves saves={saves} />
      </header>
      <div className="merge-sides">
        <Side
          title={`Theirs: what generation ${theirs.generation} has changed`}
          before={base.text}
          after={theirs.text}
        />
        <Side title="Yours: what you have changed" before={base.text} after={mine} />
      </div>
      {places.length > 0 && <h3>{conflictWords(places.length)}</h3>}
      {places.map((at, number) => {
        const part = parts[at];
        return (
          part?.isConflict && (
            <MergeConflict
              key={at}
              title={`Conflict ${number + 1} of ${places.length}`}
              part={part}
              choice={choices.get(at)}
              onChoose={(choice) => setChoices(new Map(choices).set(at, choice))}
            />
          )
        );
      })}
      {merged !== null && (
        <>
          <h3>
            {places.length === 0 ? 'Both fit together' : 'What comes of it'}: what your save will change now
          </h3>
          <Changes before={theirs.text} after={merged} />
        </>
      )}
      {problems.length > 0 && (
        <ul className="document-problems" aria-label="Errors">
          {problems.map(({ line, message }) => (
            <li key={`${line} ${message}`}>
              Line {line}: {message} Go on in the editor to mend it.
            </li>
          ))}
        </ul>
      )}
      <footer className="dialog-actions">
        <Button look="quiet" onClick={onBack}>
          Back to my text
        </Button>
        <Button look="danger" onClick={onDiscard}>
          Discard mine
        </Button>
        <Button disabled={merged === null} onClick={() => onEdit(merged ?? '')}>
          Go on in the editor
        </Button>
        <Button
          look="primary"
          disabled={merged === null || problems.length > 0 || isSaving}
          onClick={() => onSave(merged ?? '')}
        >
          {open > 0 ? `${open} to choose` : isSaving ? 'Saving …' : 'Save the merge'}
        </Button>
      </footer>
    </section>
  );
}

const conflictWords = (count: number): string =>
  count === 1 ? 'One place was changed by both' : `${count} places were changed by both`;

/** Who was quicker, when and why. */
export const Saves = ({ saves }: { readonly saves: Conflict['saves'] }) => (
  <ul className="merge-saves">
    {saves.map((entry) => (
      <li key={entry.generation}>
        <strong>{entry.by}</strong>{' '}
        {entry.action === 'DELETE' ? 'deleted it' : `saved generation ${entry.generation}`}{' '}
        <Age since={entry.at} /> ago
        {reasonOf(entry) && <q>{reasonOf(entry)}</q>}
      </li>
    ))}
  </ul>
);

const Side = ({
  title,
  before,
  after,
}: {
  readonly title: string;
  readonly before: string;
  readonly after: string;
}) => (
  <section>
    <h3>{title}</h3>
    <Changes before={before} after={after} />
  </section>
);

function Changes({ before, after }: { readonly before: string; readonly after: string }) {
  const diff = diffText(before, after);
  return diff === '' ? <p className="catalog-note">No change.</p> : <DiffLines diff={diff} />;
}
