import type { Run } from '@muster/sdk';
import { clock, dollars, thousands } from '@muster/sdk/contract';
import type { Invocation } from '../invocation.ts';

interface Flags {
  readonly run?: string;
}

const stateOf = ({ outcome, state }: Run): string => (outcome || state).replaceAll('_', ' ').toLowerCase();

export async function run({ args, flags, client, output, signal }: Invocation<Flags>): Promise<void> {
  const agent = args[0] as string;
  if (flags.run !== undefined) {
    const { runs } = await client().runs(agent, { runId: flags.run, signal });
    for (const one of runs) output.answer(one, () => output.line(wordsOf(one)));
    return;
  }
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
      { title: 'RESPONSE', of: ({ response, error }) => error?.message ?? response, isFlexible: true },
    ],
    `${agent} has not run yet`,
  );
}

/** Everything that a run said last and produced. */
function wordsOf({ response, structuredOutput, error }: Run): string {
  const output = structuredOutput === null ? '' : JSON.stringify(structuredOutput, null, 2);
  return [response, output, error && `${error.code}: ${error.message}`].filter(Boolean).join('\n');
}

const secondsOf = ({ startedAt, endedAt }: Run): string =>
  endedAt === null ? '' : String(Math.round((Date.parse(endedAt) - Date.parse(startedAt)) / 1000));
