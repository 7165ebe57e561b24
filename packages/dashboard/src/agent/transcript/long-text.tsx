import type { ReactNode } from 'react';
import { Button } from '../../parts/button.tsx';
import { DiffLines, looksLikeDiff } from '../../parts/diff-lines.tsx';
import { visibleControls } from '../../parts/model/text.ts';
import { useFold } from './use-fold.ts';
import './long-text.css';

const shownLines = 24;
const shownCharacters = 6_000;

/** The output of a program, or a diff: a part of it, and all of it when asked. */
export function LongText({
  name,
  text,
  isDiff = looksLikeDiff(text),
  isEnd = false,
}: {
  readonly name: string;
  readonly text: string;
  readonly isDiff?: boolean;
  /** Whether the end says more than the beginning, as of what failed. */
  readonly isEnd?: boolean;
}) {
  return (
    <Shortened name={name} text={text} isEnd={isEnd && !isDiff}>
      {(shown) =>
        isDiff ? (
          <DiffLines diff={shown} />
        ) : (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached from the keyboard.
          <pre className="long-text" tabIndex={0}>
            {visibleControls(shown)}
          </pre>
        )
      }
    </Shortened>
  );
}

/** Draws a part of a text that is long, and a button that brings the rest. */
export function Shortened({
  name,
  text,
  lines = shownLines,
  characters = shownCharacters,
  isEnd = false,
  children,
}: {
  readonly name: string;
  readonly text: string;
  readonly lines?: number;
  readonly characters?: number;
  readonly isEnd?: boolean;
  readonly children: (shown: string) => ReactNode;
}) {
  const [isWhole, toggle] = useFold(`all of ${name}`);
  const part = isEnd ? endOf(text, lines, characters) : beginningOf(text, lines, characters);
  const isLong = part.length < text.length - 1;
  return (
    <>
      {children(isLong && !isWhole ? part : text)}
      {isLong && (
        <Button look="quiet" className="long-text-more" onClick={toggle}>
          {isWhole ? 'Show less' : `Show all ${extent(text)}`}
          {isEnd && !isWhole && ', not only the end'}
        </Button>
      )}
    </>
  );
}

const beginningOf = (text: string, lines: number, characters: number): string =>
  text.split('\n', lines).join('\n').slice(0, characters);

const endOf = (text: string, lines: number, characters: number): string =>
  text.slice(-characters).split('\n').slice(-lines).join('\n');

function extent(text: string): string {
  const lines = text.replace(/\n$/, '').split('\n').length;
  return lines > 1 ? `${lines.toLocaleString('en')} lines` : `${text.length.toLocaleString('en')} characters`;
}
