import { type BodyOf, limits, type ReplyOf } from '@muster/sdk/contract';
import type pg from 'pg';
import { aborted, invalid, notFound, precondition, type Refusal } from '../../domain/refusal.ts';
import type { Metrics } from '../../lib/metrics.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import {
  type CheckpointRow,
  completeCheckpoint,
  readCheckpointPart,
  readCheckpoints,
  saveCheckpointPart,
} from '../../store/statements/checkpoints.ts';
import type { Principal } from '../access/principal.ts';
import { TenantTurns } from '../batches/tenant-limits.ts';
import type { RequestOf } from '../operation.ts';
import type { Quotas } from '../upkeep/quotas.ts';
import { type HeldRuns, notHeld } from './held-runs.ts';

type HeldRun = BodyOf<'runnerCheckpoints'>;

/**
 * Checkpoints, with which another runner continues an agent. Only the runner that holds the agent's live run may save
 * or load them, as with reports. The runner of a run that was killed has some more minutes.
 */
export class Checkpoints {
  readonly #database: pg.Pool;
  readonly #runs: HeldRuns;
  readonly #readTurns = new TenantTurns(2, 'checkpoints');
  /** One at a time: two of one agent could wait for each other's rows. */
  readonly #writeTurns = new TenantTurns(1, 'checkpoints');
  readonly #quotas: Quotas;
  readonly #metrics: Metrics;

  constructor(database: pg.Pool, runs: HeldRuns, quotas: Quotas, metrics: Metrics) {
    this.#metrics = metrics;
    this.#database = database;
    this.#runs = runs;
    this.#quotas = quotas;
  }

  async save(
    caller: Principal,
    request: RequestOf<'runnerSaveCheckpoint'>,
  ): Promise<Record<string, never> | Refusal> {
    const { checkpointId, part, content } = request;
    if (content.length === 0)
      return invalid('body', `must be 1 to ${limits.checkpointPartBytes} bytes; got none`);
    return this.#runs.inTurn(this.#writeTurns, caller, request, async (held) => {
      const [tenant, id] = held;
      const full = await this.#quotas.refuseAgent('checkpoints', { tenant, id }, content.length);
      if (full) return (await this.#runs.isHeld(held)) ? full : notHeld(request);
      const [saved] = await saveCheckpointPart(this.#database, ...held, checkpointId, part, content);
      if (!saved) return notHeld(request);
      if (saved.is_saved) {
        this.#metrics.add('muster_checkpoint_bytes_total', {}, content.length);
        return {};
      }
      return precondition(
        'CHECKPOINT_COMPLETE',
        checkpointId,
        `the checkpoint is complete without part ${part}`,
      );
    });
  }

  async complete(
    caller: Principal,
    body: BodyOf<'runnerCompleteCheckpoint'>,
  ): Promise<Record<string, never> | Refusal> {
    const { checkpointId, parts, final } = body;
    return this.#runs.inTurn(this.#writeTurns, caller, body, async (held) => {
      const [completed] = await completeCheckpoint(this.#database, ...held, checkpointId, parts, final);
      if (!completed) return notHeld(body);
      if (completed.is_complete) {
        this.#metrics.add('muster_checkpoints_saved_total', {});
        return {};
      }
      const message = `the saved parts of the checkpoint are not those from 0 to ${parts - 1}`;
      return precondition('PARTS_MISSING', checkpointId, message);
    });
  }

  list(caller: Principal, body: HeldRun): Promise<ReplyOf<'runnerCheckpoints'> | Refusal> {
    return this.#runs.whileHeld(this.#readTurns, caller, body, async ([tenant, agent]) => {
      const rows = await readCheckpoints(this.#database, tenant, agent);
      const checkpoints = rows.map(({ id, run, final, parts, bytes, completed_at }) => ({
        checkpointId: id,
        runId: run,
        final,
        parts,
        bytes,
        completedAt: completed_at,
      }));
      return { checkpoints };
    });
  }

  load(
    caller: Principal,
    body: BodyOf<'runnerLoadCheckpoint'>,
  ): Promise<ReplyOf<'runnerLoadCheckpoint'> | Refusal> {
    return this.#runs.whileHeld(this.#readTurns, caller, body, async ([tenant, id]) => {
      const content = await this.#part({ tenant, id }, body.checkpointId, body.part);
      return content === undefined ? noPart(body.part) : { content };
    });
  }

  /** A part of the newest one. The caller may command the agent. */
  download(
    { tenant, id }: AgentKey,
    { checkpointId, part = 0 }: BodyOf<'checkpoint'>,
  ): Promise<ReplyOf<'checkpoint'> | Refusal> {
    return this.#readTurns.run(tenant, async () => {
      const [newest] = await readCheckpoints(this.#database, tenant, id);
      if (!newest)
        return notFound('the agent has no checkpoint: nothing of it was saved yet, or it ended long ago');
      const replaced = checkpointId !== undefined && checkpointId !== newest.id;
      const content = replaced ? undefined : await this.#part({ tenant, id }, newest.id, part);
      if (content !== undefined) return { ...shownOf(newest), content };
      if (!replaced && part >= newest.parts) return noPart(part);
      return aborted(
        'CHECKPOINT_REPLACED',
        'a newer checkpoint has replaced this one; begin again with part 0',
      );
    });
  }

  async #part({ tenant, id }: AgentKey, checkpoint: string, part: number): Promise<string | undefined> {
    const [found] = await readCheckpointPart(this.#database, tenant, id, checkpoint, part);
    return found?.content.toString('base64');
  }
}

const shownOf = ({ id, run, parts, bytes, completed_at }: CheckpointRow) => ({
  checkpointId: id,
  runId: String(run),
  completedAt: completed_at,
  bytes: String(bytes),
  parts,
});

const noPart = (part: number): Refusal => notFound(`the checkpoint has no part ${part}`);
