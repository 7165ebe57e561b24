import type { AgentStatus } from '@muster/sdk';
import { unpushedText } from '@muster/sdk/contract';
import { Link, useSearchParams } from 'wouter';
import { CopyButton, ViewSwitch } from '../../../parts/button.tsx';
import { plural, unpushedNote } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';
import { Age } from '../../../parts/times.tsx';
import { writtenComments } from '../../review/model/review-draft.ts';
import { isInFile } from '../../review/model/threads.ts';
import { ThreadList } from '../../review/view/thread-list.tsx';
import { emptyText, shownDiff, useDiffs, useReviewHref } from '../../review/view/use-diffs.ts';
import { ReviewContext, useReview, useReviewContext } from '../../review/view/use-review.ts';
import { type DiffFile, diffViews } from '../model/diff-files.ts';
import { ChangeRequests } from './change-requests.tsx';
import { LineStat } from './line-stat.tsx';
import { Panel, useEntries } from './panel.tsx';
import { Pushes } from './pushes.tsx';

/** More files than this are only in the review. */
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
  const { branch, repos, agentId } = status;
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
            : `Workspace “${agentId.workspace}” has no repository to push to. Add one in the catalog; new agents will clone it.`}
        </p>
      )}
      <Repositories repos={repos} />
      <Unpushed status={status} />
      <ChangeRequests status={status} />
      <Diff status={status} />
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
      {text === '' ? 'Everything is pushed' : `Unpushed: ${text}`}{' '}
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

/** The changed files and the review threads. The page of the review has the diff. */
function Diff({ status }: { readonly status: AgentStatus }) {
  const { data, error } = useDiffs(status);
  const [parameters, setParameters] = useSearchParams();
  const shown = shownDiff(status, data, parameters.get('changes'));
  const files = shown?.diff.files ?? [];
  return (
    <>
      <Problem error={error} />
      {shown && (
        <div className="changes-diff stack">
          {shown.hasChoice && (
            <ViewSwitch
              label="Diff"
              views={diffViews}
              view={shown.view}
              onChoose={(changes) => setParameters({ changes })}
            />
          )}
          {files.length === 0 ? (
            <p className="secondary">{emptyText(shown.view, status.branch !== '')}</p>
          ) : (
            <FileList status={status} files={files} />
          )}
        </div>
      )}
      <ThreadList status={status} isInDiff={(thread) => files.some((file) => isInFile(thread, file))} />
    </>
  );
}

function FileList({ status, files }: { readonly status: AgentStatus; readonly files: readonly DiffFile[] }) {
  const { draft } = useReviewContext();
  const hrefOf = useReviewHref(status);
  const drafts = writtenComments(draft).length;
  return (
    <>
      <ul className="file-list" aria-label="Changed files">
        {files.slice(0, listedFiles).map(({ repo, path, insertions, deletions }) => (
          <li key={`${repo} ${path}`}>
            <Link className="line-button" href={hrefOf({ repo, path })}>
              <span>{path}</span>
              <LineStat insertions={insertions} deletions={deletions} />
            </Link>
          </li>
        ))}
      </ul>
      {files.length > listedFiles && <p className="secondary">and {files.length - listedFiles} more</p>}
      {drafts > 0 && <p>Draft review: {plural(drafts, 'comment')}, not sent</p>}
      <Link className="button button-plain" href={hrefOf({})}>
        Review changes
      </Link>
    </>
  );
}
