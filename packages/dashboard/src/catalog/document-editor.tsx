import { type Kind, splitFrontMatter } from '@muster/sdk/contract';
import { useDeferredValue, useId, useMemo, useRef } from 'react';
import { TextEditor, type TextEditorHandle } from './editor/text-editor.tsx';
import { FieldHints } from './field-hints.tsx';
import { completionAt } from './text/completion.ts';
import { insertField } from './text/insert-field.ts';
import type { KnownField } from './text/known-fields.ts';
import { type LineProblem, readText } from './text/read-text.ts';
import './document-editor.css';

/** A document as text, what is wrong in it while one types, and the fields that its kind knows. */
export function DocumentEditor({
  kind,
  name,
  text,
  onChange,
  refused,
  isReadOnly,
}: {
  readonly kind: Kind;
  readonly name: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  /** What the service said of this text. */
  readonly refused: readonly LineProblem[];
  readonly isReadOnly: boolean;
}) {
  const editor = useRef<TextEditorHandle>(null);
  const helpId = useId();
  // A long text is read when there is time for it: typing goes first.
  const settled = useDeferredValue(text);
  const read = useMemo(() => readText(kind, name, settled), [kind, name, settled]);
  const problems = useMemo(() => unrepeated([...read.problems, ...refused]), [read, refused]);
  const proseFrom = kind === 'persona' ? proseLine(settled) : Number.POSITIVE_INFINITY;

  const pick = (field: KnownField, isSet: boolean) => {
    if (isSet) editor.current?.goTo(read.lineOf([field.name]));
    else editor.current?.insert(insertField(kind, text, field));
  };
  return (
    <div className="document-editor">
      <div className="document-editor-text">
        <TextEditor
          ref={editor}
          label={kind === 'persona' ? `${name} as Markdown with settings` : `${name} as YAML`}
          text={text}
          onChange={onChange}
          problems={isReadOnly ? [] : problems}
          proseFrom={proseFrom}
          completionAt={(value, caret) => completionAt(kind, value, caret)}
          describedBy={helpId}
          isReadOnly={isReadOnly}
        />
        {!isReadOnly && (
          <>
            <Problems problems={problems} onPick={(line) => editor.current?.goTo(line)} />
            <p id={helpId} className="catalog-note">
              <kbd>Tab</kbd> indents. <kbd>Escape</kbd>, then <kbd>Tab</kbd> leaves the text.
            </p>
          </>
        )}
      </div>
      <FieldHints kind={kind} text={settled} fields={read.fields} onPick={isReadOnly ? undefined : pick} />
    </div>
  );
}

function Problems({
  problems,
  onPick,
}: {
  readonly problems: readonly LineProblem[];
  readonly onPick: (line: number) => void;
}) {
  const { length } = problems;
  return (
    <div className="document-problems" role="status" aria-live="polite">
      {length > 0 && (
        <>
          <p>{length === 1 ? 'One error' : `${length} errors`}</p>
          <ul aria-label="Errors">
            {problems.map(({ line, message }) => (
              <li key={`${line} ${message}`}>
                <button type="button" onClick={() => onPick(line)}>
                  Line {line}
                </button>
                {message}
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

/** What the service says is often what was known before. */
const unrepeated = (problems: readonly LineProblem[]): readonly LineProblem[] =>
  problems.filter(
    ({ line, message }, at) =>
      problems.findIndex((other) => other.line === line && other.message === message) === at,
  );

/** The first line of the prose behind the settings, counted from 0. */
function proseLine(text: string): number {
  const { body, linesAbove } = splitFrontMatter(text);
  return linesAbove === 0 ? 0 : text.slice(0, text.length - body.length).split('\n').length - 1;
}
