import { type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { Button, LineButton } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { DiffLines } from '../../parts/diff-lines.tsx';
import type { DiffView } from './diff-view.ts';
import { FileStat } from './file-stat.tsx';
import type { DiffFile, ParsedDiff } from './parse-diff.ts';
import './diff-dialog.css';

/** A file with more lines is shown in part until somebody asks for the rest. */
const shownLines = 400;
/** Past this many lines in all, files begin folded: one looks for a file, and does not read everything. */
const unfoldedLines = 3000;

const changeWords: Readonly<Record<DiffFile['change'], string>> = {
  changed: '',
  added: 'new',
  deleted: 'deleted',
  renamed: 'moved',
  binary: 'not a text',
};

/** What an agent changed, as wide as the window. */
export const DiffDialog = ({
  title,
  choice,
  view,
  empty,
  onClose,
  ...shown
}: {
  readonly title: string;
  /** Chooses the view. */
  readonly choice: ReactNode;
  readonly view: DiffView;
  readonly diff: ParsedDiff;
  /** Shown when the diff has no files. */
  readonly empty: ReactNode;
  /** The file to begin with. */
  readonly first: number;
  readonly onClose: () => void;
}) => (
  <Dialog title={title} onClose={onClose} isWide>
    {choice}
    <Files key={view} {...shown} isPushed={view === 'pushed'} empty={empty} />
  </Dialog>
);

function Files({
  diff: { files, isCut },
  isPushed,
  empty,
  first,
}: {
  readonly diff: ParsedDiff;
  readonly isPushed: boolean;
  readonly empty: ReactNode;
  readonly first: number;
}) {
  const body = useRef<HTMLDivElement>(null);
  const headings = () => body.current?.querySelectorAll('section > h3') ?? [];
  const leadTo = (at: number) => {
    const heading = headings()[at];
    heading?.scrollIntoView({ block: 'start' });
    heading?.querySelector('button')?.focus({ preventScroll: true });
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: it begins there once.
  useEffect(() => {
    if (first > 0) leadTo(first);
  }, []);
  const isLong = files.reduce((sum, { text }) => sum + linesOf(text), 0) > unfoldedLines;
  return (
    <div className="diff-view" ref={body}>
      {files.length > 1 && (
        <nav aria-label="Changed files">
          <ol>
            {files.map((file, at) => (
              <li key={`${file.repo} ${file.path}`}>
                <LineButton onClick={() => leadTo(at)} title={file.path}>
                  <bdi>{file.path}</bdi> <FileStat {...file} />
                </LineButton>
              </li>
            ))}
          </ol>
        </nav>
      )}
      <div className="diff-files">
        {isCut && (
          <p className="diff-note">
            The diff is longer than what the service keeps. Its end is missing here
            {isPushed ? '; the branch has everything.' : '.'}
          </p>
        )}
        {files.length === 0 && empty}
        {files.map((file, at) => (
          <File key={`${file.repo} ${file.path}`} file={file} isOpenAtFirst={!isLong || at === first} />
        ))}
      </div>
    </div>
  );
}

const linesOf = (text: string): number => (text === '' ? 0 : text.split('\n').length);

function File({ file, isOpenAtFirst }: { readonly file: DiffFile; readonly isOpenAtFirst: boolean }) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const bodyId = useId();
  const { path, oldPath, repo, change } = file;
  return (
    <section aria-label={path}>
      <h3>
        <LineButton aria-expanded={isOpen} aria-controls={bodyId} onClick={() => setOpen(!isOpen)}>
          <svg viewBox="0 0 12 12" width="10" height="10" aria-hidden="true">
            <path d="M3.5 1.5 8.5 6l-5 4.5" fill="none" stroke="currentColor" strokeWidth="1.6" />
          </svg>
          <span className="diff-path">
            {repo !== '' && <small>{repo} </small>}
            {oldPath !== '' && <small>{oldPath} → </small>}
            {path}
          </span>
          {changeWords[change] !== '' && <small>{changeWords[change]}</small>}
          <FileStat {...file} />
        </LineButton>
      </h3>
      <div id={bodyId} hidden={!isOpen}>
        {isOpen && <FileLines file={file} />}
      </div>
    </section>
  );
}

function FileLines({ file: { text, change } }: { readonly file: DiffFile }) {
  const [isWhole, setWhole] = useState(false);
  if (text === '')
    return (
      <p className="diff-note">
        {change === 'binary' ? 'Its content is not a text.' : 'Its content did not change.'}
      </p>
    );
  const lines = text.split('\n');
  const isCut = !isWhole && lines.length > shownLines;
  return (
    <div className="diff-lines-of">
      <DiffLines diff={isCut ? lines.slice(0, shownLines).join('\n') : text} />
      {isCut && <Button onClick={() => setWhole(true)}>Show all {lines.length} lines</Button>}
    </div>
  );
}
