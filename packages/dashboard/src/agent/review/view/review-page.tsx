import type { AgentStatus } from '@muster/sdk';
import { agentPage, pathOf } from '@muster/sdk/contract';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { ViewSwitch } from '../../../parts/button.tsx';
import { plural } from '../../../parts/model/text.ts';
import { useShortcuts, useTitle } from '../../../parts/page.tsx';
import { Problem } from '../../../parts/problem.tsx';
import { diffViews } from '../../panels/model/diff-files.ts';
import { LineStat } from '../../panels/view/line-stat.tsx';
import { fileAt, lineAt, placeIn } from '../model/place.ts';
import {
  changeStops,
  fileStops,
  nextStop,
  type ReviewFile,
  reviewFiles,
  type Stop,
  threadStops,
} from '../model/review-files.ts';
import { isInFile } from '../model/threads.ts';
import { DraftCommentView } from './draft-comment.tsx';
import { FileNav } from './file-nav.tsx';
import { FileSection, type Target } from './file-section.tsx';
import { ReviewBar } from './review-bar.tsx';
import { OptionsBar, useReviewOptions } from './review-options.tsx';
import { emptyText, pageAddress, type ShownDiff, shownDiff, useDiffs, useReviewHref } from './use-diffs.ts';
import { ReviewContext, useReview, useReviewContext } from './use-review.ts';
import { useViewed } from './use-viewed.ts';
import '../review.css';
import '../code.css';

/** A diff is at most 384 Ki characters for each repository, which may be thousands of files. */
const shownFiles = 1_000;

/** The changes of an agent with their threads, at `<agent>/review`. */
export function ReviewPage({ status }: { readonly status: AgentStatus }) {
  const review = useReview(status);
  const { data, error } = useDiffs(status);
  const [parameters, setParameters] = useSearchParams();
  const shown = shownDiff(status, data, parameters.get('changes'));
  const name = status.branch.replace(/^refs\/heads\//, '');
  const options = useReviewOptions();
  useTitle(`Review · ${pathOf(status.agentId)} · Muster`);
  return (
    <ReviewContext value={review}>
      <div className="review-page">
        <header className="review-header wrap">
          <Link href={pageAddress(status)} className="review-back">
            ← {status.agentId.agent.at(-1)}
          </Link>
          <h1>
            {name === '' ? (
              'Changes'
            ) : (
              <>
                Changes on <code>{name}</code>
              </>
            )}
          </h1>
          {shown && <Totals {...shown} />}
          {shown?.hasChoice && (
            <ViewSwitch
              label="Diff"
              views={diffViews}
              view={shown.view}
              onChoose={(changes) => setParameters({ changes })}
            />
          )}
          <OptionsBar {...options} />
        </header>
        <Problem error={error ?? review.error} />
        {shown ? (
          <Files
            // Another diff is another page, with nothing expanded.
            key={`${agentPage(status.agentId)} ${shown.view}`}
            {...{ status, shown, options }}
          />
        ) : (
          <p className="review-scroll secondary">
            {data || !hasDiff(status) ? emptyText('pushed', status.branch !== '') : !error && 'Loading …'}
          </p>
        )}
        <ReviewBar status={status} />
      </div>
    </ReviewContext>
  );
}

const hasDiff = ({ branch, unpushed }: AgentStatus): boolean => branch !== '' || unpushed !== null;

function Totals({ diff: { files } }: ShownDiff) {
  const total = (side: 'insertions' | 'deletions') => files.reduce((sum, file) => sum + file[side], 0);
  return (
    <span className="secondary">
      {plural(files.length, 'file')}{' '}
      <LineStat insertions={total('insertions')} deletions={total('deletions')} />
    </span>
  );
}

interface FilesProps {
  readonly status: AgentStatus;
  readonly shown: ShownDiff;
  readonly options: ReturnType<typeof useReviewOptions>;
}

/** Which files are expanded: all that are not viewed, unless the person chose otherwise. */
function useOpenFiles(status: AgentStatus) {
  const viewed = useViewed(status.agentId);
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const choose = (key: string, isOpen: boolean) => setChosen((before) => new Map([...before, [key, isOpen]]));
  return {
    isViewed: viewed.isViewed,
    isOpen: ({ key, file }: ReviewFile) => chosen.get(key) ?? !viewed.isViewed(file),
    choose,
    setViewed: ({ key, file }: ReviewFile, isNow: boolean) => {
      viewed.setViewed(file, isNow);
      choose(key, !isNow);
    },
  };
}

/** Goes to places: the one of the address at first, then those of keys and of the list of files. */
function useTarget(files: readonly ReviewFile[], open: ReturnType<typeof useOpenFiles>) {
  const { threads, draft } = useReviewContext();
  const [parameters] = useSearchParams();
  const [target, setTarget] = useState<Target | null>(null);
  const current = useRef<Stop | null>(null);
  const go = (stop: Stop | undefined) => {
    const file = stop && files[stop.file];
    if (!file) return;
    current.current = stop;
    if (stop.line >= 0 || stop.thread !== '') open.choose(file.key, true);
    setTarget({ ...stop, isFocused: true });
  };
  const place = placeIn(parameters);
  const isKnown = place.thread === '' || threads.some(({ threadId }) => threadId === place.thread);
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs for each address, once its thread is known.
  useEffect(() => {
    if (place.thread !== '') {
      go(threadStops(files, threads, []).find(({ thread }) => thread === place.thread));
      return;
    }
    const file = fileAt(
      files.map((each) => each.file),
      place,
    );
    const lines = files[file]?.lines;
    if (lines) go({ file, line: lineAt(lines, place), thread: '' });
  }, [parameters.toString(), isKnown]);
  const step = (stops: readonly Stop[], direction: 1 | -1) => go(nextStop(stops, current.current, direction));
  const changes = () => changeStops(files).filter(({ file }) => open.isOpen(files[file] as ReviewFile));
  const notes = () => threadStops(files, threads, draft.comments);
  const viewCurrent = () => {
    const file = files[current.current?.file ?? 0];
    if (!file) return;
    const isNow = !open.isViewed(file.file);
    open.setViewed(file, isNow);
    if (isNow) step(fileStops(files), 1);
  };
  useShortcuts(
    {
      n: () => step(changes(), 1),
      p: () => step(changes(), -1),
      t: () => step(notes(), 1),
      T: () => step(notes(), -1),
      j: () => step(fileStops(files), 1),
      k: () => step(fileStops(files), -1),
      v: viewCurrent,
      '/': () => document.querySelector<HTMLElement>('.review-filter')?.focus(),
    },
    { areFirst: true },
  );
  return { target, go, onAt: (file: number, line: number) => noteStop(current, file, line) };
}

/** A focus within the place that the page went to is not another one: its thread would be forgotten. */
function noteStop(current: { current: Stop | null }, file: number, line: number): void {
  const { current: known } = current;
  if (known?.file !== file || (line !== -1 && known.line !== line))
    current.current = { file, line, thread: '' };
}

function Files({ status, shown: { view, diff }, options }: FilesProps) {
  const { draft } = useReviewContext();
  const { ignoresWhitespace } = options.options;
  const files = useMemo(
    () => reviewFiles(diff.files.slice(0, shownFiles), ignoresWhitespace),
    [diff.files, ignoresWhitespace],
  );
  const open = useOpenFiles(status);
  const { target, go, onAt } = useTarget(files, open);
  const hrefOf = useReviewHref(status);
  const [, navigate] = useLocation();
  const apart = draft.comments.filter((comment) => !files.some(({ file }) => isInFile(comment, file)));
  return (
    <div className="review-columns">
      {files.length > 0 && (
        <FileNav
          files={files}
          isNarrow={options.isNarrow}
          isViewed={open.isViewed}
          onGo={(file) => go({ file, line: -1, thread: '' })}
        />
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard. */}
      <section className="review-scroll" tabIndex={0} aria-label="Diff">
        <Notices isCut={diff.isCut} isPushed={view === 'pushed'}>
          {files.length === 0 && <p className="secondary">{emptyText(view, status.branch !== '')}</p>}
        </Notices>
        {apart.map((comment) => (
          <DraftCommentView key={comment.id} comment={comment} lines={[]} isApart />
        ))}
        {files.map((each, index) => (
          <FileSection
            {...each}
            key={each.key}
            isSplit={options.isSplit}
            isWrapped={options.isWrapped}
            isOpen={open.isOpen(each)}
            isViewed={open.isViewed(each.file)}
            target={target?.file === index ? target : null}
            onOpen={(isOpen) => open.choose(each.key, isOpen)}
            onViewed={(isNow) => open.setViewed(each, isNow)}
            hrefOf={(place) => hrefOf({ repo: each.file.repo, path: each.file.path, ...place })}
            onAt={(line) => onAt(index, line)}
            onChoose={(href) => navigate(href, { replace: true })}
          />
        ))}
        {diff.files.length > shownFiles && (
          <p className="secondary">
            {plural(diff.files.length - shownFiles, 'more file')}: <code>muster diff</code> shows all of them.
          </p>
        )}
      </section>
    </div>
  );
}

const Notices = ({
  isCut,
  isPushed,
  children,
}: {
  readonly isCut: boolean;
  readonly isPushed: boolean;
  readonly children: ReactNode;
}) => (
  <>
    {isCut && (
      <p className="secondary">
        The diff is too long to store; its end is missing here
        {isPushed ? '. The branch has all changes.' : '.'}
      </p>
    )}
    {children}
  </>
);
