import { usageCsv } from '@muster/sdk/contract';
import { useMemo } from 'react';
import { useLocation, useSearch } from 'wouter';
import { useFleet } from '../../live/fleet.ts';
import { Button } from '../../parts/button.tsx';
import { SelectField } from '../../parts/field.tsx';
import { Empty, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { chosenKeys, keyTitle } from '../model/names.ts';
import {
  type PeriodName,
  periodNames,
  periodTitle,
  type SpendView,
  spendUrl,
  spendViewOf,
} from '../model/period.ts';
import { Budgets } from './budgets.tsx';
import { type Spend, useSpend } from './queries.ts';
import { SpendChart } from './spend-chart.tsx';
import { BarTable, GroupTable } from './spend-tables.tsx';
import { TopAgents } from './top-agents.tsx';
import '../spend.css';

/** What agents used and what it cost, over time. */
export function SpendPage() {
  const search = useSearch();
  const [, navigate] = useLocation();
  const view = useMemo(() => spendViewOf(search), [search]);
  const change = (changed: Partial<SpendView>) => navigate(spendUrl({ ...view, ...changed }));
  const { data, error, refetch, isPlaceholderData } = useSpend(view);
  useTitle('Spend · Muster');
  return (
    <div className="list-page spend-page stack">
      <header className="spend-head wrap">
        <h1>Spend</h1>
        <Choices view={view} onChange={change} />
      </header>
      <Problem error={error}>
        <Button onClick={() => void refetch()}>Try again</Button>
      </Problem>
      {!data && !error && <p className="page-loading">Loading …</p>}
      {data && !data.all && (
        <Empty title="Nothing used">
          <p>
            No agent used a model in this period. This page shows what agents cost, by workspace, person or
            model.
          </p>
        </Empty>
      )}
      {data?.all && (
        <div className="spend-results" aria-busy={isPlaceholderData}>
          <SpendChart spend={data} />
        </div>
      )}
      {/* It stays in its place while the rest loads, and so does its open dialog. */}
      <Budgets />
      {data?.all && (
        <div className="spend-results stack" aria-busy={isPlaceholderData}>
          <GroupTable key={data.by} spend={data} onDownload={() => download(data)} />
          <BarTable spend={data} />
          <TopAgents view={view} whole={data.all.costUsd} onChange={(top) => change({ top })} />
        </div>
      )}
    </div>
  );
}

interface ChoicesProps {
  readonly view: SpendView;
  readonly onChange: (view: Partial<SpendView>) => void;
}

function Choices({ view, onChange }: ChoicesProps) {
  const fleet = useFleet();
  // Read once, so that the open choice does not change.
  const labels = useMemo(() => {
    const agents = [...fleet.view().agents.values()];
    return [...new Set(agents.flatMap((agent) => Object.keys(agent.labels)))].sort();
  }, [fleet]);
  const keys = new Set([...chosenKeys, ...labels.map((label) => `label:${label}` as const), view.by]);
  return (
    <>
      <SelectField
        label="Period"
        value={view.period}
        options={periodNames.map((name) => [name, periodTitle(name)])}
        onChange={(period) => onChange({ period: period as PeriodName })}
      />
      <SelectField
        label="Group by"
        value={view.by}
        options={[...keys].map((key) => [key, keyTitle(key)])}
        onChange={(by) => onChange({ by: by as SpendView['by'] })}
      />
    </>
  );
}

/** The rows of the bars, as the service writes them for `Accept: text/csv`, without the limit of a page. */
function download({ rows, by, period }: Spend): void {
  const url = URL.createObjectURL(new Blob([usageCsv(rows, [by])], { type: 'text/csv' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `spend-${period}-by-${by.replace(':', '-')}.csv`;
  link.click();
  URL.revokeObjectURL(url);
}
