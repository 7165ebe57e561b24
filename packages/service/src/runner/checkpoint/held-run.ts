import type { MusterClient } from '@muster/sdk';
import type { Claim, RunnerCheckpoint } from '@muster/sdk/contract';
import { callWithin, persevere } from '../retry.ts';

const callMs = 60_000;

/** The checkpoints of the agent of one run, as the runner that holds this run reaches them. */
export class HeldRun {
  readonly #client: MusterClient;
  readonly #held: { readonly runnerId: string; readonly agentKey: string; readonly runId: number };

  constructor(client: MusterClient, runnerId: string, { agentKey, runId }: Claim) {
    this.#client = client;
    this.#held = { runnerId, agentKey, runId };
  }

  async savePart(checkpointId: string, part: number, content: Buffer, signal: AbortSignal): Promise<void> {
    const body = { ...this.#held, checkpointId, part, content: content.toString('base64') };
    await this.#call(signal, (s) => this.#client.call('runnerSaveCheckpoint', body, { signal: s }));
  }

  async complete(checkpointId: string, parts: number, final: boolean, signal: AbortSignal): Promise<void> {
    const body = { ...this.#held, checkpointId, parts, final };
    await this.#call(signal, (s) => this.#client.call('runnerCompleteCheckpoint', body, { signal: s }));
  }

  /** Newest first. */
  async checkpoints(signal: AbortSignal): Promise<readonly RunnerCheckpoint[]> {
    const list = (s: AbortSignal) => this.#client.call('runnerCheckpoints', this.#held, { signal: s });
    return (await this.#call(signal, list)).checkpoints;
  }

  async loadPart(checkpointId: string, part: number, signal: AbortSignal): Promise<Buffer> {
    const body = { ...this.#held, checkpointId, part };
    const load = (s: AbortSignal) => this.#client.call('runnerLoadCheckpoint', body, { signal: s });
    return Buffer.from((await this.#call(signal, load)).content, 'base64');
  }

  #call<T>(signal: AbortSignal, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return persevere(signal, () => callWithin(callMs, signal, call));
  }
}
