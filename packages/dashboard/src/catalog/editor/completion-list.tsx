import type { Choice, Completion } from '../text/completion.ts';
import './completion-list.css';

/** What may stand at the caret. The keys are the editor's; a pointer works here. */
export function CompletionList({
  completion,
  chosen,
  place,
  onAccept,
}: {
  readonly completion: Completion;
  readonly chosen: number;
  readonly place: { readonly top: number; readonly column: number };
  readonly onAccept: (choice: Choice) => void;
}) {
  const { choices } = completion;
  return (
    <>
      <div
        id="text-editor-choices"
        className="completion-list"
        role="listbox"
        aria-label="Known words"
        style={{ top: place.top, left: `calc(var(--gutter) + ${place.column}ch)` }}
      >
        {choices.map((choice, at) => (
          <div
            key={choice.word}
            id={`text-editor-choice-${at}`}
            role="option"
            tabIndex={-1}
            aria-selected={at === chosen}
            onPointerDown={(event) => {
              // The caret stays where it is.
              event.preventDefault();
              onAccept(choice);
            }}
          >
            <strong>{choice.word}</strong>
            <span>{choice.note}</span>
          </div>
        ))}
      </div>
      <p className="visually-hidden" role="status">
        {choices[chosen]?.word}: {chosen + 1} of {choices.length}. Enter takes it.
      </p>
    </>
  );
}
