import { isTerminal } from '@muster/sdk/contract';
import type pg from 'pg';
import { isRefusal, notFound, precondition, type Refusal, tenantClosed } from '../../domain/refusal.ts';
import type { Log } from '../../lib/log.ts';
import { type AgentKey, keyColumns } from '../../store/agent-store.ts';
import { begin, rollBack } from '../../store/connection.ts';
import {
  erasures,
  findUnerased,
  finishErasure,
  lockDeletable,
  markDeleted,
  markDeletedBelow,
} from '../../store/statements/deleted-agents.ts';
import { countLiveDescendants } from '../../store/statements/load-agents.ts';
import { nameOf, type Principal } from '../access/principal.ts';
import type { Operation } from '../operation.ts';
import { meterRunsOf } from '../upkeep/usage-upkeep.ts';
import type { Wakes } from '../watching/wakes.ts';
import type { Targets } from './targets.ts';

/** How many agents below are marked in one statement. */
const agentsPerMark = 500;
const agentsPerLook = 50;

export interface DeletionOptions {
  readonly database: pg.Pool;
  readonly log: Log;
  readonly targets: Targets;
  readonly wakes: Pick<Wakes, 'perform'>;
}

/**
 * Deletes an agent that has ended and the ended agents below it. A request only marks them, in two short transactions: an
 * agent that is marked has no name and is in no list. Maintenance deletes what they have, in batches.
 */
export class DeletedAgents {
  readonly #options: DeletionOptions;

  constructor(options: DeletionOptions) {
    this.#options = options;
  }

  readonly deleteAgent: Operation<'deleteAgent'> = async (caller, { agentId }) => {
    const { database, log, targets, wakes } = this.#options;
    const found = await targets.commandable(caller, agentId, 'others');
    if (isRefusal(found)) return found;
    const { tenant, id } = found;
    const refused = await this.#mark(caller, { tenant, id });
    if (refused) return refused;
    // A larger tree is marked by maintenance.
    await markDeletedBelow(database, [tenant], [id], agentsPerMark);
    log.info({ tenant, agent: id, path: found.path, by: nameOf(caller) }, 'agent deleted');
    wakes.perform([{ type: 'deleted', tenant }]);
    return {};
  };

  /** The agents below are looked at in a statement after the lock: none can begin once the one above is locked. */
  async #mark(caller: Principal, { tenant, id }: AgentKey): Promise<Refusal | null> {
    const client = await this.#options.database.connect();
    try {
      await begin(client);
      const [row] = await lockDeletable(client, tenant, id);
      const refused = row ? await refuse(client, row) : notFound('the agent does not exist');
      if (!refused) await markDeleted(client, tenant, id, nameOf(caller), caller.keyId);
      await client.query(refused ? 'ROLLBACK' : 'COMMIT');
      client.release();
      return refused;
    } catch (error) {
      await rollBack(client, error);
      throw error;
    }
  }
}

async function refuse(
  client: pg.PoolClient,
  { tenant, id, phase, root, path, is_closed: isClosed }: Awaited<ReturnType<typeof lockDeletable>>[number],
): Promise<Refusal | null> {
  if (isClosed) return tenantClosed();
  if (!isTerminal(phase))
    return precondition('AGENT_LIVE', path, `the agent ${path} has not ended; kill it first`);
  const [below] = await countLiveDescendants(client, [tenant], [root], [id]);
  const live = below?.live ?? 0;
  if (live === 0) return null;
  const text =
    live === 1
      ? `1 agent below ${path} has not ended; kill it first`
      : `${live} agents below ${path} have not ended; kill them first`;
  return precondition('AGENT_LIVE', path, text);
}

/** Deletes what marked agents have. `inBatches` repeats a batch until it finds less than it may take, with pauses. */
export async function eraseDeleted(
  database: pg.Pool,
  inBatches: (batch: (most: number) => Promise<number>) => Promise<boolean>,
): Promise<void> {
  const count = ([row]: readonly { deleted: number }[]): number => row?.deleted ?? 0;
  for (;;) {
    const agents = await findUnerased(database, agentsPerLook);
    if (agents.length === 0) return;
    const keys = keyColumns(agents);
    if (!(await inBatches((most) => markDeletedBelow(database, ...keys, most).then(count)))) return;
    if (!(await inBatches((most) => meterRunsOf(database, agents, most)))) return;
    for (const { erase, most: few } of erasures) {
      const isDone = await inBatches(async (most) => {
        const erased = count(await erase(database, ...keys, few ?? most));
        return few === undefined ? erased : erased === few ? most : 0;
      });
      if (!isDone) return;
    }
    await finishErasure(database, ...keys);
    if (agents.length < agentsPerLook) return;
  }
}
