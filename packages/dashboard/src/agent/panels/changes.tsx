import type { AgentStatus } from '@muster/sdk';
import { agentPage, pathOf, unpushedText } from '@muster/sdk/contract';
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useSearchParams } from 'wouter';
import { Button, CopyButton, LineButton, ViewSwitch } from '../../parts/button.tsx';
import { plural, unpushedNote } from '../../parts/model/text.ts';
import { Problem } from '../../parts/problem.tsx';
import { Age } from '../../parts/times.tsx';
import { useClient } from '../../session/session.ts';
import { DiffDialog } from './diff-dialog.tsx';
import { type DiffView, diffViewOf, diffViews } from './diff-view.ts';
import { FileStat } from './file-stat.tsx';
import { Panel } from './panel.tsx';
import { type ParsedDiff, parseDiff } from './parse-diff.ts';
import { Pushes } from './pushes.tsx';
import { useEntries } from './use-entries.ts';
import './changes.css';

/** More files than this are listed in the dialog only. */
const listedFiles = 12;

/** What an agent has pushed, and what not yet. */
export function Changes({ status, isLinked }: { readonly status: AgentStatus; readonly isLinked: boolean }) {
  const { branch, diffStat, unpushed } = status;
  const words = branch === '' ? unpushedNote(unpushed) || 'nothing pushed' : 'pushed';
  return (
    <Panel title="Changes" summary={diffStat ? <Stat stat={diffStat} /> : words} isOpenAtFirst>
      {branch === '' ? <NothingPushed status={status} /> : <Pushed status={status} isLinked={isLinked} />}
    </Panel>
  );
}

const Stat = ({ stat }: { readonly stat: NonNullable<AgentStatus['diffStat']> }) => (
  <>
    {plural(stat.files, 'file')} <FileStat {...stat} />
  </>
);

const NothingPushed = ({ status }: { readonly status: AgentStatus }) => (
  <>
    <p className="panel-empty">
      {status.repos.length > 0
        ? 'Nothing pushed yet. The diff appears when the agent has changed something.'
        : `Its workspace “${status.agentId.workspace}” has no repository, so there is nothing to push to. Give the workspace one in the catalog; agents spawned from then on clone it.`}
    </p>
    <Repositories repos={status.repos} />
    <Unpushed status={status} />
    {status.unpushed && <Diff status={status} title={`Changes of ${pathOf(status.agentId)}`} />}
  </>
);

function Pushed({ status, isLinked }: { readonly status: AgentStatus; readonly isLinked: boolean }) {
  const { branch, repos, changeRequests } = status;
  const pushes = useEntries(status, 'PUSH');
  const name = branch.replace(/^refs\/heads\//, '');
  return (
    <>
      <div className="panel-row">
        <code className="changes-branch">{name}</code>
        <CopyButton text={name} what="the name of the branch" />
      </div>
      <Repositories repos={repos} />
      <Unpushed status={status} />
      {changeRequests.length > 0 && (
        <div>
          <h3>Change requests</h3>
          <ul>
            {changeRequests.map((request) => (
              <li key={request}>
                <ChangeRequest request={request} />
              </li>
            ))}
          </ul>
        </div>
      )}
      <Diff status={status} lastPush={pushes.data?.[0]?.sequence} title={`Changes on ${name}`} />
      <Problem error={pushes.error} />
      {pushes.data && <Pushes pushes={pushes.data} isLinked={isLinked} />}
    </>
  );
}

/** What no remote has, and when it was last saved with the service. */
function Unpushed({ status: { unpushed, checkpointAt } }: { readonly status: AgentStatus }) {
  const words = unpushedText(unpushed);
  if (words === '' && checkpointAt === null) return null;
  return (
    <p className="changes-unpushed">
      {words === '' ? 'Nothing unpushed' : `Unpushed: ${words}`}{' '}
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
    <ul className="changes-repos" aria-label="Repositories">
      {repos.map((repo) => (
        <li key={repo}>
          <code>{repo}</code>
        </li>
      ))}
    </ul>
  );

interface Diffs {
  readonly pushed: ParsedDiff;
  readonly workingTree: ParsedDiff | null;
}

/** Asked for again when the agent has pushed or changed something. */
function useDiffs(
  { agentId, diffStat, unpushed, checkpointAt }: AgentStatus,
  lastPush: string | undefined,
): UseQueryResult<Diffs> {
  const client = useClient();
  const queryClient = useQueryClient();
  const queryKey = ['diff', agentPage(agentId)];
  const { files = 0, insertions = 0, deletions = 0 } = diffStat ?? {};
  // biome-ignore lint/correctness/useExhaustiveDependencies: they say that there is a newer diff.
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey });
  }, [files, insertions, deletions, lastPush, unpushed?.commits, unpushed?.files, checkpointAt]);
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      const { diff, workingTree } = await client.diff(agentId, { signal });
      return { pushed: parseDiff(diff), workingTree: workingTree && parseDiff(workingTree.diff) };
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
  return (
    <>
      <Problem error={error} />
      {data && <Files diffs={data} hasPushed={status.branch !== ''} title={title} />}
    </>
  );
}

function Files({
  diffs: { pushed, workingTree },
  hasPushed,
  title,
}: {
  readonly diffs: Diffs;
  readonly hasPushed: boolean;
  readonly title: string;
}) {
  const [shown, setShown] = useState<number | null>(null);
  const [parameters, setParameters] = useSearchParams();
  const view = workingTree ? diffViewOf(parameters.get('changes'), hasPushed) : 'pushed';
  const diff = view === 'working-tree' && workingTree ? workingTree : pushed;
  const { files } = diff;
  const choose = (changes: DiffView) => {
    setParameters({ changes });
    if (shown !== null) setShown(0);
  };
  const choice = workingTree && (
    <ViewSwitch label="Which changes" views={diffViews} view={view} onChoose={choose} />
  );
  const empty = <p className="panel-empty">{noChanges(view, hasPushed)}</p>;
  if (!hasPushed && !workingTree) return null;
  return (
    <div className="changes-diff">
      {choice}
      {files.length === 0 ? (
        empty
      ) : (
        <ul className="changes-files" aria-label="Changed files">
          {files.slice(0, listedFiles).map((file, at) => (
            <li key={`${file.repo} ${file.path}`}>
              <LineButton onClick={() => setShown(at)}>
                <span>{file.path}</span>
                <FileStat {...file} />
              </LineButton>
            </li>
          ))}
        </ul>
      )}
      {files.length > listedFiles && <p className="panel-empty">and {files.length - listedFiles} more</p>}
      {files.length > 0 && <Button onClick={() => setShown(0)}>Show the diff</Button>}
      {shown !== null && (
        <DiffDialog
          title={title}
          choice={choice}
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

function noChanges(view: DiffView, hasPushed: boolean): string {
  if (view === 'working-tree') return 'The working tree has the same content as the base branch.';
  return hasPushed ? 'The branch has the same content as where it began.' : 'Nothing pushed yet.';
}
