import { dollars } from '@muster/sdk/contract';
import { useEffect, useSyncExternalStore } from 'react';
import { durationText } from '../../parts/model/text.ts';
import { outcomeWords } from './entry-words.ts';
import { type RowOf, stringIn } from './rows.ts';
import { useTranscript } from './transcript-context.ts';
import './run-row.css';

/** Where a run begins and ends. */
export const RunRow = ({ row }: { readonly row: RowOf<'run-start'> | RowOf<'run-end'> }) =>
  row.kind === 'run-start' ? <RunStart row={row} /> : <RunEnd row={row} />;

function RunStart({ row: { entry } }: { readonly row: RowOf<'run-start'> }) {
  const runner = stringIn(entry.data, 'runner');
  return (
    <p className="run-row">
      <strong>Run {entry.runId}</strong> started{entry.text !== '' && ` · ${entry.text}`}
      {runner !== '' && ` · on ${runner}`}
    </p>
  );
}

function RunEnd({ row: { entry, startedAt } }: { readonly row: RowOf<'run-end'> }) {
  const { runFacts } = useTranscript();
  const { runId, text, at } = entry;
  const run = useSyncExternalStore(runFacts.subscribe, () => runFacts.of(runId));
  useEffect(() => runFacts.want(runId), [runFacts, runId]);
  const began = startedAt ?? run?.startedAt;
  return (
    <p className="run-row" data-outcome={text}>
      <strong>
        Run {runId} {outcomeWords(entry)}
      </strong>
      {began && ` · took ${durationText(Date.parse(at) - Date.parse(began))}`}
      {run && run.cost > 0 && ` · ${dollars(run.cost)}`}
    </p>
  );
}
