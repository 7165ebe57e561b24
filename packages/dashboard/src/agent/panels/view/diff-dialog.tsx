import { type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { ExpandIcon, LineButton } from '../../../parts/button.tsx';
import { Dialog } from '../../../parts/dialog.tsx';
import { isInFile } from '../../review/model/threads.ts';
import { DraftCommentView } from '../../review/view/draft-comment.tsx';
import { ReviewBar } from '../../review/view/review-bar.tsx';
import { ReviewLines } from '../../review/view/review-lines.tsx';
import { useReviewContext } from '../../review/view/use-review.ts';
import type { DiffFile, DiffView, ParsedDiff } from '../model/diff-files.ts';

/** In a longer diff, only the first file is expanded. */
const expandedLines = 3000;

const changeTexts: Readonly<Record<DiffFile['change'], string>> = {
  changed: '',
  added: 'new',
  deleted: 'deleted',
  renamed: 'renamed',
  binary: 'binary',
};

interface DiffDialogProps {
  readonly title: string;
  readonly viewSwitch: ReactNode;
  readonly view: DiffView;
  readonly diff: ParsedDiff;
  readonly empty: ReactNode;
  /** The file to show first. */
  readonly first: number;
  /** The thread to show first; empty for none. */
  readonly firstThread: string;
  readonly onClose: () => void;
}

export const DiffDialog = (props: DiffDialogProps) => (
  <Dialog title={props.title} onClose={props.onClose} isWide>
    {props.viewSwitch}
    <Files key={props.view} {...props} />
    <ReviewBar />
  </Dialog>
);

function Files({ diff: { files, isCut }, view, empty, first, firstThread }: DiffDialogProps) {
  const { threads, draft } = useReviewContext();
  const body = useRef<HTMLDivElement>(null);
  const goTo = (index: number) => {
    const heading = body.current?.querySelectorAll('section > h3')[index];
    heading?.scrollIntoView({ block: 'start' });
    heading?.querySelector('button')?.focus({ preventScroll: true });
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs once, for the first file.
  useEffect(() => {
    const thread = firstThread && body.current?.querySelector(`[data-thread="${firstThread}"]`);
    if (thread) {
      thread.scrollIntoView({ block: 'center' });
      thread.querySelector('button')?.focus({ preventScroll: true });
    } else if (first > 0) goTo(first);
  }, []);
  const hasNotes = (file: DiffFile) => [...threads, ...draft.comments].some((place) => isInFile(place, file));
  const isLong = files.reduce((sum, { text }) => sum + text.split('\n').length, 0) > expandedLines;
  return (
    <div className="diff-view" ref={body}>
      {files.length > 1 && (
        <nav aria-label="Changed files">
          <ol className="file-list">
            {files.map((file, index) => (
              <li key={`${file.repo} ${file.path}`}>
                <LineButton onClick={() => goTo(index)} title={file.path}>
                  <bdi>{file.path}</bdi> <LineStat {...file} />
                </LineButton>
              </li>
            ))}
          </ol>
        </nav>
      )}
      <div className="diff-files stack">
        {isCut && (
          <p className="secondary">
            The diff is too long to store; its end is missing here
            {view === 'pushed' ? '. The branch has all changes.' : '.'}
          </p>
        )}
        {draft.comments
          .filter((comment) => !files.some((file) => isInFile(comment, file)))
          .map((comment) => (
            <DraftCommentView key={comment.id} comment={comment} lines={[]} isApart />
          ))}
        {files.length === 0 && empty}
        {files.map((file, index) => (
          <File
            key={`${file.repo} ${file.path}`}
            file={file}
            isOpenAtFirst={!isLong || index === first || hasNotes(file)}
          />
        ))}
      </div>
    </div>
  );
}

function File({ file, isOpenAtFirst }: { readonly file: DiffFile; readonly isOpenAtFirst: boolean }) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const bodyId = useId();
  const { path, oldPath, repo, change } = file;
  return (
    <section aria-label={path}>
      <h3>
        <LineButton aria-expanded={isOpen} aria-controls={bodyId} onClick={() => setOpen(!isOpen)}>
          <ExpandIcon />
          <span className="diff-path">
            {repo !== '' && <small>{repo} </small>}
            {oldPath !== '' && <small>{oldPath} → </small>}
            {path}
          </span>
          {changeTexts[change] !== '' && <small>{changeTexts[change]}</small>}
          <LineStat {...file} />
        </LineButton>
      </h3>
      <div id={bodyId} hidden={!isOpen}>
        {isOpen && <ReviewLines file={file} />}
      </div>
    </section>
  );
}

/** `+12 −4`. */
export const LineStat = ({ insertions, deletions }: Pick<DiffFile, 'insertions' | 'deletions'>) => (
  <span className="line-stat">
    <span data-side="added">+{insertions}</span> <span data-side="removed">−{deletions}</span>
  </span>
);
