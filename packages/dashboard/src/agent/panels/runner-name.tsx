import type { AgentStatus, CurrentRun } from '@muster/sdk';
import { useEntries } from './use-entries.ts';

/** What the runner of the newest run calls itself; until that is known, the beginning of its id. */
export function RunnerName({ status, run }: { readonly status: AgentStatus; readonly run: CurrentRun }) {
  const newest = useEntries(status, 'RUN_STARTED', { most: 1 }).data?.[0];
  const name = newest?.runId === run.runId ? newest.data.runner : '';
  return <span title={`Runner ${run.runnerId}`}>{String(name || run.runnerId.slice(0, 8))}</span>;
}
