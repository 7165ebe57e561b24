import type { UsageInput, UsageRow } from '@muster/sdk';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useClient } from '../../session/session.ts';
import { type Arranged, arrange } from '../model/arrange.ts';
import { type BarInterval, type Period, periodUntil, type SpendView } from '../model/period.ts';

/** To add up usage costs the service more than to read the status of an agent. */
const pollMs = 60_000;
const zone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** All rows of several requests for the same period, one request after the other: the service answers one at a time. */
function useUsage<Result>(
  key: readonly unknown[],
  period: Period,
  requests: readonly UsageInput[],
  resultOf: (rows: readonly (readonly UsageRow[])[]) => Result,
) {
  const client = useClient();
  const from = period.starts[0];
  return useQuery({
    queryKey: ['usage', from?.toISOString(), ...key],
    refetchInterval: pollMs,
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => {
      const replies: UsageRow[][] = [];
      for (const request of requests) {
        const rows: UsageRow[] = [];
        const input = { ...request, from, zone: zone(), pageSize: 1000 };
        for await (const row of client.usageAll(input, { signal })) rows.push(row);
        replies.push(rows);
      }
      return resultOf(replies);
    },
  });
}

/** What the page shows of a period. */
export interface Spend extends Arranged, Pick<SpendView, 'period' | 'by'> {
  readonly interval: BarInterval;
  /** A row for each bar and group. */
  readonly rows: readonly UsageRow[];
  /** Undefined if nothing was used. */
  readonly all: UsageRow | undefined;
}

export function useSpend({ period: name, by }: SpendView) {
  const period = periodUntil(name, new Date());
  const { interval, starts } = period;
  const requests: UsageInput[] = [
    { interval, groupBy: [by] },
    { interval: 'total', groupBy: [by] },
    // Runs and agents that used something in several groups count once in the last row of the table.
    { interval: 'total' },
  ];
  return useUsage(
    [name, by],
    period,
    requests,
    ([rows = [], totals = [], all = []]): Spend => ({
      ...{ period: name, by, interval, rows, all: all[0] },
      ...arrange(rows, totals, by, starts),
    }),
  );
}

const topCount = 10;

/** The agents, or the trees of agents, with the highest cost. */
export function useTopAgents({ period, top }: Pick<SpendView, 'period' | 'top'>) {
  const request: UsageInput = { interval: 'total', groupBy: ['account', 'workspace', top] };
  return useUsage(['top', period, top], periodUntil(period, new Date()), [request], ([rows = []]) => ({
    top,
    rows: rows.toSorted((a, b) => b.costUsd - a.costUsd).slice(0, topCount),
  }));
}
