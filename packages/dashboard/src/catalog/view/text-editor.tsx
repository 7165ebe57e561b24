import {
  type KeyboardEvent,
  memo,
  type PointerEvent,
  type ReactNode,
  type Ref,
  type RefObject,
  useImperativeHandle,
  useMemo,
  useRef,
  useState,
} from 'react';
import type { LineProblem } from '../model/document-text.ts';
import {
  breakLine,
  type Choice,
  type Completion,
  type Edit,
  highlightProse,
  highlightYaml,
  type Insertion,
  indent,
  outdent,
} from '../model/editor.ts';

export interface TextEditorHandle {
  readonly insert: (insertion: Insertion) => void;
  readonly goTo: (line: number) => void;
}

interface TextEditorProps {
  readonly label: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly problems: readonly LineProblem[];
  readonly warnings: readonly LineProblem[];
  /** The first line that is prose instead of YAML, counted from 0. */
  readonly proseFrom: number;
  /** `isAsked`: by a key, not by typing. */
  readonly completionAt: (text: string, caret: number, isAsked: boolean) => Completion | null;
  /** The line of the caret, counted from 0. */
  readonly onCaret: (line: number) => void;
  /** What there is to know about a line that the pointer is on, counted from 0. */
  readonly tipOf: (line: number) => ReactNode;
  readonly describedBy: string;
  readonly isReadOnly?: boolean;
  readonly ref?: Ref<TextEditorHandle>;
}

/**
 * A code editor on a real `<textarea>`, which phones and screen readers support. Behind it is a copy of the text, line by
 * line, with line numbers, colours and errors. The copy also sets the height.
 */
export function TextEditor({ ref, ...props }: TextEditorProps) {
  const { text, problems, warnings, proseFrom } = props;
  const area = useRef<HTMLTextAreaElement>(null);
  const mirror = useRef<HTMLDivElement>(null);
  const suggestions = useSuggestions(area);
  const { completion, chosen, accept } = suggestions;
  const lines = useMemo(() => text.split('\n'), [text]);
  const marks = useMemo(() => marksByLine(problems, warnings), [problems, warnings]);
  const tip = useTip(mirror, props.tipOf);
  /** No mark on the line of an open completion. */
  const completionLine = completion ? text.slice(0, completion.from).split('\n').length - 1 : -1;

  useImperativeHandle(ref, () => ({
    insert: ({ at, text: insert, selectFrom, selectTo }) =>
      apply(area.current, { from: at, to: at, insert, selectFrom, selectTo }),
    goTo: (line) => goTo(area.current, mirror.current, line),
  }));

  return (
    <div className="text-editor" data-digits={String(lines.length).length} {...tip.handlers}>
      <div className="text-editor-lines" aria-hidden="true" ref={mirror}>
        {lines.map((line, at) => (
          <Line
            // biome-ignore lint/suspicious/noArrayIndexKey: a line has no other identity than its index.
            key={at}
            line={line}
            isProse={at >= proseFrom}
            mark={at === completionLine ? undefined : marks.get(at + 1)}
          />
        ))}
      </div>
      <TextArea {...props} {...{ area, lines, suggestions }} />
      {completion && (
        <CompletionList
          {...{ completion, chosen }}
          position={positionOf(area.current, mirror.current, completion.from)}
          onAccept={accept}
        />
      )}
      {!completion && tip.shown}
    </div>
  );
}

/** The completions at the caret, and the keys that choose one. */
function useSuggestions(area: RefObject<HTMLTextAreaElement | null>) {
  const [completion, setCompletion] = useState<Completion | null>(null);
  const [chosen, setChosen] = useState(0);
  const close = () => setCompletion(null);
  const accept = (choice = completion?.choices[chosen]) => {
    if (!completion || !choice || !area.current) return;
    const end = completion.from + choice.insert.length;
    const to = area.current.selectionEnd;
    close();
    apply(area.current, { from: completion.from, to, insert: choice.insert, selectFrom: end, selectTo: end });
  };
  const show = (next: Completion | null) => {
    setChosen(0);
    setCompletion(next);
  };
  /** Whether the key is for the open list. */
  const onKey = (event: KeyboardEvent): boolean => {
    const count = completion?.choices.length ?? 0;
    const act = completion ? completionKey(event.key, count) : undefined;
    if (!act) return false;
    event.preventDefault();
    if (act === 'accept') accept();
    else if (act === 'close') close();
    else setChosen((chosen + act + count) % count);
    return true;
  };
  return { completion, chosen, accept, close, show, onKey };
}

interface TextAreaProps extends Omit<TextEditorProps, 'ref'> {
  readonly area: RefObject<HTMLTextAreaElement | null>;
  readonly lines: readonly string[];
  readonly suggestions: ReturnType<typeof useSuggestions>;
}

/** The textarea, with the keys of an editor. */
function TextArea(props: TextAreaProps) {
  const { area, text, lines, proseFrom, suggestions, isReadOnly = false } = props;
  const { completion, chosen } = suggestions;
  /** After Escape the next Tab leaves the editor instead of indenting. */
  const isLeaving = useRef(false);

  const complete = (target: HTMLTextAreaElement, isAsked: boolean) =>
    suggestions.show(props.completionAt(target.value, target.selectionEnd, isAsked));
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key === ' ' && event.ctrlKey && !isReadOnly) {
      event.preventDefault();
      return complete(event.currentTarget, true);
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.nativeEvent.isComposing) return;
    if (suggestions.onKey(event)) return;
    const mayLeave = isLeaving.current;
    if (event.key !== 'Shift') isLeaving.current = event.key === 'Escape';
    if (isReadOnly || (event.key === 'Tab' && mayLeave)) return;
    const edit = editOf(event, lines, proseFrom);
    if (!edit) return;
    event.preventDefault();
    apply(area.current, edit);
  };

  return (
    <textarea
      ref={area}
      aria-label={props.label}
      aria-describedby={props.describedBy}
      aria-invalid={props.problems.length > 0}
      aria-autocomplete="list"
      {...(completion && {
        'aria-controls': 'text-editor-choices',
        'aria-activedescendant': `text-editor-choice-${chosen}`,
      })}
      value={text}
      readOnly={isReadOnly}
      rows={1}
      spellCheck={false}
      autoComplete="off"
      autoCapitalize="none"
      autoCorrect="off"
      onChange={({ target }) => {
        props.onChange(target.value);
        complete(target, false);
      }}
      onSelect={({ currentTarget: { value, selectionEnd } }) =>
        props.onCaret(value.slice(0, selectionEnd).split('\n').length - 1)
      }
      onKeyDown={onKeyDown}
      onPointerDown={suggestions.close}
      onBlur={() => {
        suggestions.close();
        isLeaving.current = false;
      }}
    />
  );
}

interface Mark {
  readonly as: 'error' | 'warning';
  readonly message: string;
}

interface LineProps {
  readonly line: string;
  readonly isProse: boolean;
  readonly mark: Mark | undefined;
}

const Line = memo(({ line, isProse, mark }: LineProps) => (
  <div className="text-editor-line" data-mark={mark?.as}>
    {(isProse ? highlightProse(line) : highlightYaml(line)).map(({ as, text }, at) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: a token has no other identity than its index.
      <span key={at} data-as={as}>
        {text}
      </span>
    ))}
    {mark ? <span className="text-editor-message">{mark.message}</span> : '\u200b'}
  </div>
));

/** A line with an error and a warning shows the error first. */
function marksByLine(
  problems: readonly LineProblem[],
  warnings: readonly LineProblem[],
): ReadonlyMap<number, Mark> {
  const marks = new Map<number, Mark>();
  const add = (as: Mark['as'], { line, message }: LineProblem) => {
    const before = marks.get(line);
    marks.set(line, { as: before?.as ?? as, message: before ? `${before.message} · ${message}` : message });
  };
  for (const problem of problems) add('error', problem);
  for (const warning of warnings) add('warning', warning);
  return marks;
}

const tipDelayMs = 350;

/** What is known about the line under a resting pointer, just above it. */
function useTip(mirror: RefObject<HTMLDivElement | null>, tipOf: TextEditorProps['tipOf']) {
  const [line, setLine] = useState(-1);
  const timer = useRef(0);
  const wait = (next: number) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setLine(next), next < 0 ? 0 : tipDelayMs);
  };
  const onPointerMove = ({ pointerType, clientX, clientY }: PointerEvent) => {
    if (pointerType !== 'mouse') return;
    const under = document
      .elementsFromPoint(clientX, clientY)
      .find((element) => element.matches('.text-editor-line [data-as="key"]'));
    wait(under ? [...(mirror.current?.children ?? [])].indexOf(under.parentElement as Element) : -1);
  };
  const tip = line < 0 ? null : tipOf(line);
  const element = mirror.current?.children[line];
  const top = element instanceof HTMLElement ? element.offsetTop + element.offsetHeight : 0;
  return {
    handlers: { onPointerMove, onPointerLeave: () => wait(-1), onKeyDown: () => wait(-1) },
    shown: tip && (
      <div className="text-editor-tip" role="tooltip" style={{ top }}>
        {tip}
      </div>
    ),
  };
}

/** The effect of a key while the list is open; undefined leaves the key to the textarea. */
function completionKey(key: string, count: number): 1 | -1 | 'accept' | 'close' | undefined {
  if (key === 'ArrowDown') return count > 1 ? 1 : undefined;
  if (key === 'ArrowUp') return count > 1 ? -1 : undefined;
  if (key === 'Enter' || key === 'Tab') return 'accept';
  return key === 'Escape' ? 'close' : undefined;
}

function editOf(
  { key, shiftKey, currentTarget }: KeyboardEvent<HTMLTextAreaElement>,
  lines: readonly string[],
  proseFrom: number,
): Edit | undefined {
  const { value, selectionStart, selectionEnd } = currentTarget;
  if (key === 'Tab') return (shiftKey ? outdent : indent)(value, selectionStart, selectionEnd);
  const line = value.slice(0, selectionStart).split('\n').length - 1;
  const isYaml = line < Math.min(proseFrom, lines.length);
  return key === 'Enter' && !shiftKey && isYaml ? breakLine(value, selectionStart, selectionEnd) : undefined;
}

/** Uses `execCommand`, so that the browser's undo includes the edit. */
function apply(area: HTMLTextAreaElement | null, { from, to, insert, selectFrom, selectTo }: Edit): void {
  if (!area) return;
  area.focus();
  area.setSelectionRange(from, to);
  const isDone =
    insert === ''
      ? from === to || document.execCommand('delete')
      : document.execCommand('insertText', false, insert);
  if (!isDone) {
    area.setRangeText(insert, from, to, 'end');
    area.dispatchEvent(new Event('input', { bubbles: true }));
  }
  area.setSelectionRange(selectFrom, selectTo);
}

function goTo(area: HTMLTextAreaElement | null, mirror: HTMLElement | null, line: number): void {
  if (!area) return;
  const start =
    area.value
      .split('\n')
      .slice(0, line - 1)
      .join('\n').length + (line > 1 ? 1 : 0);
  const end = area.value.indexOf('\n', start);
  area.focus({ preventScroll: true });
  area.setSelectionRange(start, end < 0 ? area.value.length : end);
  mirror?.children[line - 1]?.scrollIntoView({ block: 'center' });
}

/** Below the word at this offset, relative to the editor. */
function positionOf(
  area: HTMLTextAreaElement | null,
  mirror: HTMLElement | null,
  offset: number,
): { readonly top: number; readonly column: number } {
  const before = (area?.value ?? '').slice(0, offset).split('\n');
  const line = mirror?.children[before.length - 1];
  const top = line instanceof HTMLElement ? line.offsetTop + line.offsetHeight : 0;
  return { top, column: before.at(-1)?.length ?? 0 };
}

interface CompletionListProps {
  readonly completion: Completion;
  readonly chosen: number;
  readonly position: { readonly top: number; readonly column: number };
  readonly onAccept: (choice: Choice) => void;
}

/** The editor handles the keys; this list handles the pointer. */
function CompletionList({ completion, chosen, position, onAccept }: CompletionListProps) {
  const { choices } = completion;
  return (
    <>
      <div
        id="text-editor-choices"
        className="completion-list"
        role="listbox"
        aria-label="Suggestions"
        style={{ top: position.top, left: `calc(var(--gutter) + ${position.column}ch)` }}
      >
        {choices.map((choice, at) => (
          <div
            key={choice.word}
            id={`text-editor-choice-${at}`}
            role="option"
            tabIndex={-1}
            aria-selected={at === chosen}
            onPointerDown={(event) => {
              // Keeps the focus and the caret in the editor.
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
        {choices[chosen]?.word}: {chosen + 1} of {choices.length}. Press Enter to accept.
      </p>
    </>
  );
}
