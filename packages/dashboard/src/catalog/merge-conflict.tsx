import { useId } from 'react';
import type { MergeChoice, MergePart } from './text/merge-text.ts';

type ConflictPart = Extract<MergePart, { isConflict: true }>;

const sides: readonly (readonly [choice: 'mine' | 'theirs' | 'both', words: string])[] = [
  ['mine', 'Take mine'],
  ['theirs', 'Take theirs'],
  ['both', 'Take both, mine first'],
];

/** One place that both changed: as it was, as each made it, and the choice between them. */
export function MergeConflict({
  title,
  part,
  choice,
  onChoose,
}: {
  readonly title: string;
  readonly part: ConflictPart;
  readonly choice: MergeChoice | undefined;
  readonly onChoose: (choice: MergeChoice) => void;
}) {
  const group = useId();
  const isByHand = typeof choice === 'object';
  return (
    <fieldset className="merge-conflict">
      <legend>{title}</legend>
      <div className="merge-versions">
        <Version title="Before" lines={part.base} />
        <Version title="Theirs" lines={part.theirs} />
        <Version title="Mine" lines={part.mine} />
      </div>
      <div className="merge-choices">
        {sides.map(([side, words]) => (
          <label key={side}>
            <input type="radio" name={group} checked={choice === side} onChange={() => onChoose(side)} />
            {words}
          </label>
        ))}
        <label>
          <input
            type="radio"
            name={group}
            checked={isByHand}
            onChange={() => onChoose({ text: part.mine.join('\n') })}
          />
          Write it by hand
        </label>
      </div>
      {isByHand && (
        <textarea
          aria-label={`${title}, by hand`}
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
    {lines.length === 0 ? <p className="merge-nothing">Nothing</p> : <pre>{lines.join('\n')}</pre>}
  </div>
);
