import { dollars } from '@muster/sdk/contract';
import { useId, useState } from 'react';
import { labelled, type Series, sum, tickText } from '../model/arrange.ts';
import { valueText } from '../model/names.ts';
import { longStartText, periodTitle, startText } from '../model/period.ts';
import type { Spend } from './queries.ts';

const height = 200;
const mostLabels = 5;

/** Bars over time, stacked by group. Pointing at a bar shows its numbers in the legend; the tables have all of them. */
export function SpendChart({ spend }: { readonly spend: Spend }) {
  const { bars, ticks, interval, period } = spend;
  const [chosen, setChosen] = useState<number | null>(null);
  const titleId = useId();
  const bar = chosen === null ? undefined : bars[chosen];
  const max = ticks.at(-1) || 1;
  return (
    <figure className="spend-chart stack" aria-labelledby={titleId}>
      <figcaption id={titleId}>
        <span className="secondary">{bar ? longStartText(interval, bar.start) : periodTitle(period)}</span>
        <strong>{dollars(bar ? bar.costUsd : sum(bars.map(({ costUsd }) => costUsd)))}</strong>
      </figcaption>
      <svg
        className="spend-bars"
        height={height + 24}
        role="img"
        aria-label={`Cost per ${interval}. The tables below have the same numbers.`}
        onPointerLeave={() => setChosen(null)}
      >
        {ticks.map((tick) => (
          <g key={tick} className="spend-tick" transform={`translate(0 ${height - (tick / max) * height})`}>
            <line x2="100%" />
            <text x="-8" dy="0.32em">
              {tickText(tick)}
            </text>
          </g>
        ))}
        <Bars {...{ spend, max, chosen }} onChoose={setChosen} />
        {labelled(bars.length, mostLabels).map((i) => (
          <text key={i} className="spend-label" x={percent((i + 0.5) / bars.length)} y={height + 18}>
            {bars[i] && startText(interval, bars[i].start)}
          </text>
        ))}
      </svg>
      <Legend spend={spend} costs={bar?.costs} />
    </figure>
  );
}

const percent = (part: number): string => `${100 * part}%`;

interface BarsProps {
  readonly spend: Spend;
  readonly max: number;
  readonly chosen: number | null;
  readonly onChoose: (bar: number) => void;
}

function Bars({ spend: { bars, series }, max, chosen, onChoose }: BarsProps) {
  const width = 1 / bars.length;
  return bars.map(({ start, costs }, i) => {
    let top = height;
    return (
      <g key={start.getTime()} data-chosen={i === chosen}>
        <rect
          className="spend-column"
          x={percent(i * width)}
          width={percent(width)}
          height={height}
          onPointerEnter={() => onChoose(i)}
        />
        {costs.map((cost, place) => {
          const barHeight = (cost / max) * height;
          top -= barHeight;
          const own = series[place]?.series ?? 'other';
          return (
            barHeight > 0 && (
              <rect
                key={own}
                data-series={own}
                x={percent((i + 0.12) * width)}
                width={percent(0.76 * width)}
                y={top}
                height={barHeight}
              />
            )
          );
        })}
      </g>
    );
  });
}

interface LegendProps {
  readonly spend: Spend;
  /** Of the bar that is pointed at; absent: of the whole period. */
  readonly costs: readonly number[] | undefined;
}

function Legend({ spend: { by, series, groups, otherUsd }, costs }: LegendProps) {
  const values = groups.map(({ value }) => value);
  const entries = series.map(({ value, used, series: own }, i) => ({
    series: own,
    text: valueText(by, value, values),
    costUsd: costs ? (costs[i] ?? 0) : used.costUsd,
  }));
  if (otherUsd !== null)
    entries.push({
      series: 'other',
      text: `${groups.length - series.length} others`,
      costUsd: costs?.at(-1) ?? otherUsd,
    });
  return (
    <ul className="spend-legend wrap secondary">
      {entries.map((entry) => (
        <li key={entry.series}>
          <Swatch series={entry.series} />
          <span className="spend-name" title={entry.text}>
            {entry.text}
          </span>
          <span>{dollars(entry.costUsd)}</span>
        </li>
      ))}
    </ul>
  );
}

export const Swatch = ({ series }: { readonly series: Series }) => (
  <svg className="spend-swatch" width="10" height="10" aria-hidden="true">
    <rect width="10" height="10" rx="2" data-series={series} />
  </svg>
);
