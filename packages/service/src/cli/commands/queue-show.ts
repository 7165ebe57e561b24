import type { Invocation } from '../invocation.ts';

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const [agent, id] = args as [string, string];
  const followUp = await client().followUp(agent, id, { signal });
  output.answer(followUp, ({ state, description, run, answer }) => {
    output.line(run ? `${state} in run ${run.runId} (${run.outcome || run.state})` : state);
    output.line(`\n${description}`);
    if (answer !== '') output.line(`\n${answer}`);
  });
}
