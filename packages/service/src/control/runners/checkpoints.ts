import { type BodyOf, limits, type ReplyOf } from '@muster/sdk/contract';
import type pg from 'pg';
import { aborted, fenced, invalid, notFound, precondition, type Refusal } from '../../domain/refusal.ts';
import type { Metrics } from '../../lib/metrics.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import {
  type CheckpointRow,
  completeCheckpoint,
  isHeld,
  readCheckpointPart,
  readCheckpoints,
  saveCheckpointPart,
} from '../../store/statements/checkpoints.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import { TenantTurns } from '../batches/tenant-limits.ts';
import type { Quotas } from '../upkeep/quotas.ts';

type HeldRun = BodyOf<'runnerCheckpoints'>;
type Held = [tenant: number, agent: string, run: number, runnerId: string];

/**
 * Checkpoints, with which another runner continues an agent. Only the runner that holds the agent's live run may save
 * or load them, as with reports. The runner of a run that was killed has some more minutes.
 */
export class Checkpoints {
  readonly #database: pg.Pool;
  readonly #tenants: Tenants;
  readonly #readTurns = new TenantTurns(2, 'checkpoints');
  /** One at a time: two of one agent could wait for each other's rows. */
  readonly #writeTurns = new TenantTurns(1, 'checkpoints');
  readonly #quotas: Quotas;
  readonly #metrics: Metrics;

  constructor(database: pg.Pool, tenants: Tenants, quotas: Quotas, metrics: Metrics) {
    this.#metrics = metrics;
    this.#database = database;
    this.#tenants = tenants;
    this.#quotas = quotas;
  }

  async save(
    caller: Principal,
    body: BodyOf<'runnerSaveCheckpoint'>,
  ): Promise<Record<string, never> | Refusal> {
    const content = Buffer.from(body.content, 'base64');
    if (content.length === 0 || content.length > limits.checkpointPartBytes)
      return invalid('content', `must be 1 to ${limits.checkpointPartBytes} bytes before base64`);
    if (content.toString('base64') !== body.content)
      return invalid('content', 'must be base64, with its padding');
    const { checkpointId, part } = body;
    return this.#inTurn(this.#writeTurns, caller, body, async (held) => {
      const [tenant, id] = held;
      const full = await this.#quotas.refuseAgent('checkpoints', { tenant, id }, content.length);
      if (full) return (await this.#isHeld(held)) ? full : notHeld(body);
      const [saved] = await saveCheckpointPart(this.#database, ...held, checkpointId, part, content);
      if (!saved) return notHeld(body);
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
    return this.#inTurn(this.#writeTurns, caller, body, async (held) => {
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
    return this.#whileHeld(caller, body, async ([tenant, agent]) => {
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
    return this.#whileHeld(caller, body, async ([tenant, id]) => {
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

  /**
   * Reads what the agent has, if its run belongs to this runner and is live or was just killed. Statements that write
   * check this themselves.
   */
  #whileHeld<R>(
    caller: Principal,
    body: HeldRun,
    read: (held: Held) => Promise<R | Refusal>,
  ): Promise<R | Refusal> {
    return this.#inTurn(this.#readTurns, caller, body, async (held) =>
      (await this.#isHeld(held)) ? read(held) : notHeld(body),
    );
  }

  async #isHeld(held: Held): Promise<boolean> {
    return (await isHeld(this.#database, ...held)).length > 0;
  }

  async #inTurn<R>(
    turns: TenantTurns,
    caller: Principal,
    body: HeldRun,
    work: (held: Held) => Promise<R | Refusal>,
  ): Promise<R | Refusal> {
    const key = await this.#tenants.agentKey(caller.tenant.id, body.agentKey);
    if (!key) return notFound('the agent does not exist');
    return turns.run(key.tenant, () => work([key.tenant, key.id, body.runId, body.runnerId]));
  }
}

const shownOf = ({ id, run, parts, bytes, completed_at }: CheckpointRow) => ({
  checkpointId: id,
  runId: String(run),
  completedAt: completed_at,
  bytes: String(bytes),
  parts,
});

const notHeld = ({ runId }: HeldRun): Refusal =>
  fenced(`run ${runId} is not a live run of this runner, and was not killed a moment ago`);
const noPart = (part: number): Refusal => notFound(`the checkpoint has no part ${part}`);
