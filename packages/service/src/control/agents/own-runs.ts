import { type AgentStatus, type BodyOf, needsAttention } from '@muster/sdk/contract';
import type pg from 'pg';
import type { AgentCommand } from '../../domain/decide.ts';
import type { Done } from '../../domain/decision.ts';
import { denied, invalid, isRefusal, type Refusal } from '../../domain/refusal.ts';
import { readUnseenChildren } from '../../store/statements/find-agents.ts';
import { refuseOthers } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import type { Transact } from '../batches/transact.ts';
import type { Operation } from '../operation.ts';
import { nameAgent, refuseEmptyPath } from './identify.ts';
import type { Reads } from './read.ts';

/** What a live run declares about its own agent, and which of its children it has seen settle. */
export class OwnRuns {
  readonly #database: pg.Pool;
  readonly #transact: Transact;
  readonly #reads: Reads;

  constructor(database: pg.Pool, transact: Transact, reads: Reads) {
    this.#database = database;
    this.#transact = transact;
    this.#reads = reads;
  }

  readonly ask: Operation<'ask'> = async (caller, { agentId, question = '' }) => {
    if (question.trim() === '') return invalid('question', 'expected a question; it is empty');
    return this.#declare(caller, agentId, (runId) => ({ type: 'ask', runId, question }));
  };

  readonly finish: Operation<'finish'> = (caller, { agentId, text = '' }) =>
    this.#declare(caller, agentId, (runId) => ({ type: 'finish', runId, text }));

  readonly fail: Operation<'fail'> = async (caller, { agentId, message = '' }) => {
    if (message.trim() === '') return invalid('message', "expected why the work can't be done; it is empty");
    return this.#declare(caller, agentId, (runId) => ({ type: 'fail', runId, message }));
  };

  /** Sends a command to the run whose key the caller has, if the request names the run's own agent. */
  async #declare(
    caller: Principal,
    agentId: BodyOf<'ask'>['agentId'],
    command: (runId: number) => AgentCommand,
  ): Promise<Done | Refusal> {
    const agent = nameAgent(agentId, caller);
    const refused = refuseEmptyPath(agent) ?? refuseOthers(caller, agent);
    if (refused) return refused;
    const { agent: own, run } = caller;
    if (!own?.id || run === undefined) return denied('only a run may do this, and for its own agent');
    return this.#transact.command<Done>({ key: { tenant: own.tenant, id: own.id } }, command(run));
  }

  /** A parent that reads a settled child with its own key needs no further run to see it. */
  async acknowledge(caller: Principal, { phase, agentId }: AgentStatus): Promise<void> {
    const own = caller.role === 'agent' ? caller.agent : null;
    if (!own?.id || !needsAttention(phase) || agentId.agent.length !== own.path.length + 1) return;
    const child = await this.#reads.find({
      identity: { ...agentId, tenant: own.tenant, path: agentId.agent },
    });
    if (isRefusal(child)) return;
    await this.#transact.command(
      { key: { tenant: own.tenant, id: own.id } },
      { type: 'acknowledgeChild', child: child.id },
    );
  }

  /** The paths of the children that settled during the run and that it has not read since. */
  async unseenChildren(caller: Principal): Promise<(readonly string[])[]> {
    const own = caller.role === 'agent' ? caller.agent : null;
    if (!own?.id) return [];
    const rows = await readUnseenChildren(this.#database, own.tenant, own.id);
    return rows.map(({ path }) => path.split('/'));
  }
}
