import { useMemo, useState } from 'react';
import { ExpandIcon, LineButton } from '../../../parts/button.tsx';
import { plural } from '../../../parts/model/text.ts';
import { LineStat } from '../../panels/view/line-stat.tsx';
import { fileGroups, nameOf } from '../model/file-tree.ts';
import type { ReviewFile } from '../model/review-files.ts';
import { isInFile } from '../model/threads.ts';
import { useReviewContext } from './use-review.ts';

interface FileNavProps {
  readonly files: readonly ReviewFile[];
  readonly isNarrow: boolean;
  readonly isViewed: (file: ReviewFile['file']) => boolean;
  readonly onGo: (index: number) => void;
}

/** The changed files, and how many of them are viewed. In a narrow window the files are hidden until they are wanted. */
export function FileNav({ isNarrow, ...props }: FileNavProps) {
  const { files, isViewed, onGo } = props;
  const [isOpen, setOpen] = useState(false);
  const viewed = files.filter(({ file }) => isViewed(file)).length;
  const go = (index: number) => {
    setOpen(false);
    onGo(index);
  };
  return (
    <nav className="review-nav stack" aria-label="Changed files">
      {isNarrow ? (
        <LineButton aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <ExpandIcon />
          <FilesSummary count={files.length} viewed={viewed} />
        </LineButton>
      ) : (
        <FilesSummary count={files.length} viewed={viewed} />
      )}
      {(isOpen || !isNarrow) && <FileGroups {...props} onGo={go} />}
    </nav>
  );
}

/** The changed files by folder, with what has to be looked at. */
function FileGroups({ files, isViewed, onGo }: Omit<FileNavProps, 'isNarrow'>) {
  const [filter, setFilter] = useState('');
  const paths = useMemo(() => files.map(({ file }) => file), [files]);
  const groups = useMemo(() => fileGroups(paths, filter), [paths, filter]);
  return (
    <>
      {files.length > 1 && (
        <input
          type="search"
          className="review-filter"
          aria-label="Filter files"
          placeholder="Filter files"
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
        />
      )}
      {groups.length === 0 && <p className="secondary">No file matches.</p>}
      {groups.map(({ folder, files: indices }) => (
        <section key={folder} aria-label={folder || 'Top folder'}>
          {folder !== '' && (
            <p className="review-folder" title={folder}>
              <bdi>{folder}</bdi>
            </p>
          )}
          <ol className="file-list">
            {indices.map((index) => (
              <FileItem
                key={index}
                file={(files[index] as ReviewFile).file}
                isViewed={isViewed}
                onGo={() => onGo(index)}
              />
            ))}
          </ol>
        </section>
      ))}
    </>
  );
}

const FilesSummary = ({ count, viewed }: { readonly count: number; readonly viewed: number }) => (
  <span className="review-files-summary secondary">
    {plural(count, 'file')}, {viewed} viewed
  </span>
);

function FileItem({
  file,
  isViewed,
  onGo,
}: Pick<ReviewFile, 'file'> & { readonly isViewed: FileNavProps['isViewed']; readonly onGo: () => void }) {
  const { threads, draft } = useReviewContext();
  const open = threads.filter((thread) => thread.state === 'OPEN' && isInFile(thread, file)).length;
  const pending = draft.comments.filter((comment) => isInFile(comment, file)).length;
  const isDone = isViewed(file);
  return (
    <li>
      <LineButton onClick={onGo} title={file.path} data-viewed={isDone}>
        <span className="review-file-name">{nameOf(file.path)}</span>
        {isDone && <span className="file-mark">viewed</span>}
        {open > 0 && (
          <span className="file-mark" data-kind="thread" title={plural(open, 'open thread')}>
            <span aria-hidden="true">●</span> {open}
            <span className="visually-hidden"> {open === 1 ? 'open thread' : 'open threads'}</span>
          </span>
        )}
        {pending > 0 && (
          <span className="file-mark" data-kind="draft" title={plural(pending, 'draft comment')}>
            <span aria-hidden="true">○</span> {pending}
            <span className="visually-hidden"> {pending === 1 ? 'draft comment' : 'draft comments'}</span>
          </span>
        )}
        <LineStat {...file} />
      </LineButton>
    </li>
  );
}
