import type { AgentStatus, TimelineEntry } from '@muster/sdk';
import { agentPage, pathOf, unpushedText } from '@muster/sdk/contract';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useSearchParams } from 'wouter';
import { Button, CopyButton, LineButton, ViewSwitch } from '../../../parts/button.tsx';
import { plural, unpushedNote } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';
import { Age, Moment } from '../../../parts/times.tsx';
import { useClient } from '../../../session/session.ts';
import { type DiffView, diffViewOf, diffViews, parseDiff } from '../model/diff-files.ts';
import { DiffDialog, LineStat } from './diff-dialog.tsx';
import { EntryLink, Panel, useEntries } from './panel.tsx';

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
      {branch === '' ? <NothingPushed status={status} /> : <Pushed status={status} />}
    </Panel>
  );
}

const NothingPushed = ({ status }: { readonly status: AgentStatus }) => (
  <>
    <p className="secondary">
      {status.repos.length > 0
        ? 'Nothing pushed yet. The diff appears with the first change.'
        : `Workspace “${status.agentId.workspace}” has no repository to push to. Add one in the catalog; agents that are spawned after that clone it.`}
    </p>
    <Repositories repos={status.repos} />
    <Unpushed status={status} />
    {status.unpushed && <Diff status={status} title={`Changes of ${pathOf(status.agentId)}`} />}
  </>
);

function Pushed({ status }: { readonly status: AgentStatus }) {
  const { branch, repos, changeRequests } = status;
  const pushes = useEntries(status, 'PUSH');
  const name = branch.replace(/^refs\/heads\//, '');
  return (
    <>
      <div className="panel-row">
        <code>{name}</code>
        <CopyButton text={name} what="branch name" />
      </div>
      <Repositories repos={repos} />
      <Unpushed status={status} />
      {changeRequests.length > 0 && (
        <div>
          <h3>Change requests</h3>
          {changeRequests.map((request) => (
            <p key={request}>
              <ChangeRequest request={request} />
            </p>
          ))}
        </div>
      )}
      <Diff status={status} lastPush={pushes.data?.[0]?.sequence} title={`Changes on ${name}`} />
      <Problem error={pushes.error} />
      {pushes.data && <Pushes pushes={pushes.data} />}
    </>
  );
}

/** Work that is only in the workspace, and when the service last saved it. */
function Unpushed({ status: { unpushed, checkpointAt } }: { readonly status: AgentStatus }) {
  const text = unpushedText(unpushed);
  if (text === '' && checkpointAt === null) return null;
  return (
    <p>
      {text === '' ? 'Nothing unpushed' : `Unpushed: ${text}`}{' '}
      <small>
        {checkpointAt === null ? (
          '· not saved'
        ) : (
          <>
            · saved <Age since={checkpointAt} /> ago
          </>
        )}
      </small>
    </p>
  );
}

const ChangeRequest = ({ request }: { readonly request: string }) =>
  /^https?:\/\//.test(request) ? (
    <a href={request} target="_blank" rel="noreferrer noopener">
      {request}
    </a>
  ) : (
    request
  );

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
function useDiffs({ agentId, diffStat, unpushed, checkpointAt }: AgentStatus, lastPush: string | undefined) {
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
  });
}

function Diff({
  status,
  title,
  lastPush,
}: {
  readonly status: AgentStatus;
  readonly title: string;
  readonly lastPush?: string | undefined;
}) {
  const { data, error } = useDiffs(status, lastPush);
  const hasPushed = status.branch !== '';
  const [shown, setShown] = useState<number | null>(null);
  const [parameters, setParameters] = useSearchParams();
  if (!data) return <Problem error={error} />;
  const { pushed, workingTree } = data;
  if (!hasPushed && !workingTree) return null;
  const view = workingTree ? diffViewOf(parameters.get('changes'), hasPushed) : 'pushed';
  const diff = view === 'working-tree' && workingTree ? workingTree : pushed;
  const { files } = diff;
  const chooseView = (changes: DiffView) => {
    setParameters({ changes });
    if (shown !== null) setShown(0);
  };
  const viewSwitch = workingTree && (
    <ViewSwitch label="Diff" views={diffViews} view={view} onChoose={chooseView} />
  );
  const empty = <p className="secondary">{emptyText(view, hasPushed)}</p>;
  return (
    <div className="changes-diff stack">
      <Problem error={error} />
      {viewSwitch}
      {files.length === 0 ? (
        empty
      ) : (
        <ul className="file-list" aria-label="Changed files">
          {files.slice(0, listedFiles).map((file, index) => (
            <li key={`${file.repo} ${file.path}`}>
              <LineButton onClick={() => setShown(index)}>
                <span>{file.path}</span>
                <LineStat {...file} />
              </LineButton>
            </li>
          ))}
        </ul>
      )}
      {files.length > listedFiles && <p className="secondary">and {files.length - listedFiles} more</p>}
      {files.length > 0 && <Button onClick={() => setShown(0)}>Review changes</Button>}
      {shown !== null && (
        <DiffDialog
          title={title}
          viewSwitch={viewSwitch}
          view={view}
          diff={diff}
          empty={empty}
          first={shown}
          onClose={() => setShown(null)}
        />
      )}
    </div>
  );
}

function emptyText(view: DiffView, hasPushed: boolean): string {
  if (view === 'working-tree') return 'The working tree has no changes against the base branch.';
  return hasPushed ? 'The branch has no changes.' : 'Nothing pushed yet.';
}

const listedPushes = 5;
const listedCommits = 4;
const listedPushedFiles = 200;

function Pushes({ pushes }: { readonly pushes: readonly TimelineEntry[] }) {
  const [isAll, setAll] = useState(false);
  if (pushes.length === 0) return null;
  const shown = isAll ? pushes : pushes.slice(0, listedPushes);
  const hasRepos = new Set(pushes.map(({ data }) => data.repo)).size > 1;
  return (
    <div>
      <h3>{plural(pushes.length, 'push', 'pushes')}</h3>
      <ol className="lined-list" aria-label="Pushes">
        {shown.map((push) => (
          <Push key={push.sequence} push={push} hasRepo={hasRepos} />
        ))}
      </ol>
      {shown.length < pushes.length && (
        <Button look="quiet" onClick={() => setAll(true)}>
          Show all {pushes.length}
        </Button>
      )}
    </div>
  );
}

function Push({
  push: { sequence, at, runId, data },
  hasRepo,
}: {
  readonly push: TimelineEntry;
  readonly hasRepo: boolean;
}) {
  const commits = (data.commits as string[] | undefined) ?? [];
  return (
    <li>
      <span className="panel-row">
        <span>
          {commits.length === 0 && 'No new commits'}
          {commits.slice(0, listedCommits).map((commit) => (
            <code key={commit}>{commit.slice(0, 8)} </code>
          ))}
          {commits.length > listedCommits && ` and ${commits.length - listedCommits} more`}
        </span>
        <small>
          <EntryLink sequence={sequence}>run {runId}</EntryLink> · <Moment at={at} />
        </small>
      </span>
      {hasRepo && <small>{String(data.repo ?? '')}</small>}
      <PushedFiles files={(data.files as string[] | undefined) ?? []} />
    </li>
  );
}

function PushedFiles({ files }: { readonly files: readonly string[] }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{plural(files.length, 'file')}</summary>
      {isOpen && (
        <ul className="secondary">
          {files.slice(0, listedPushedFiles).map((file) => (
            <li key={file}>
              <code>{file}</code>
            </li>
          ))}
          {files.length > listedPushedFiles && <li>and {files.length - listedPushedFiles} more</li>}
        </ul>
      )}
    </details>
  );
}
