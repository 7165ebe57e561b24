import type { AgentStatus } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { CopyButton } from '../../parts/copy-button.tsx';
import { LineButton } from '../../parts/line-button.tsx';
import { many } from '../../parts/many.ts';
import { Problem } from '../../parts/problem.tsx';
import { useClient } from '../../session/use-session.ts';
import { DiffDialog } from './diff-dialog.tsx';
import { FileStat } from './file-stat.tsx';
import { Panel } from './panel.tsx';
import { type ParsedDiff, parseDiff } from './parse-diff.ts';
import { Pushes } from './pushes.tsx';
import { useEntries } from './use-entries.ts';
import './changes.css';

/** More files than this are listed in the dialog only. */
const listedFiles = 12;

/** What an agent has pushed. */
export function Changes({ status, isLinked }: { readonly status: AgentStatus; readonly isLinked: boolean }) {
  const { branch, diffStat } = status;
  const summary = diffStat ? <Stat stat={diffStat} /> : branch === '' ? 'nothing pushed' : 'pushed';
  return (
    <Panel title="Changes" summary={summary} isOpenAtFirst>
      {branch === '' ? <NothingYet status={status} /> : <Pushed status={status} isLinked={isLinked} />}
    </Panel>
  );
}

const Stat = ({ stat }: { readonly stat: NonNullable<AgentStatus['diffStat']> }) => (
  <>
    {many(stat.files, 'file')} <FileStat {...stat} />
  </>
);

const NothingYet = ({ status: { repos, agentId } }: { readonly status: AgentStatus }) => (
  <>
    <p className="panel-empty">
      {repos.length > 0
        ? 'Nothing pushed yet. The diff appears with the first push to its branch, while the run goes on.'
        : `Its workspace “${agentId.workspace}” has no repository, so there is nothing to push to. Give the workspace one in the catalog; agents spawned from then on clone it.`}
    </p>
    <Repositories repos={repos} />
  </>
);

function Pushed({ status, isLinked }: { readonly status: AgentStatus; readonly isLinked: boolean }) {
  const { branch, repos, changeRequests } = status;
  const pushes = useEntries(status, 'PUSH');
  const diff = useDiff(status, pushes.data?.[0]?.sequence);
  const name = branch.replace(/^refs\/heads\//, '');
  return (
    <>
      <div className="panel-row">
        <code className="changes-branch">{name}</code>
        <CopyButton text={name} what="the name of the branch" />
      </div>
      <Repositories repos={repos} />
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
      <Problem error={diff.error} />
      {diff.data && <Files diff={diff.data} branch={name} />}
      <Problem error={pushes.error} />
      {pushes.data && <Pushes pushes={pushes.data} isLinked={isLinked} />}
    </>
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

/** Asked for again when the agent has pushed again. */
function useDiff(
  { agentId, diffStat }: AgentStatus,
  lastPush: string | undefined,
): UseQueryResult<ParsedDiff> {
  const client = useClient();
  const queryClient = useQueryClient();
  const queryKey = ['diff', agentPage(agentId)];
  const { files = 0, insertions = 0, deletions = 0 } = diffStat ?? {};
  // biome-ignore lint/correctness/useExhaustiveDependencies: they say that there is a newer diff.
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey });
  }, [files, insertions, deletions, lastPush]);
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) => parseDiff((await client.diff(agentId, { signal })).diff),
  });
}

function Files({ diff, branch }: { readonly diff: ParsedDiff; readonly branch: string }) {
  const [shown, setShown] = useState<number | null>(null);
  const { files } = diff;
  if (files.length === 0)
    return <p className="panel-empty">The branch has the same content as where it began.</p>;
  return (
    <div>
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
      {files.length > listedFiles && <p className="panel-empty">and {files.length - listedFiles} more</p>}
      <Button onClick={() => setShown(0)}>Show the diff</Button>
      {shown !== null && (
        <DiffDialog diff={diff} branch={branch} first={shown} onClose={() => setShown(null)} />
      )}
    </div>
  );
}
