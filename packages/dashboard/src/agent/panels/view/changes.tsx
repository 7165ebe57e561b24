import type { AgentStatus } from '@muster/sdk';
import { agentPage, pathOf, type Thread, unpushedText } from '@muster/sdk/contract';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useSearchParams } from 'wouter';
import { Button, CopyButton, LineButton, ViewSwitch } from '../../../parts/button.tsx';
import { plural, unpushedNote } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';
import { Age } from '../../../parts/times.tsx';
import { useClient } from '../../../session/session.ts';
import { writtenComments } from '../../review/model/review-draft.ts';
import { isInFile } from '../../review/model/threads.ts';
import { ThreadList } from '../../review/view/thread-list.tsx';
import { ReviewContext, useReview, useReviewContext } from '../../review/view/use-review.ts';
import { type DiffFile, type DiffView, diffViewOf, diffViews, parseDiff } from '../model/diff-files.ts';
import { ChangeRequests } from './change-requests.tsx';
import { DiffDialog, LineStat } from './diff-dialog.tsx';
import { Panel, useEntries } from './panel.tsx';
import { Pushes } from './pushes.tsx';

/** More files than this are only in the dialog. */
const listedFiles = 12;

export function Changes({ status }: { readonly status: AgentStatus }) {
  const { branch, diffStat, unpushed } = status;
  const text = branch === '' ? unpushedNote(unpushed) || 'nothing pushed' : 'pushed';
  const summary = diffStat ? (
    <>
      {plural(diffStat.files, 'file')} <LineStat {...diffStat} />
    </>
  ) : (
    text
  );
  return (
    <Panel title="Changes" summary={summary} isOpenAtFirst>
      <ReviewedChanges status={status} />
    </Panel>
  );
}

function ReviewedChanges({ status }: { readonly status: AgentStatus }) {
  const { branch, repos, agentId, unpushed } = status;
  const hasPushed = branch !== '';
  const name = branch.replace(/^refs\/heads\//, '');
  const review = useReview(status);
  const pushes = useEntries(status, 'PUSH', { isNeeded: hasPushed });
  return (
    <ReviewContext value={review}>
      {hasPushed ? (
        <div className="panel-row">
          <code>{name}</code>
          <CopyButton text={name} what="branch name" />
        </div>
      ) : (
        <p className="secondary">
          {repos.length > 0
            ? 'Nothing pushed yet. The diff appears with the first change.'
            : `Workspace “${agentId.workspace}” has no repository to push to. Add one in the catalog; agents that are spawned after that clone it.`}
        </p>
      )}
      <Repositories repos={repos} />
      <Unpushed status={status} />
      <ChangeRequests status={status} />
      <Diff
        status={status}
        lastPush={pushes.data?.[0]?.sequence}
        isNeeded={hasPushed || unpushed !== null}
        title={hasPushed ? `Changes on ${name}` : `Changes of ${pathOf(agentId)}`}
      />
      <Problem error={pushes.error} />
      {pushes.data && <Pushes pushes={pushes.data} />}
    </ReviewContext>
  );
}

/** Work that is only in the workspace, and when the service last saved it. */
function Unpushed({ status: { unpushed, checkpointAt } }: { readonly status: AgentStatus }) {
  const text = unpushedText(unpushed);
  if (text === '' && checkpointAt === null && unpushed?.isSaved !== false) return null;
  return (
    <p>
      {text === '' ? 'Nothing unpushed' : `Unpushed: ${text}`}{' '}
      <small>
        {checkpointAt === null ? (
          '· not saved'
        ) : (
          <>
            · {unpushed?.isSaved === false && 'partly '}saved <Age since={checkpointAt} /> ago
          </>
        )}
      </small>
    </p>
  );
}

const Repositories = ({ repos }: { readonly repos: readonly string[] }) =>
  repos.length === 0 ? null : (
    <ul className="secondary" aria-label="Repositories">
      {repos.map((repo) => (
        <li key={repo}>
          <code>{repo}</code>
        </li>
      ))}
    </ul>
  );

/** Loaded again after each push and each change of the working tree. */
function useDiffs(
  { agentId, diffStat, unpushed, checkpointAt }: AgentStatus,
  lastPush: string | undefined,
  isNeeded: boolean,
) {
  const client = useClient();
  const queryClient = useQueryClient();
  const queryKey = ['diff', agentPage(agentId)];
  const { files = 0, insertions = 0, deletions = 0 } = diffStat ?? {};
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of any of these means a newer diff.
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey });
  }, [files, insertions, deletions, lastPush, unpushed?.commits, unpushed?.files, checkpointAt]);
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      const { diff, workingTree } = await client.diff(agentId, { signal });
      return {
        pushed: await parseDiff(diff),
        workingTree: workingTree && (await parseDiff(workingTree.diff)),
      };
    },
    enabled: isNeeded,
  });
}

interface DiffProps {
  readonly status: AgentStatus;
  readonly title: string;
  readonly lastPush: string | undefined;
  readonly isNeeded: boolean;
}

/** The changed files and the review threads; the dialog has the diff. */
function Diff({ status, title, lastPush, isNeeded }: DiffProps) {
  const { data, error } = useDiffs(status, lastPush, isNeeded);
  const hasPushed = status.branch !== '';
  const [shown, setShown] = useState<{ readonly file: number; readonly thread: string } | null>(null);
  const [parameters, setParameters] = useSearchParams();
  const hasDiff = isNeeded && data !== undefined && (hasPushed || data.workingTree !== null);
  const view = data?.workingTree ? diffViewOf(parameters.get('changes'), hasPushed) : 'pushed';
  const diff = (view === 'working-tree' && data?.workingTree) || data?.pushed;
  const files = (hasDiff && diff?.files) || [];
  const chooseView = (changes: DiffView) => {
    setParameters({ changes });
    if (shown !== null) setShown({ file: 0, thread: '' });
  };
  const fileOf = (thread: Thread) => files.findIndex((file) => isInFile(thread, file));
  const viewSwitch = hasDiff && data?.workingTree && (
    <ViewSwitch label="Diff" views={diffViews} view={view} onChoose={chooseView} />
  );
  const empty = <p className="secondary">{emptyText(view, hasPushed)}</p>;
  return (
    <>
      <Problem error={error} />
      {hasDiff && (
        <div className="changes-diff stack">
          {viewSwitch}
          {files.length === 0 ? (
            empty
          ) : (
            <FileList files={files} onOpen={(file) => setShown({ file, thread: '' })} />
          )}
        </div>
      )}
      <ThreadList
        isInDiff={(thread) => fileOf(thread) !== -1}
        onShow={(thread) => setShown({ file: fileOf(thread), thread: thread.threadId })}
      />
      {shown !== null && diff && (
        <DiffDialog
          title={title}
          viewSwitch={viewSwitch}
          view={view}
          diff={diff}
          empty={empty}
          first={shown.file}
          firstThread={shown.thread}
          onClose={() => setShown(null)}
        />
      )}
    </>
  );
}

function FileList({
  files,
  onOpen,
}: {
  readonly files: readonly DiffFile[];
  readonly onOpen: (index: number) => void;
}) {
  const { draft } = useReviewContext();
  const drafts = writtenComments(draft).length;
  return (
    <>
      <ul className="file-list" aria-label="Changed files">
        {files.slice(0, listedFiles).map((file, index) => (
          <li key={`${file.repo} ${file.path}`}>
            <LineButton onClick={() => onOpen(index)}>
              <span>{file.path}</span>
              <LineStat {...file} />
            </LineButton>
          </li>
        ))}
      </ul>
      {files.length > listedFiles && <p className="secondary">and {files.length - listedFiles} more</p>}
      {drafts > 0 && <p>Draft review: {plural(drafts, 'comment')}, not sent</p>}
      <Button onClick={() => onOpen(0)}>Review changes</Button>
    </>
  );
}

function emptyText(view: DiffView, hasPushed: boolean): string {
  if (view === 'working-tree') return 'The working tree has no changes against the base branch.';
  return hasPushed ? 'The branch has no changes.' : 'Nothing pushed yet.';
}
