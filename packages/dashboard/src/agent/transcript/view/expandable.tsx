import type { ReactNode } from 'react';
import { Button, ExpandIcon, LineButton } from '../../../parts/button.tsx';
import { DiffLines, looksLikeDiff } from '../../../parts/diff-lines.tsx';
import { Markdown } from '../../../parts/markdown.tsx';
import { visibleControls } from '../../../parts/model/text.ts';
import { useExpanded } from './transcript-context.ts';

/** A line that expands. Its body is rendered only while it is expanded: most rows never are. */
export function Expandable({
  name,
  className = '',
  head,
  children,
}: {
  readonly name: string;
  readonly className?: string;
  readonly head: ReactNode;
  readonly children: () => ReactNode;
}) {
  const [isExpanded, toggle] = useExpanded(name);
  return (
    <div className={`expandable ${className}`}>
      <LineButton className="expandable-head" aria-expanded={isExpanded} onClick={toggle}>
        <ExpandIcon />
        {head}
      </LineButton>
      {isExpanded && <div className="expandable-body stack">{children()}</div>}
    </div>
  );
}

const shownLines = 24;
const shownCharacters = 6_000;

/** Program output or a diff; a long one is shortened. */
export function LongText({
  name,
  text,
  isDiff = looksLikeDiff(text),
  isEnd = false,
}: {
  readonly name: string;
  readonly text: string;
  readonly isDiff?: boolean;
  /** Shows the end instead of the beginning, where a failed program prints its error. */
  readonly isEnd?: boolean;
}) {
  return (
    <Shortened name={name} text={text} isEnd={isEnd && !isDiff}>
      {(shown) =>
        isDiff ? (
          <DiffLines diff={shown} />
        ) : (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
          <pre className="text-box" tabIndex={0}>
            {visibleControls(shown)}
          </pre>
        )
      }
    </Shortened>
  );
}

/** Markdown; a very long text is shortened. */
export function MarkdownText({ name, text }: { readonly name: string; readonly text: string }) {
  if (text.trim() === '') return <p className="secondary">No text: tasks or settings only.</p>;
  return (
    <Shortened name={name} text={text} lines={200} characters={20_000}>
      {(shown) => <Markdown text={shown} />}
    </Shortened>
  );
}

/** The long texts that a row with this key may have. */
export const namesOfLongTexts = (key: string): string[] =>
  ['', ' call', ' diff', ' result', ' commits', ' files'].map((part) => `all of ${key}${part}`);

/** Shows a part of a long text, and a button for the rest. */
function Shortened({
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
  const [isWhole, toggle] = useExpanded(`all of ${name}`);
  const part = isEnd ? endOf(text, lines, characters) : beginningOf(text, lines, characters);
  const isLong = part.length < text.length - 1;
  return (
    <>
      {children(isLong && !isWhole ? part : text)}
      {isLong && (
        <Button look="quiet" className="show-all" onClick={toggle}>
          {isWhole ? 'Show less' : `Show all ${sizeText(text)}`}
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

function sizeText(text: string): string {
  const lines = text.replace(/\n$/, '').split('\n').length;
  return lines > 1 ? `${lines.toLocaleString('en')} lines` : `${text.length.toLocaleString('en')} characters`;
}
