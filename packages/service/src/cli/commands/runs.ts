import type { Run } from '@muster/sdk';
import { clock, dollars, thousands } from '@muster/sdk/contract';
import type { Invocation } from '../invocation.ts';

const stateOf = ({ outcome, state }: Run): string => (outcome || state).replaceAll('_', ' ').toLowerCase();

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const agent = args[0] as string;
  const { runs } = await client().runs(agent, { signal });
  output.table(
    runs,
    [
      { title: 'RUN', of: ({ runId }) => runId, isRight: true },
      { title: 'ENDED', of: stateOf },
      { title: 'BEGUN', of: ({ startedAt }) => clock(startedAt) },
      { title: 'SECONDS', of: secondsOf, isRight: true },
      { title: 'COST', of: ({ cost }) => dollars(cost), isRight: true },
      { title: 'IN', of: ({ inputTokens }) => thousands(inputTokens), isRight: true },
      { title: 'OUT', of: ({ outputTokens }) => thousands(outputTokens), isRight: true },
    ],
    `${agent} has not run yet`,
  );
}

const secondsOf = ({ startedAt, endedAt }: Run): string =>
  endedAt === null ? '' : String(Math.round((Date.parse(endedAt) - Date.parse(startedAt)) / 1000));
