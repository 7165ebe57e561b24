import { randomUUID } from 'node:crypto';
import type { MusterClient } from '@muster/sdk';
import { type Claim, limits } from '@muster/sdk/contract';
import type { Harness, HarnessListener, Processes } from '../harness/harness.ts';
import { callWithin, persevere } from './retry.ts';
import { hasSession, packSession, unpackSession } from './session-archive.ts';

export interface SessionKeeperOptions {
  readonly client: MusterClient;
  readonly runnerId: string;
  readonly claim: Claim;
  readonly harness: Harness;
  readonly homeFolder: string;
  readonly processes: Processes;
  readonly listener: Pick<HarnessListener, 'item'>;
  /** Aborts when the run may no longer act. */
  readonly signal: AbortSignal;
}

const callMs = 60_000;

/** Moves an agent's session house: fetches it from the service where it is missing, and leaves it there at the end. */
export class SessionKeeper {
  readonly #options: SessionKeeperOptions;

  constructor(options: SessionKeeperOptions) {
    this.#options = options;
  }

  /** Whether the session that the claim names can be resumed here. */
  async fetch(signal: AbortSignal): Promise<boolean> {
    const { claim, homeFolder, processes, listener } = this.#options;
    if (claim.session === '') return false;
    const patterns = this.#patterns(claim.session);
    if (patterns.length === 0 || (await hasSession(homeFolder, patterns))) return true;
    const archive = await this.#load(signal);
    if (archive.length === 0) {
      const text = 'The session of the earlier runs was never saved: this run begins a new one.';
      listener.item({ type: 'WARNING', text });
      return false;
    }
    await unpackSession(processes, archive, signal);
    return hasSession(homeFolder, patterns);
  }

  /** A session that can't be kept is no reason to fail a run that is done. */
  async keep(session: string): Promise<void> {
    const { claim, processes, listener, client, runnerId, signal } = this.#options;
    const patterns = this.#patterns(session);
    if (patterns.length === 0) return;
    try {
      const archive = await packSession(processes, patterns);
      if (!archive) return;
      const { agentKey, runId } = claim;
      const held = { runnerId, agentKey, runId, checkpointId: randomUUID() };
      const parts = Math.ceil(archive.length / limits.checkpointPartBytes);
      for (let part = 0; part < parts; part++) {
        const bytes = archive.subarray(
          part * limits.checkpointPartBytes,
          (part + 1) * limits.checkpointPartBytes,
        );
        const body = { ...held, part, content: bytes.toString('base64') };
        await persevere(signal, () =>
          callWithin(callMs, signal, (s) => client.call('runnerSaveCheckpoint', body, { signal: s })),
        );
      }
      await persevere(signal, () =>
        callWithin(callMs, signal, (s) =>
          client.call('runnerCompleteCheckpoint', { ...held, parts, final: true }, { signal: s }),
        ),
      );
    } catch (error) {
      if (signal.aborted) return;
      const text = `The session could not be saved, so another runner would have to begin a new one: ${(error as Error).message}`;
      listener.item({ type: 'WARNING', text });
    }
  }

  async #load(signal: AbortSignal): Promise<Buffer> {
    const { client, runnerId, claim } = this.#options;
    const held = { runnerId, agentKey: claim.agentKey, runId: claim.runId };
    const { checkpoints } = await persevere(signal, () =>
      callWithin(callMs, signal, (s) => client.call('runnerCheckpoints', held, { signal: s })),
    );
    const [newest] = checkpoints;
    const parts: Buffer[] = [];
    for (let part = 0; newest && part < newest.parts; part++) {
      const body = { ...held, checkpointId: newest.checkpointId, part };
      const { content } = await persevere(signal, () =>
        callWithin(callMs, signal, (s) => client.call('runnerLoadCheckpoint', body, { signal: s })),
      );
      parts.push(Buffer.from(content, 'base64'));
    }
    return Buffer.concat(parts);
  }

  /** A session's name becomes part of a shell's word: it is letters, digits and dashes, or it is not ours. */
  #patterns(session: string): readonly string[] {
    return /^[\w-]+$/.test(session) ? this.#options.harness.sessionFiles(session) : [];
  }
}
