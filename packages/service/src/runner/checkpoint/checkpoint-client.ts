import type { CallOptions, MusterClient } from '@muster/sdk';
import type {
  BodyOf,
  Claim,
  ReplyOf,
  ReportRequest,
  RouteName,
  RunnerCheckpoint,
} from '@muster/sdk/contract';
import type { Harness, HarnessListener, Processes } from '../../harness/harness.ts';
import type { Observed } from '../observed.ts';
import { retryTransient } from '../retry.ts';
import type { RunTrace } from '../run/run-trace.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';

export interface CheckpointListener extends Pick<HarnessListener, 'item' | 'diff'> {
  unpushed(unpushed: NonNullable<ReportRequest['unpushed']>): void;
}

/** What saving and restoring need to know of a run. */
export interface CheckpointOptions {
  readonly client: Pick<CheckpointClient, 'savePart' | 'complete' | 'checkpoints' | 'loadPart'>;
  readonly claim: Claim;
  readonly harness: Harness;
  readonly workspaceFolder: string;
  readonly homeFolder: string;
  /** The folders contain nothing of an earlier run. */
  readonly isFresh: boolean;
  readonly repos: readonly PreparedRepository[];
  readonly processes: Processes;
  readonly listener: CheckpointListener;
  readonly observed: Pick<Observed, 'add'>;
  /** The minimum time between two checkpoints. */
  readonly intervalMs: number;
  /** How long saving may take once the run was interrupted. */
  readonly interruptedMs?: number;
  /** The trace of the run, where traces are sent. */
  readonly trace?: Pick<RunTrace, 'step'> | undefined;
  /** Aborts when the run may no longer act. */
  readonly signal: AbortSignal;
}

const callTimeoutMs = 60_000;

/** The checkpoints of the agent of one run, for the runner that holds this run. */
export class CheckpointClient {
  readonly #client: MusterClient;
  readonly #run: { readonly runnerId: string; readonly agentKey: string; readonly runId: number };

  constructor(client: MusterClient, runnerId: string, { agentKey, runId }: Claim) {
    this.#client = client;
    this.#run = { runnerId, agentKey, runId };
  }

  async savePart(checkpointId: string, part: number, content: Buffer, signal: AbortSignal): Promise<void> {
    const { runnerId, agentKey, runId } = this.#run;
    const query = { runnerId, agentKey, runId: String(runId), checkpointId, part: String(part) };
    await this.#call('runnerSaveCheckpoint', undefined, signal, { query, upload: content });
  }

  async complete(checkpointId: string, parts: number, final: boolean, signal: AbortSignal): Promise<void> {
    await this.#call('runnerCompleteCheckpoint', { ...this.#run, checkpointId, parts, final }, signal);
  }

  /** Newest first. */
  async checkpoints(signal: AbortSignal): Promise<readonly RunnerCheckpoint[]> {
    return (await this.#call('runnerCheckpoints', this.#run, signal)).checkpoints;
  }

  async loadPart(checkpointId: string, part: number, signal: AbortSignal): Promise<Buffer> {
    const body = { ...this.#run, checkpointId, part };
    const { content } = await this.#call('runnerLoadCheckpoint', body, signal);
    return Buffer.from(content, 'base64');
  }

  #call<N extends RouteName>(
    name: N,
    body: BodyOf<N>,
    signal: AbortSignal,
    bytes: Pick<CallOptions, 'query' | 'upload'> = {},
  ): Promise<ReplyOf<N>> {
    const options = { signal, timeoutMs: callTimeoutMs, ...bytes };
    return retryTransient(signal, () => this.#client.call(name, body, options));
  }
}
