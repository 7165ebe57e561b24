import { reasonOf } from '@muster/sdk';
import type { Kind } from '@muster/sdk/contract';
import { useId, useMemo, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { DialogActions } from '../../parts/dialog.tsx';
import { DiffLines } from '../../parts/diff-lines.tsx';
import { plural } from '../../parts/model/text.ts';
import { Age } from '../../parts/times.tsx';
import { type LineProblem, readText } from '../model/document-text.ts';
import { diffText, type MergeChoice, type MergePart, mergedText, mergeTexts } from '../model/text-merge.ts';
import { type Base, baseOf, type Conflict, type useDraft } from './use-edit.ts';

interface ConflictProps {
  readonly kind: Kind;
  readonly name: string;
  readonly draft: ReturnType<typeof useDraft>;
  readonly conflict: Conflict;
  readonly isSaving: boolean;
  readonly onSave: (text: string, generation: string) => void;
  /** Back to the editor. */
  readonly onClose: () => void;
  /** The resource stays deleted. */
  readonly onDeleted: () => void;
}

/** After a save that failed because another save or delete was made first. */
export function ConflictView(props: ConflictProps) {
  const { kind, name, draft, conflict, onSave, onClose, onDeleted } = props;
  const { theirs } = conflict;
  const latest: Base = theirs ? baseOf(kind, name, theirs) : { text: '', generation: '0' };
  const continueWith = (text: string) => {
    draft.rebase(latest, text);
    onClose();
  };
  const actions: ConflictActions = {
    latest,
    continueWith,
    discard: () => {
      continueWith(latest.text);
      if (theirs === null) onDeleted();
    },
    save: (text) => {
      continueWith(text);
      onSave(text, latest.generation);
    },
  };
  return latest.generation === '0' ? (
    <DeleteConflict {...props} {...actions} />
  ) : (
    <MergeView key={latest.generation} {...props} {...actions} />
  );
}

interface ConflictActions {
  readonly latest: Base;
  /** Continues in the editor. */
  readonly continueWith: (text: string) => void;
  readonly save: (text: string) => void;
  readonly discard: () => void;
}

type ConflictViewProps = ConflictProps & ConflictActions;

const DeleteConflict = ({ draft, conflict, isSaving, onClose, discard, save }: ConflictViewProps) => (
  <section className="merge-view stack" aria-labelledby="delete-conflict">
    <header>
      <h2 id="delete-conflict">Another person deleted this while you were editing</h2>
      <p>Your text is not lost. Create the resource again with it, or discard it.</p>
      <Saves saves={conflict.saves} />
    </header>
    <DialogActions>
      <Button look="quiet" onClick={onClose}>
        Back to editor
      </Button>
      <Button look="danger" onClick={discard}>
        Discard my text
      </Button>
      <Button look="primary" disabled={isSaving} onClick={() => save(draft.text)}>
        {isSaving ? 'Saving …' : 'Create with my text'}
      </Button>
    </DialogActions>
  </section>
);

/** Shows the changes of both edits, merges them, and lets the user resolve lines that both changed. */
function MergeView({ kind, name, draft, conflict, isSaving, latest, ...act }: ConflictViewProps) {
  const titleId = useId();
  const { base, text: mine } = draft;
  const { text: theirs, generation } = latest;
  const parts = useMemo(() => mergeTexts(base.text, mine, theirs), [base.text, mine, theirs]);
  const [choices, setChoices] = useState<ReadonlyMap<number, MergeChoice>>(new Map());
  const merged = mergedText(parts, choices);
  const problems = merged === null ? [] : readText(kind, name, merged).problems;
  const conflicts = parts.flatMap((part, at) => (part.isConflict ? [{ part, at }] : []));
  const unresolved = conflicts.filter(({ at }) => !choices.has(at)).length;
  return (
    <section className="merge-view stack" aria-labelledby={titleId}>
      <header>
        <h2 id={titleId}>Another person saved this while you were editing</h2>
        <p>Nothing was overwritten. Review both changes, then save the merged text.</p>
        <Saves saves={conflict.saves} />
      </header>
      <div className="merge-sides">
        <section>
          <Changes title={`Their changes (generation ${generation})`} before={base.text} after={theirs} />
        </section>
        <section>
          <Changes title="Your changes" before={base.text} after={mine} />
        </section>
      </div>
      {conflicts.length > 0 && <h3>{plural(conflicts.length, 'conflict')}</h3>}
      {conflicts.map(({ part, at }, number) => (
        <MergeConflict
          key={at}
          title={`Conflict ${number + 1} of ${conflicts.length}`}
          part={part}
          choice={choices.get(at)}
          onChoose={(choice) => setChoices(new Map(choices).set(at, choice))}
        />
      ))}
      {merged !== null && <Changes title="Result" before={theirs} after={merged} />}
      {problems.length > 0 && <MergeProblems problems={problems} />}
      <DialogActions>
        <Button look="quiet" onClick={act.onClose}>
          Back to editor
        </Button>
        <Button look="danger" onClick={act.discard}>
          Discard my changes
        </Button>
        <Button disabled={merged === null} onClick={() => act.continueWith(merged ?? '')}>
          Continue in editor
        </Button>
        <Button
          look="primary"
          disabled={merged === null || problems.length > 0 || isSaving}
          onClick={() => act.save(merged ?? '')}
        >
          {unresolved > 0 ? `${unresolved} unresolved` : isSaving ? 'Saving …' : 'Save merge'}
        </Button>
      </DialogActions>
    </section>
  );
}

/** The saves of other people: who, when and why. */
const Saves = ({ saves }: { readonly saves: Conflict['saves'] }) => (
  <ul className="merge-saves">
    {saves.map((entry) => (
      <li key={entry.generation}>
        <strong dir="auto">{entry.by.replace(/^.*\//, '')}</strong>{' '}
        {entry.action === 'DELETE' ? 'deleted this' : 'saved this'} <Age since={entry.at} /> ago
        {entry.action !== 'DELETE' && ` (generation ${entry.generation})`}
        {reasonOf(entry) && <q>{reasonOf(entry)}</q>}
      </li>
    ))}
  </ul>
);

interface ChangesProps {
  readonly title: string;
  readonly before: string;
  readonly after: string;
}

function Changes({ title, before, after }: ChangesProps) {
  const diff = diffText(before, after);
  return (
    <>
      <h3>{title}</h3>
      {diff === '' ? <p className="secondary">No change.</p> : <DiffLines diff={diff} />}
    </>
  );
}

const MergeProblems = ({ problems }: { readonly problems: readonly LineProblem[] }) => (
  <ul className="document-problems" aria-label="Errors">
    {problems.map(({ line, message }) => (
      <li key={`${line} ${message}`}>
        Line {line}: {message} Fix it in the editor.
      </li>
    ))}
  </ul>
);

type ConflictPart = Extract<MergePart, { isConflict: true }>;

const sides: readonly (readonly [choice: 'mine' | 'theirs' | 'both', title: string])[] = [
  ['mine', 'Use mine'],
  ['theirs', 'Use theirs'],
  ['both', 'Use both, mine first'],
];

interface MergeConflictProps {
  readonly title: string;
  readonly part: ConflictPart;
  readonly choice: MergeChoice | undefined;
  readonly onChoose: (choice: MergeChoice) => void;
}

/** Lines that both edits changed: all versions, and the choice between them. */
function MergeConflict({ title, part, choice, onChoose }: MergeConflictProps) {
  const group = useId();
  const isEdited = typeof choice === 'object';
  return (
    <fieldset className="merge-conflict stack">
      <legend>{title}</legend>
      <div className="merge-versions">
        <Version title="Before" lines={part.base} />
        <Version title="Theirs" lines={part.theirs} />
        <Version title="Mine" lines={part.mine} />
      </div>
      <div className="merge-choices wrap">
        {sides.map(([side, sideTitle]) => (
          <label key={side}>
            <input type="radio" name={group} checked={choice === side} onChange={() => onChoose(side)} />
            {sideTitle}
          </label>
        ))}
        <label>
          <input
            type="radio"
            name={group}
            checked={isEdited}
            onChange={() => onChoose({ text: part.mine.join('\n') })}
          />
          Edit
        </label>
      </div>
      {isEdited && (
        <textarea
          aria-label={`${title}, edited`}
          value={choice.text}
          onChange={(event) => onChoose({ text: event.target.value })}
          rows={Math.max(3, choice.text.split('\n').length)}
          spellCheck={false}
        />
      )}
    </fieldset>
  );
}

const Version = ({ title, lines }: { readonly title: string; readonly lines: readonly string[] }) => (
  <div>
    <p>{title}</p>
    {lines.length === 0 ? <p className="merge-empty">Empty</p> : <pre>{lines.join('\n')}</pre>}
  </div>
);
