import type { Claim } from '@muster/sdk/contract';
import { FairThread, type NotDone } from '../fair-thread.ts';
import { packageFile } from '../package-file.ts';

export interface SchemaJob {
  /** The JSON text of the schema. */
  readonly schema: string;
  /** JSON text of a value to check; absent: the schema is only compiled. */
  readonly value?: string;
  /** Requests a smallest valid value. */
  readonly sample?: true;
}

export type SchemaAnswer =
  | { readonly type: 'done'; readonly problems: readonly string[]; readonly sample?: string | undefined }
  | { readonly type: 'bad-schema'; readonly message: string }
  | NotDone;

/** The bundle: a thread can't be started from a TypeScript source. */
const workerFile = packageFile('dist/bundle/schema-worker.js');

/** Callers write schemas, and compiling one or checking a value with it may never end. */
export class SchemaWorker extends FairThread<SchemaJob, SchemaAnswer> {
  constructor() {
    super(workerFile, { timeMs: 2000, heapMb: 96 }, 'schemas');
  }
}

export const schemaWorker = new SchemaWorker();

/** Runs a job with the output schema of a claim. The owner is the tenant. */
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

/** What is wrong with an output; empty when it is valid. */
export async function outputProblems(claim: Claim, output: unknown): Promise<readonly string[]> {
  const answer = await ask(claim, { value: JSON.stringify(output) });
  return answer.type === 'done' ? answer.problems : [`the output could not be checked: ${answer.message}`];
}

/** A smallest output for the schema, as JSON, or why there is none. */
export async function sampleOutput(claim: Claim): Promise<{ sample: string } | { problem: string }> {
  const answer = await ask(claim, { sample: true });
  if (answer.type !== 'done') return { problem: answer.message };
  return answer.sample === undefined ? { problem: 'none was found' } : { sample: answer.sample };
}
