import type { AgentId, AgentStatus, Run, TimelineEntry } from '@muster/sdk';
import { agentPage, clock, dollars, firstLine, thousands } from '@muster/sdk/contract';
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { Fragment, useEffect, useMemo, useState } from 'react';
import { Button } from '../../../parts/button.tsx';
import { Dialog } from '../../../parts/dialog.tsx';
import { Markdown } from '../../../parts/markdown.tsx';
import { durationText, jsonText } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';
import { Moment, useNow } from '../../../parts/times.tsx';
import { useClient } from '../../../session/session.ts';
import { attemptText, isLiveRun, runText } from '../../model/status-text.ts';
import { Json } from './output.tsx';
import { EntryLink, Panel, PanelText, useEntries } from './panel.tsx';

const pageRuns = 100;

export function Runs({ status }: { readonly status: AgentStatus }) {
  const { runCount, run } = status;
  const summary = run === null ? 'none yet' : `${runCount} · ${runText(run)}`;
  return (
    <Panel title="Runs" summary={summary}>
      {run === null ? (
        <p className="secondary">
          No runs yet. A run is one turn: it starts when a runner claims the agent’s messages.
        </p>
      ) : (
        <RunTable status={status} />
      )}
    </Panel>
  );
}

function RunTable({ status }: { readonly status: AgentStatus }) {
  const { runs, error, hasNextPage, isFetchingNextPage, fetchNextPage } = useRuns(status);
  const starts = useEntries(status, 'RUN_STARTED').data;
  const startOf = useMemo(() => new Map(starts?.map((start) => [start.runId, start])), [starts]);
  return (
    <>
      <Problem error={error} />
      <table className="runs">
        <thead className="secondary">
          <tr>
            <th scope="col">Run</th>
            <th scope="col">Outcome</th>
            <th scope="col">Time</th>
            <th scope="col">Cost</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <Fragment key={run.runId}>
              <RunRow run={run} start={startOf.get(run.runId)} />
              {hasResult(run) && <RunResult agentId={status.agentId} run={run} />}
            </Fragment>
          ))}
        </tbody>
      </table>
      {hasNextPage && (
        <Button disabled={isFetchingNextPage} onClick={() => fetchNextPage()}>
          {isFetchingNextPage ? 'Loading …' : 'Show earlier runs'}
        </Button>
      )}
    </>
  );
}

function useRuns({ agentId, runCount, run, cost }: AgentStatus) {
  const client = useClient();
  const queryClient = useQueryClient();
  const page = agentPage(agentId);
  const query = useInfiniteQuery({
    queryKey: ['runs', page],
    queryFn: ({ pageParam: before, signal }) => client.runs(agentId, { before, limit: pageRuns, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ runs, more }) => (more ? runs.at(-1)?.runId : undefined),
  });
  const state = run?.state;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of any of these means that a run started, ended or has a new cost.
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey: ['runs', page] });
  }, [queryClient, page, runCount, state, cost]);
  const runs = useMemo(() => query.data?.pages.flatMap(({ runs }) => runs) ?? [], [query.data]);
  return { ...query, runs };
}

function RunRow({
  run,
  start,
}: {
  readonly run: Run;
  /** The first entry of the run, if it was not removed. */
  readonly start: TimelineEntry | undefined;
}) {
  const { runId, startedAt, cost, runnerId, account, outcome, traceId } = run;
  const attempt = attemptText(run, Number(start?.data.attempt ?? 0));
  return (
    <tr data-outcome={isLiveRun(run) ? 'live' : outcome} data-result={hasResult(run)}>
      <th scope="row">
        <EntryLink sequence={start?.sequence}>{runId}</EntryLink>
      </th>
      <td>
        <span className="run-outcome">{runText(run)}</span>
        {attempt !== '' && <small>{attempt}</small>}
        <small>on {runnerId}</small>
        {/* An older node sends neither. */}
        {account && <small>with {account}</small>}
        {traceId && <small className="run-trace">trace {traceId}</small>}
      </td>
      <td>
        <RunTime run={run} />
        <small>
          <Moment at={startedAt} />
        </small>
      </td>
      <td>
        {dollars(cost)}
        <Tokens run={run} />
      </td>
    </tr>
  );
}

const hasResult = ({ response, structuredOutput, error, truncated }: Run): boolean =>
  response !== '' || structuredOutput !== null || error !== null || truncated;

function RunResult({ agentId, run }: { readonly agentId: AgentId; readonly run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const { runId, response, error, structuredOutput } = run;
  const title = firstLine(response) || error?.message || 'Structured output';
  return (
    <tr className="run-result">
      <td colSpan={4}>
        <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary title={isOpen ? undefined : title}>{isOpen ? 'Response' : title}</summary>
          {isOpen && error && (
            <p className="run-error">
              <code>{error.code}</code> {error.message}
            </p>
          )}
          {isOpen && response !== '' && (
            <PanelText label={`Response of run ${runId}`}>
              <Markdown text={response} />
            </PanelText>
          )}
          {isOpen && structuredOutput !== null && (
            <PanelText label={`Structured output of run ${runId}`}>
              <Json text={jsonText(structuredOutput)} />
            </PanelText>
          )}
          {isOpen && run.truncated && <FullResult agentId={agentId} runId={runId} />}
        </details>
      </td>
    </tr>
  );
}

/** A list of runs has shortened responses, so the dialog loads the whole run. */
function FullResult({ agentId, runId }: { readonly agentId: AgentId; readonly runId: string }) {
  const client = useClient();
  const [isShown, setShown] = useState(false);
  const { data, error } = useQuery({
    queryKey: ['run', agentPage(agentId), runId],
    queryFn: async ({ signal }) => (await client.runs(agentId, { runId, signal })).runs[0],
    enabled: isShown,
  });
  return (
    <>
      <p className="panel-row secondary">
        The response is shortened. <Button onClick={() => setShown(true)}>Show full response</Button>
      </p>
      {isShown && (
        <Dialog title={`Response of run ${runId}`} onClose={() => setShown(false)} isWide>
          <Problem error={error} />
          {!data && !error && <p>Loading …</p>}
          {data && <Markdown text={data.response} />}
          {data && data.structuredOutput !== null && <Json text={jsonText(data.structuredOutput)} />}
        </Dialog>
      )}
    </>
  );
}

const RunTime = ({ run }: { readonly run: Run }) =>
  run.endedAt === null ? (
    <TickingTime since={run.startedAt} />
  ) : (
    <span title={`ended ${clock(run.endedAt)}`}>
      {durationText(Date.parse(run.endedAt) - Date.parse(run.startedAt))}
    </span>
  );

const TickingTime = ({ since }: { readonly since: string }) => durationText(useNow() - Date.parse(since));

function Tokens({ run: { inputTokens, cachedInputTokens, outputTokens } }: { readonly run: Run }) {
  const all = String(Number(inputTokens) + Number(outputTokens));
  return (
    <small title={`${inputTokens} in, ${cachedInputTokens} of them cached; ${outputTokens} out`}>
      {all === '0' ? 'no tokens' : `${thousands(all)} tokens`}
    </small>
  );
}
