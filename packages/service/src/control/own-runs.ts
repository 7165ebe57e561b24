import {
  type AgentStatus,
  type AskRequest,
  type FailRequest,
  type FinishRequest,
  needsAttention,
} from '@muster/sdk/contract';
import type pg from 'pg';
import type { Identity } from '../domain/agent.ts';
import { denied, invalid, isRefusal, type Refusal } from '../domain/refusal.ts';
import type { AgentKey } from '../store/agent-store.ts';
import { readUnseenChildren } from '../store/statements/find-agents.ts';
import { nameAgent, refuseEmptyPath } from './identify.ts';
import { refuseOthers } from './permit.ts';
import type { Principal } from './principal.ts';
import type { Reads } from './read.ts';
import type { Transact } from './transact.ts';

type Done = Record<string, never>;

/** What a live run says of itself, and what it has learned of its children. */
export class OwnRuns {
  readonly #database: pg.Pool;
  readonly #transact: Transact;
  readonly #reads: Reads;

  constructor(database: pg.Pool, transact: Transact, reads: Reads) {
    this.#database = database;
    this.#transact = transact;
    this.#reads = reads;
  }

  async ask(caller: Principal, request: AskRequest): Promise<Done | Refusal> {
    const { question = '' } = request;
    if (question.trim() === '') return invalid('question', 'say what you need to know');
    const run = runOf(caller, request.agentId);
    if (isRefusal(run)) return run;
    return this.#transact.command<Done>({ key: run.key }, { type: 'ask', runId: run.number, question });
  }

  async finish(caller: Principal, request: FinishRequest): Promise<Done | Refusal> {
    const run = runOf(caller, request.agentId);
    if (isRefusal(run)) return run;
    const { text = '' } = request;
    return this.#transact.command<Done>({ key: run.key }, { type: 'finish', runId: run.number, text });
  }

  async fail(caller: Principal, request: FailRequest): Promise<Done | Refusal> {
    const { message = '' } = request;
    if (message.trim() === '') return invalid('message', "say why the work can't be done");
    const run = runOf(caller, request.agentId);
    if (isRefusal(run)) return run;
    return this.#transact.command<Done>({ key: run.key }, { type: 'fail', runId: run.number, message });
  }

  /** A parent that looks at a settled child with its own key has learned of it. */
  async acknowledge(caller: Principal, identity: Identity, status: AgentStatus): Promise<void> {
    const own = caller.role === 'agent' ? caller.agent : null;
    if (!own?.id || !needsAttention(status.phase) || status.agentId.agent.length !== own.path.length + 1)
      return;
    const child = await this.#reads.find({ ...identity, workspace: status.agentId.workspace });
    if (isRefusal(child)) return;
    await this.#transact.command(
      { key: { tenant: own.tenant, id: own.id } },
      { type: 'acknowledgeChild', child: child.id },
    );
  }

  /** The paths of the children that settled during the run and that it has not looked at. */
  async unseenChildren(caller: Principal): Promise<(readonly string[])[]> {
    const own = caller.role === 'agent' ? caller.agent : null;
    if (!own?.id) return [];
    const rows = await readUnseenChildren(this.#database, own.tenant, own.id);
    return rows.map(({ path }) => path.split('/'));
  }
}

/** The run whose key this is, if the request names its own agent. */
function runOf(
  caller: Principal,
  agentId: AskRequest['agentId'],
): { key: AgentKey; number: number } | Refusal {
  const agent = nameAgent(agentId, caller);
  const refused = refuseEmptyPath(agent) ?? refuseOthers(caller, agent);
  if (refused) return refused;
  const { agent: own, run } = caller;
  if (!own?.id || run === undefined) return denied('only a run may do this, and for its own agent');
  return { key: { tenant: own.tenant, id: own.id }, number: run };
}
