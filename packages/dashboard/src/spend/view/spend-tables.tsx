import type { UsageRow } from '@muster/sdk';
import { dollars, thousands } from '@muster/sdk/contract';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { TableBox } from '../../parts/list-page.tsx';
import { type Group, shareText, sum } from '../model/arrange.ts';
import { keyTitle, valueText } from '../model/names.ts';
import { longStartText } from '../model/period.ts';
import type { Spend } from './queries.ts';
import { Swatch } from './spend-chart.tsx';

const firstRows = 20;

interface GroupTableProps {
  readonly spend: Spend;
  readonly onDownload: () => void;
}

/** What each group used in the whole period. */
export function GroupTable({ spend: { groups, by, all }, onDownload }: GroupTableProps) {
  const title = `Cost by ${keyTitle(by).replace(/^./, (letter) => letter.toLowerCase())}`;
  const [showsAll, setShowsAll] = useState(false);
  const shown = showsAll ? groups : groups.slice(0, firstRows);
  const values = groups.map(({ value }) => value);
  const whole = all?.costUsd ?? 0;
  return (
    <section className="stack">
      <header className="spend-head wrap">
        <h2>{title}</h2>
        <Button onClick={onDownload}>Download CSV</Button>
      </header>
      <TableBox label={title}>
        <thead>
          <tr>
            <th scope="col">{keyTitle(by)}</th>
            <AmountHeads />
          </tr>
        </thead>
        <tbody>
          {shown.map(({ value, series, used }) => (
            <tr key={value}>
              <th scope="row">
                <Swatch series={series} />
                {valueText(by, value, values)}
                <UsedNote used={used} />
              </th>
              <Amounts used={used} whole={whole} />
            </tr>
          ))}
        </tbody>
        {all && (
          <tfoot>
            <tr>
              <th scope="row">
                Total
                <UsedNote used={all} />
              </th>
              <Amounts used={all} whole={whole} />
            </tr>
          </tfoot>
        )}
      </TableBox>
      {shown.length < groups.length && (
        <Button onClick={() => setShowsAll(true)}>Show all {groups.length.toLocaleString()}</Button>
      )}
      <Notes groups={groups} />
    </section>
  );
}

export const AmountHeads = () => (
  <>
    <th scope="col">Cost</th>
    <th scope="col">Share</th>
    <th scope="col">Input tokens</th>
    <th scope="col">Cached</th>
    <th scope="col">Output tokens</th>
    <th scope="col">Runs</th>
    <th scope="col">Agents</th>
  </>
);

export const Amounts = ({ used, whole }: { readonly used: UsageRow; readonly whole: number }) => (
  <>
    <td>{dollars(used.costUsd)}</td>
    <td>{shareText(used.costUsd, whole)}</td>
    <td>{thousands(used.inputTokens)}</td>
    <td>{thousands(used.cachedInputTokens)}</td>
    <td>{thousands(used.outputTokens)}</td>
    <td>{used.runs.toLocaleString()}</td>
    <td>{used.agents.toLocaleString()}</td>
  </>
);

/** Below a name: what is special about its cost. */
export function UsedNote({ used: { estimated, unpricedTokens }, about = [] }: UsedNoteProps) {
  const notes = [
    ...about,
    ...(estimated ? ['estimated'] : []),
    ...(unpricedTokens === '0' ? [] : [`${thousands(unpricedTokens)} tokens unpriced`]),
  ];
  return notes.length > 0 && <small className="secondary">{notes.join(' · ')}</small>;
}

interface UsedNoteProps {
  readonly used: UsageRow;
  readonly about?: readonly string[];
}

function Notes({ groups }: { readonly groups: readonly Group[] }) {
  const isEstimated = groups.some(({ used }) => used.estimated);
  const isUnpriced = groups.some(({ used }) => used.unpricedTokens !== '0');
  return (
    <>
      {isEstimated && (
        <p className="secondary">Estimated: a subscription paid for some of it, counted at list price.</p>
      )}
      {isUnpriced && (
        <p className="secondary">
          Unpriced: the price of the model is not known, so these tokens cost nothing here. An operator can
          add it with <code>MUSTER_PRICES</code>.
        </p>
      )}
    </>
  );
}

/** The numbers of the bars, the newest first. */
export function BarTable({ spend }: { readonly spend: Spend }) {
  const { bars, interval, series, groups, otherUsd, by } = spend;
  const values = groups.map(({ value }) => value);
  const columns = [...series.keys(), ...(otherUsd === null ? [] : [series.length])];
  const ends = columns.map((column) => sum(bars.map(({ costs }) => costs[column] ?? 0)));
  return (
    <details className="spend-details">
      <summary>Cost per {interval}</summary>
      <TableBox label={`Cost per ${interval}`}>
        <thead>
          <tr>
            <th scope="col">{interval === 'hour' ? 'Hour' : interval === 'day' ? 'Day' : 'Month'}</th>
            <th scope="col">Total</th>
            {series.map(({ value }) => (
              <th key={value} scope="col">
                {valueText(by, value, values)}
              </th>
            ))}
            {otherUsd !== null && <th scope="col">Others</th>}
          </tr>
        </thead>
        <tbody>
          {bars.toReversed().map(({ start, costUsd, costs }) => (
            <tr key={start.getTime()}>
              <th scope="row">{longStartText(interval, start)}</th>
              <td>{dollars(costUsd)}</td>
              {columns.map((column) => (
                <td key={column}>{dollars(costs[column] ?? 0)}</td>
              ))}
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Total</th>
            <td>{dollars(sum(ends))}</td>
            {columns.map((column) => (
              <td key={column}>{dollars(ends[column] ?? 0)}</td>
            ))}
          </tr>
        </tfoot>
      </TableBox>
    </details>
  );
}
