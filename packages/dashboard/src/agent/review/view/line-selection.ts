import { type KeyboardEvent, type MouseEvent, type PointerEvent, useRef, useState } from 'react';
import type { DiffFile } from '../../panels/model/diff-files.ts';
import { type DiffLine, rangeOf, shownNumber } from '../model/diff-lines.ts';
import { moveComment, startComment } from '../model/review-draft.ts';
import { useReviewContext } from './use-review.ts';

const isNumber = (target: EventTarget): boolean => (target as Element).closest('.line-number') !== null;

/** The index of the line around an element. */
const indexIn = (target: EventTarget): number | undefined => {
  const found = (target as Element).closest<HTMLElement>('.review-line')?.querySelector('[data-index]');
  return found ? Number(found.getAttribute('data-index')) : undefined;
};

/** The index of the line whose number this is. */
const indexOfNumber = (target: EventTarget): number | undefined =>
  isNumber(target) ? indexIn(target) : undefined;

interface ChosenLines {
  readonly from: number;
  readonly to: number;
}

/**
 * Chooses lines. With the pointer: a click for one line, Shift and a click or a drag over the numbers for several. With the
 * keyboard: arrows move, Shift and arrows choose several, Enter comments.
 */
export function useLineSelection(
  file: DiffFile,
  lines: readonly DiffLine[],
  /** For a person who may not comment: a click on a number leads to its line. */
  onChoose: (index: number) => void,
) {
  const { mayComment } = useReviewContext();
  const startAt = useStartComment(file, lines);
  const [chosen, setChosen] = useState<ChosenLines | null>(null);
  const [focused, setFocused] = useState<number | null>(null);
  /** Where a range starts that Shift and a click end. */
  const anchor = useRef<number | null>(null);
  const tabStop = focused ?? lines.findIndex((line) => shownNumber(line) > 0);

  const comment = (from: number, to: number, isSameComment: boolean) => {
    setChosen(null);
    startAt(from, to, isSameComment);
  };

  const onClick = (event: { readonly target: EventTarget; readonly shiftKey: boolean }) => {
    const index = indexOfNumber(event.target);
    if (index === undefined) return;
    if (!mayComment) return onChoose(index);
    if (event.shiftKey && anchor.current !== null) return comment(anchor.current, index, true);
    if (chosen && chosen.from !== chosen.to && chosen.to === index) return comment(chosen.from, index, false);
    anchor.current = index;
    comment(index, index, false);
  };

  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    const at = indexOfNumber(event.target);
    if (at === undefined) return;
    const next = neighbour(lines, at, event.key);
    if (next === undefined) return;
    event.preventDefault();
    if (mayComment) setChosen(event.shiftKey ? { from: chosen?.from ?? at, to: next } : null);
    event.currentTarget.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus();
  };

  const drag = useDrag(chosen, setChosen, ({ from, to }) => {
    anchor.current = from;
    comment(from, to, false);
  });

  const onMouseDown = (event: MouseEvent<HTMLElement>) => {
    // It would select the text up to the number.
    if (event.shiftKey && isNumber(event.target)) event.preventDefault();
  };
  const onFocus = (event: { readonly target: EventTarget }) => {
    const index = indexOfNumber(event.target);
    if (index !== undefined) setFocused(index);
  };

  return {
    tabStop,
    isDragging: drag.isDragging,
    range: chosen && rangeOf(lines, chosen.from, chosen.to),
    handlers: { onClick, onKeyDown, onFocus, ...(mayComment && { onMouseDown, ...drag.handlers }) },
  };
}

/** Opens the form of a comment on lines, or gives the open form these lines. */
function useStartComment({ repo, path }: DiffFile, lines: readonly DiffLine[]) {
  const { change, opened } = useReviewContext();
  return (from: number, to: number, isSameComment: boolean): void => {
    const range = rangeOf(lines, from, to);
    if (!range) return;
    const place = { ...range, repo, path };
    change((draft) => {
      const next = isSameComment ? moveComment(draft, place) : startComment(draft, place);
      opened.current = next.editing;
      return next;
    });
  };
}

/** A drag of the mouse over the numbers. */
function useDrag(
  chosen: ChosenLines | null,
  setChosen: (chosen: ChosenLines | null) => void,
  onDragged: (chosen: ChosenLines) => void,
) {
  const [isDragging, setDragging] = useState(false);
  const onPointerDown = (event: PointerEvent<HTMLElement>) => {
    // A finger scrolls; Shift extends the range with the click.
    const isMouse = event.pointerType === 'mouse' && event.button === 0 && !event.shiftKey;
    const index = indexOfNumber(event.target);
    if (!isMouse || index === undefined) return;
    setChosen({ from: index, to: index });
    setDragging(true);
    const end = () => {
      setDragging(false);
      setChosen(null);
      removeEventListener('pointerup', end);
      removeEventListener('pointercancel', end);
    };
    addEventListener('pointerup', end);
    addEventListener('pointercancel', end);
  };
  const onPointerOver = (event: PointerEvent<HTMLElement>) => {
    const index = indexIn(event.target);
    if (isDragging && chosen && index !== undefined) setChosen({ ...chosen, to: index });
  };
  const onPointerUp = () => {
    if (!isDragging || !chosen) return;
    // A press and release on the same number is a click.
    if (chosen.from === chosen.to) return setChosen(null);
    onDragged(chosen);
  };
  return { isDragging, handlers: { onPointerDown, onPointerOver, onPointerUp } };
}

/** The line that a key moves the focus to. */
function neighbour(lines: readonly DiffLine[], at: number, key: string): number | undefined {
  const isNumbered = (line: DiffLine) => shownNumber(line) > 0;
  switch (key) {
    case 'ArrowDown': {
      const next = lines.slice(at + 1).findIndex(isNumbered);
      return next === -1 ? undefined : at + 1 + next;
    }
    case 'ArrowUp': {
      const before = lines.slice(0, at).findLastIndex(isNumbered);
      return before === -1 ? undefined : before;
    }
    default:
      return undefined;
  }
}
