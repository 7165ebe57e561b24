import { isZone, type Kind, proseOf, serverFieldsOf, splitFrontMatter } from '@muster/sdk/contract';
import { type Ref, useDeferredValue, useId, useImperativeHandle, useMemo, useRef, useState } from 'react';
import { plural } from '../../parts/model/text.ts';
import { CronPreview } from '../../parts/schedule-times.tsx';
import { type FieldPath, type KnownField, knownFields, schemaProblems } from '../model/document-schema.ts';
import { type LineProblem, linesOf, payloadPath, readText, storableText } from '../model/document-text.ts';
import { completionAt, fieldIn, insertField } from '../model/editor.ts';
import { TextEditor, type TextEditorHandle } from './text-editor.tsx';
import { useServiceCheck, useWords } from './use-check.ts';
import '../editor.css';

interface DocumentEditorProps {
  readonly kind: Kind;
  readonly name: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly checked: CheckedText;
  readonly isReadOnly: boolean;
  readonly ref?: Ref<TextEditorHandle>;
}

/** What a field is for. */
const FieldHelp = ({ field }: { readonly field: KnownField | undefined }) =>
  field && (
    <p>
      <code>{field.name}</code> <span className="secondary">{field.type}</span> {field.meaning}
    </p>
  );

/** The text of a document with its errors, beside the known fields of its kind. */
export function DocumentEditor(props: DocumentEditorProps) {
  const { kind, name, text, onChange, isReadOnly } = props;
  const editor = useRef<TextEditorHandle>(null);
  useImperativeHandle(props.ref, () => ({
    insert: (insertion) => editor.current?.insert(insertion),
    goTo: (line) => editor.current?.goTo(line),
  }));
  const helpId = useId();
  const { deferred, read, problems, warnings } = props.checked;
  const words = useWords(kind);
  const [caretLine, setCaretLine] = useState(0);
  const fieldAt = (line: number) => fieldIn(kind, text, line);
  const hasProse = proseOf(kind) !== undefined;
  const proseFrom = hasProse ? proseLine(deferred) : Number.POSITIVE_INFINITY;

  const pick = (field: KnownField, isSet: boolean) => {
    if (isSet) editor.current?.goTo(read.lineOf([field.name]));
    else editor.current?.insert(insertField(kind, text, field));
  };
  return (
    <div className="document-editor">
      <div className="document-editor-text">
        <TextEditor
          ref={editor}
          label={hasProse ? `${name} as Markdown with front matter` : `${name} as YAML`}
          text={text}
          onChange={onChange}
          problems={isReadOnly ? [] : problems}
          warnings={isReadOnly ? [] : warnings}
          proseFrom={proseFrom}
          completionAt={(value, caret, isAsked) => completionAt(kind, value, caret, words, isAsked)}
          onCaret={setCaretLine}
          tipOf={(line) => <FieldHelp field={fieldAt(line)} />}
          describedBy={helpId}
          isReadOnly={isReadOnly}
        />
        {!isReadOnly && (
          <>
            <div className="field-help">
              <FieldHelp field={fieldAt(caretLine)} />
            </div>
            <Problems what="error" problems={problems} onPick={(line) => editor.current?.goTo(line)} />
            <Problems what="warning" problems={warnings} onPick={(line) => editor.current?.goTo(line)} />
            <p id={helpId} className="secondary">
              <kbd>Ctrl</kbd> <kbd>Space</kbd> suggests. <kbd>Tab</kbd> indents. <kbd>Escape</kbd>, then{' '}
              <kbd>Tab</kbd> leaves the editor.
            </p>
          </>
        )}
      </div>
      <FieldHints kind={kind} text={deferred} fields={read.fields} onPick={isReadOnly ? undefined : pick} />
    </div>
  );
}

type CheckedText = ReturnType<typeof useCheckedText>;

interface Saved {
  /** The service's errors and warnings about this text, from when it was saved. */
  readonly serviceProblems: readonly LineProblem[];
  readonly serviceWarnings: readonly LineProblem[];
}

/** The text as it is parsed, with the errors and warnings of the page and of the service. */
export function useCheckedText(
  kind: Kind,
  name: string,
  text: string,
  { serviceProblems, serviceWarnings }: Saved,
  isReadOnly: boolean,
) {
  // A long text is parsed at low priority, so that typing stays fast.
  const deferred = useDeferredValue(text);
  const read = useMemo(() => readText(kind, name, deferred), [kind, name, deferred]);
  const isValid = read.fields !== null && read.problems.length === 0;
  const check = useServiceCheck(kind, name, isValid && !isReadOnly ? read.fields : null);
  const problems = useMemo(
    () => withoutDuplicates([...read.problems, ...serviceProblems, ...linesOf(check.errors, read.lineOf)]),
    [read, serviceProblems, check],
  );
  const warnings = useMemo(
    () => withoutDuplicates([...read.warnings, ...serviceWarnings, ...linesOf(check.warnings, read.lineOf)]),
    [read, serviceWarnings, check],
  );
  /** What is wrong with a field of the document, or below it. */
  const saidOf = (field: string) => {
    const isBelow = (path: FieldPath | undefined) => path?.[0] === field;
    const first = (said: typeof check.errors) => {
      const found = said.find((one) => isBelow(payloadPath(one.field)));
      return found && `${found.field.replace(/^payload\.?/, '')} ${found.description}`;
    };
    const wrong = schemaProblems(kind, read.fields ?? {}).find(({ path }) => isBelow(path));
    return { error: wrong?.message ?? first(check.errors), warning: first(check.warnings) };
  };
  return { deferred, read, problems, warnings, saidOf };
}

function Problems({
  what,
  problems,
  onPick,
}: {
  readonly what: 'error' | 'warning';
  readonly problems: readonly LineProblem[];
  readonly onPick: (line: number) => void;
}) {
  const { length } = problems;
  return (
    <div className="document-problems" data-what={what} role="status" aria-live="polite">
      {length > 0 && (
        <>
          <p>{plural(length, what)}</p>
          <ul aria-label={what === 'error' ? 'Errors' : 'Warnings'}>
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

/** The service often reports problems that the page has found too. */
const withoutDuplicates = (problems: readonly LineProblem[]): readonly LineProblem[] =>
  problems
    .filter(
      ({ line, message }, at) =>
        problems.findIndex((other) => other.line === line && other.message === message) === at,
    )
    .sort((a, b) => a.line - b.line);

/** The first line of the prose after the front matter, counted from 0. */
function proseLine(text: string): number {
  const { body, linesAbove } = splitFrontMatter(text);
  return linesAbove === 0 ? 0 : text.slice(0, text.length - body.length).split('\n').length - 1;
}

interface FieldHintsProps {
  readonly kind: Kind;
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>> | null;
  /** Undefined if the text is read-only. */
  readonly onPick?: ((field: KnownField, isSet: boolean) => void) | undefined;
}

/** The known fields of a kind: their meaning, which are set, and a button to insert each. */
function FieldHints({ kind, text, fields, onPick }: FieldHintsProps) {
  const known = knownFields(kind);
  if (known.length === 0) return null;
  return (
    <aside className="field-hints stack" aria-labelledby="field-hints-title">
      {kind === 'schedule' && <Times fields={fields} />}
      <h2 id="field-hints-title">Known fields</h2>
      <ul>
        {known.map((field) => {
          const isSet = isIn(kind, text, field.name);
          const name = <code>{field.name}</code>;
          return (
            <li key={field.name} data-set={isSet}>
              <p>
                {onPick ? (
                  <button
                    type="button"
                    title={isSet ? 'Go to field' : 'Insert field'}
                    onClick={() => onPick(field, isSet)}
                  >
                    {name}
                  </button>
                ) : (
                  name
                )}
                <span className="field-hints-type">{field.type}</span>
                {isSet && <span className="field-hints-set">set</span>}
              </p>
              <p className="field-hints-meaning">{field.meaning}</p>
            </li>
          );
        })}
      </ul>
      <Notes kind={kind} text={text} fields={fields} />
    </aside>
  );
}

/** When a schedule fires by the text as it is now. */
function Times({ fields }: Pick<FieldHintsProps, 'fields'>) {
  const { cron, zone } = fields ?? {};
  return (
    <section className="schedule-preview stack" aria-label="When it fires" aria-live="polite">
      <CronPreview
        cron={typeof cron === 'string' ? cron : ''}
        zone={typeof zone === 'string' && isZone(zone) ? zone : 'UTC'}
      />
    </section>
  );
}

/** Notes about fields and comments that are valid but may surprise. */
function Notes({ kind, text, fields }: Pick<Parameters<typeof FieldHints>[0], 'kind' | 'text' | 'fields'>) {
  const known = knownFields(kind).map(({ name }) => name);
  const serverFields = serverFieldsOf(kind);
  const setByService = Object.keys(fields ?? {}).filter(
    (field) => !known.includes(field) && serverFields.includes(field),
  );
  return (
    <>
      {setByService.length > 0 && (
        <p className="field-hints-note">
          Set by the service, values here are ignored: <code>{setByService.join(', ')}</code>
        </p>
      )}
      {/^\s*#/m.test(settingsOf(kind, text)) && storableText(text) === '' && (
        <p className="field-hints-note">
          This text is too long to be stored. Its comments are lost when you save.
        </p>
      )}
    </>
  );
}

const settingsOf = (kind: Kind, text: string): string =>
  proseOf(kind) === undefined ? text : splitFrontMatter(text).settings;

function isIn(kind: Kind, text: string, field: string): boolean {
  if (field === proseOf(kind)) return splitFrontMatter(text).body.trim() !== '';
  return new RegExp(`^${field}:`, 'm').test(settingsOf(kind, text));
}
