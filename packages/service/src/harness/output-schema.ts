import type { Claim } from '@muster/sdk/contract';
import { type SchemaAnswer, type SchemaJob, schemaWorker } from '../lib/output-schema/schema-worker.ts';

/** What a run asks about the output schema of its claim. Agents of one tenant wait for each other, not for all. */
function ask(
  { outputSchema: schema, agentId }: Claim,
  job: Omit<SchemaJob, 'schema'>,
): Promise<SchemaAnswer> {
  const { provider, org } = agentId.tenant;
  return schemaWorker.run(`runs of ${provider}/${org}`, { schema, ...job });
}

/** Why the schema can't be used, or null. */
export async function schemaProblem(claim: Claim): Promise<string | null> {
  const answer = await ask(claim, {});
  return answer.type === 'done' ? null : answer.message;
}

/** What is wrong with an output; empty when it fits. */
export async function outputProblems(claim: Claim, output: unknown): Promise<readonly string[]> {
  const answer = await ask(claim, { value: JSON.stringify(output) });
  return answer.type === 'done' ? answer.problems : [`the output could not be checked: ${answer.message}`];
}

/** A small output that fits the schema, as JSON, or why there is none. */
export async function sampleOutput(claim: Claim): Promise<{ sample: string } | { problem: string }> {
  const answer = await ask(claim, { sample: true });
  if (answer.type !== 'done') return { problem: answer.message };
  return answer.sample === undefined ? { problem: 'none was found' } : { sample: answer.sample };
}
