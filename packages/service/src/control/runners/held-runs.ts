import type { BodyOf } from '@muster/sdk/contract';
import type pg from 'pg';
import { fenced, notFound, type Refusal } from '../../domain/refusal.ts';
import { isHeld } from '../../store/statements/checkpoints.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import type { TenantTurns } from '../batches/tenant-limits.ts';

type HeldRun = BodyOf<'runnerCheckpoints'>;
/** The parameters of statements that check it. */
export type Held = readonly [tenant: number, agent: string, run: number, runnerId: string];

/** The run of a request by its runner: it holds it while it is live, and for some minutes after it was killed. */
export class HeldRuns {
  readonly #database: pg.Pool;
  readonly #tenants: Tenants;

  constructor(database: pg.Pool, tenants: Tenants) {
    this.#database = database;
    this.#tenants = tenants;
  }

  /** Does work in a turn of the agent's tenant. The statements of the work check that the run is held. */
  async inTurn<R>(
    turns: TenantTurns,
    caller: Principal,
    { agentKey, runId, runnerId }: HeldRun,
    work: (held: Held) => Promise<R | Refusal>,
  ): Promise<R | Refusal> {
    const key = await this.#tenants.agentKey(caller.tenant.id, agentKey);
    if (!key) return notFound('the agent does not exist');
    return turns.run(key.tenant, () => work([key.tenant, key.id, runId, runnerId]));
  }

  /** The same for work that does not check it. */
  whileHeld<R>(
    turns: TenantTurns,
    caller: Principal,
    run: HeldRun,
    work: (held: Held) => Promise<R | Refusal>,
  ): Promise<R | Refusal> {
    return this.inTurn(turns, caller, run, async (held) =>
      (await this.isHeld(held)) ? work(held) : notHeld(run),
    );
  }

  async isHeld(held: Held): Promise<boolean> {
    return (await isHeld(this.#database, ...held)).length > 0;
  }
}

export const notHeld = ({ runId }: Pick<HeldRun, 'runId'>): Refusal =>
  fenced(`run ${runId} is not a live run of this runner, and was not killed a moment ago`);
