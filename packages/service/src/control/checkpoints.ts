import { type BodyOf, limits, type ReplyOf } from '@muster/sdk/contract';
import type pg from 'pg';
import {
  aborted,
  exhausted,
  fenced,
  invalid,
  notFound,
  precondition,
  type Refusal,
} from '../domain/refusal.ts';
import type { AgentKey } from '../store/agent-store.ts';
import {
  type CheckpointRow,
  completeCheckpoint,
  isHeld,
  readCheckpointPart,
  readCheckpoints,
  saveCheckpointPart,
} from '../store/statements/checkpoints.ts';
import type { Principal } from './principal.ts';
import { isRefusal } from './refusal.ts';
import type { Tenants } from './tenants.ts';

type HeldRun = BodyOf<'runnerCheckpoints'>;
type Held = [tenant: number, agent: string, run: number, runnerId: string];

/**
 * What runners save of their agents, so that another runner can go on where one left off. As with a report, only the
 * runner that holds the agent's live run may save or load it.
 */
export class Checkpoints {
  readonly #pool: pg.Pool;
  readonly #tenants: Tenants;

  constructor(pool: pg.Pool, tenants: Tenants) {
    this.#pool = pool;
    this.#tenants = tenants;
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
    const held = await this.#held(caller, body);
    if (isRefusal(held)) return held;
    const [saved] = await saveCheckpointPart(this.#pool, ...held, body.checkpointId, body.part, content);
    if (!saved) return notHeld(body);
    return saved.is_saved ? {} : exhausted(tenantIsFull(saved.bytes_of_tenant));
  }

  async complete(
    caller: Principal,
    body: BodyOf<'runnerCompleteCheckpoint'>,
  ): Promise<Record<string, never> | Refusal> {
    const held = await this.#held(caller, body);
    if (isRefusal(held)) return held;
    const { checkpointId, parts, final } = body;
    const [completed] = await completeCheckpoint(this.#pool, ...held, checkpointId, parts, final);
    if (!completed) return notHeld(body);
    if (completed.is_complete) return {};
    return precondition('PARTS_MISSING', checkpointId, `parts of the checkpoint ${checkpointId} are missing`);
  }

  async list(caller: Principal, body: HeldRun): Promise<ReplyOf<'runnerCheckpoints'> | Refusal> {
    const key = await this.#holding(caller, body);
    if (isRefusal(key)) return key;
    const rows = await readCheckpoints(this.#pool, key.tenant, key.id);
    const checkpoints = rows.map(({ id, run, final, parts, bytes, completed_at }) => ({
      checkpointId: id,
      runId: run,
      final,
      parts,
      bytes,
      completedAt: completed_at,
    }));
    return { checkpoints };
  }

  async load(
    caller: Principal,
    body: BodyOf<'runnerLoadCheckpoint'>,
  ): Promise<ReplyOf<'runnerLoadCheckpoint'> | Refusal> {
    const key = await this.#holding(caller, body);
    if (isRefusal(key)) return key;
    const content = await this.#part(key, body.checkpointId, body.part);
    return content === undefined ? noPart(body.part) : { content };
  }

  /** A part of the newest one, for whoever may command the agent. */
  async download(
    { tenant, id }: AgentKey,
    { checkpointId, part = 0 }: BodyOf<'checkpoint'>,
  ): Promise<ReplyOf<'checkpoint'> | Refusal> {
    const [newest] = await readCheckpoints(this.#pool, tenant, id);
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
  }

  async #part({ tenant, id }: AgentKey, checkpoint: string, part: number): Promise<string | undefined> {
    const [found] = await readCheckpointPart(this.#pool, tenant, id, checkpoint, part);
    return found?.content.toString('base64');
  }

  async #held(caller: Principal, { agentKey, runId, runnerId }: HeldRun): Promise<Held | Refusal> {
    const key = await this.#tenants.agentKey(caller.tenant.id, agentKey);
    return key ? [key.tenant, key.id, runId, runnerId] : notFound('the agent does not exist');
  }

  /** The agent, if its run is live and this runner's. */
  async #holding(caller: Principal, body: HeldRun): Promise<AgentKey | Refusal> {
    const held = await this.#held(caller, body);
    if (isRefusal(held)) return held;
    const [found] = await isHeld(this.#pool, ...held);
    return found ? { tenant: held[0], id: held[1] } : notHeld(body);
  }
}

const shownOf = ({ id, run, parts, bytes, completed_at }: CheckpointRow) => ({
  checkpointId: id,
  runId: String(run),
  completedAt: completed_at,
  bytes: String(bytes),
  parts,
});

const notHeld = ({ runId }: HeldRun): Refusal => fenced(`run ${runId} is not a live run of this runner`);
const noPart = (part: number): Refusal => notFound(`the checkpoint has no part ${part}`);
const tenantIsFull = (bytes: number): string =>
  `the checkpoints of this tenant have ${bytes} bytes, and the most is ${limits.checkpointBytesPerTenant}`;
