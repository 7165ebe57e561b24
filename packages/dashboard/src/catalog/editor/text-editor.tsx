import { type KeyboardEvent, memo, type Ref, useImperativeHandle, useMemo, useRef, useState } from 'react';
import type { Completion } from '../text/completion.ts';
import type { Insertion } from '../text/insert-field.ts';
import type { LineProblem } from '../text/read-text.ts';
import { CompletionList } from './completion-list.tsx';
import { breakLine, type Edit, indent, outdent } from './editor-keys.ts';
import { paintProse, paintYaml } from './paint-line.ts';
import './text-editor.css';

/** What others do to the text: a field is put in, an error is jumped to. */
export interface TextEditorHandle {
  readonly insert: (insertion: Insertion) => void;
  readonly goTo: (line: number) => void;
}

/**
 * A text of many lines in a real `<textarea>`, so that phones and screen readers know what it is. Behind it lies the
 * same text once more, line by line: it has the numbers, the colours and what is wrong, and gives the whole its height.
 */
export function TextEditor({
  label,
  text,
  onChange,
  problems,
  proseFrom,
  completionAt,
  describedBy,
  isReadOnly = false,
  ref,
}: {
  readonly label: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly problems: readonly LineProblem[];
  /** The first line, counted from 0, that is prose and not YAML. */
  readonly proseFrom: number;
  readonly completionAt: (text: string, caret: number) => Completion | null;
  readonly describedBy: string;
  readonly isReadOnly?: boolean;
  readonly ref?: Ref<TextEditorHandle>;
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  const mirror = useRef<HTMLDivElement>(null);
  const [completion, setCompletion] = useState<Completion | null>(null);
  const [chosen, setChosen] = useState(0);
  /** After Escape the next Tab leaves the text instead of indenting it. */
  const isLeaving = useRef(false);
  const lines = useMemo(() => text.split('\n'), [text]);
  const wrong = useMemo(() => messagesByLine(problems), [problems]);
  /** A word that is still being chosen is not wrong yet. */
  const openLine = completion ? text.slice(0, completion.from).split('\n').length - 1 : -1;

  useImperativeHandle(ref, () => ({
    insert: ({ at, text: insert, selectFrom, selectTo }) =>
      apply(area.current, { from: at, to: at, insert, selectFrom, selectTo }),
    goTo: (line) => goTo(area.current, mirror.current, line),
  }));

  const accept = (choice = completion?.choices[chosen]) => {
    if (!completion || !choice || !area.current) return;
    const end = completion.from + choice.insert.length;
    const to = area.current.selectionEnd;
    setCompletion(null);
    apply(area.current, { from: completion.from, to, insert: choice.insert, selectFrom: end, selectTo: end });
  };

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.nativeEvent.isComposing) return;
    const act = completion ? completionKey(event.key, completion.choices.length) : undefined;
    if (act) {
      event.preventDefault();
      if (act === 'accept') accept();
      else if (act === 'close') setCompletion(null);
      else setChosen((chosen + act + completion!.choices.length) % completion!.choices.length);
      return;
    }
    const mayLeave = isLeaving.current;
    if (event.key !== 'Shift') isLeaving.current = event.key === 'Escape';
    if (isReadOnly || (event.key === 'Tab' && mayLeave)) return;
    const edit = editOf(event, lines, proseFrom);
    if (!edit) return;
    event.preventDefault();
    apply(area.current, edit);
  };

  return (
    <div className="text-editor" data-digits={String(lines.length).length}>
      <div className="text-editor-lines" aria-hidden="true" ref={mirror}>
        {lines.map((line, at) => (
          <Line
            // biome-ignore lint/suspicious/noArrayIndexKey: a line of a text has no other name than its place.
            key={at}
            line={line}
            isProse={at >= proseFrom}
            complaint={at === openLine ? '' : (wrong.get(at + 1) ?? '')}
          />
        ))}
      </div>
      <textarea
        ref={area}
        aria-label={label}
        aria-describedby={describedBy}
        aria-invalid={problems.length > 0}
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
        onChange={(event) => {
          onChange(event.target.value);
          setChosen(0);
          setCompletion(completionAt(event.target.value, event.target.selectionEnd));
        }}
        onKeyDown={onKeyDown}
        onPointerDown={() => setCompletion(null)}
        onBlur={() => {
          setCompletion(null);
          isLeaving.current = false;
        }}
      />
      {completion && (
        <CompletionList
          completion={completion}
          chosen={chosen}
          place={placeOf(area.current, mirror.current, completion.from)}
          onAccept={accept}
        />
      )}
    </div>
  );
}

const Line = memo(({ line, isProse, complaint }: { line: string; isProse: boolean; complaint: string }) => (
  <div className="text-editor-line" data-wrong={complaint !== ''}>
    {(isProse ? paintProse(line) : paintYaml(line)).map(({ as, text }, at) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: a piece of a line has no other name than its place.
      <span key={at} data-as={as}>
        {text}
      </span>
    ))}
    {complaint === '' ? '\u200b' : <span className="text-editor-complaint">{complaint}</span>}
  </div>
));

function messagesByLine(problems: readonly LineProblem[]): ReadonlyMap<number, string> {
  const messages = new Map<number, string>();
  for (const { line, message } of problems)
    messages.set(line, messages.has(line) ? `${messages.get(line)} · ${message}` : message);
  return messages;
}

/** What a key does while the list is open: move by so many, accept, close; undefined leaves it to the text. */
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

/** Through the browser's own command, so that its undo knows of it. */
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

/** Below the word at this offset, from the corner of the editor. */
function placeOf(
  area: HTMLTextAreaElement | null,
  mirror: HTMLElement | null,
  offset: number,
): { readonly top: number; readonly column: number } {
  const before = (area?.value ?? '').slice(0, offset).split('\n');
  const line = mirror?.children[before.length - 1];
  const top = line instanceof HTMLElement ? line.offsetTop + line.offsetHeight : 0;
  return { top, column: before.at(-1)?.length ?? 0 };
}
