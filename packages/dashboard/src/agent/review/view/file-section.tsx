import { useEffect, useId, useRef } from 'react';
import { CopyButton, ExpandIcon, LineButton } from '../../../parts/button.tsx';
import type { DiffFile } from '../../panels/model/diff-files.ts';
import { LineStat } from '../../panels/view/line-stat.tsx';
import { numberIn } from '../model/diff-lines.ts';
import type { ReviewFile, Stop } from '../model/review-files.ts';
import { DiffBody } from './diff-body.tsx';

const changeTexts: Readonly<Record<DiffFile['change'], string>> = {
  changed: '',
  added: 'new',
  deleted: 'deleted',
  renamed: 'renamed',
  binary: 'binary',
};

/** Where the page goes; the same place again is another object. */
export type Target = Stop & { readonly isFocused: boolean };

interface FileSectionProps extends ReviewFile {
  readonly isSplit: boolean;
  readonly isWrapped: boolean;
  readonly isOpen: boolean;
  readonly isViewed: boolean;
  /** Null if it is in another file. */
  readonly target: Target | null;
  readonly onOpen: (isOpen: boolean) => void;
  readonly onViewed: (isViewed: boolean) => void;
  /** The address of a line; of the file without one. */
  readonly hrefOf: (place: { readonly side?: 'OLD' | 'NEW'; readonly line?: number }) => string;
  /** The person is at this line; −1 is the file. */
  readonly onAt: (line: number) => void;
  readonly onChoose: (href: string) => void;
}

export function FileSection(props: FileSectionProps) {
  const { file, lines, isSplit, isWrapped, isOpen, isViewed, target, onOpen, onViewed, hrefOf } = props;
  const section = useRef<HTMLElement>(null);
  const bodyId = useId();
  const { path, oldPath, repo, change } = file;
  useEffect(() => {
    if (target && section.current) show(section.current, target);
  }, [target]);
  const choose = (index: number) => {
    const line = lines[index];
    if (!line) return;
    const side = line.newLine > 0 ? 'NEW' : 'OLD';
    props.onChoose(hrefOf({ side, line: numberIn(line, side) }));
  };
  return (
    <section
      aria-label={path}
      className="review-file"
      ref={section}
      onFocus={({ target: focused }) => {
        const line = focused.closest('[data-line]')?.getAttribute('data-line');
        props.onAt(line ? Number(line) : -1);
      }}
    >
      <header>
        <h3>
          <LineButton aria-expanded={isOpen} aria-controls={bodyId} onClick={() => onOpen(!isOpen)}>
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
        <CopyButton text={`${location.origin}${hrefOf({})}`} label="Copy link" what={`to ${path}`} />
        <label className="check-field">
          <input type="checkbox" checked={isViewed} onChange={(event) => onViewed(event.target.checked)} />
          Viewed <span className="visually-hidden">{path}</span>
        </label>
      </header>
      <div id={bodyId} className="diff-file-lines stack" hidden={!isOpen}>
        {isOpen && (
          <DiffBody {...{ file, lines, isSplit, isWrapped, onChoose: choose }} wanted={target?.line ?? -1} />
        )}
      </div>
    </section>
  );
}

function show(section: HTMLElement, { line, thread, isFocused }: Target): void {
  const find = (selector: string) => section.querySelector<HTMLElement>(selector);
  const element =
    (thread !== '' && find(`[data-thread="${CSS.escape(thread)}"]`)) ||
    (line >= 0 && find(`[data-line="${line}"]`)) ||
    undefined;
  if (element) element.scrollIntoView({ block: 'center' });
  else section.scrollIntoView({ block: 'start' });
  const control = element?.querySelector<HTMLElement>('button') ?? (element ? null : find('h3 button'));
  if (isFocused) control?.focus({ preventScroll: true });
}
