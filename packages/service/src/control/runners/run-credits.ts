import type { CreditReply, CreditRequest } from '@muster/sdk/contract';
import type pg from 'pg';
import { budgetAt, isOfAgent } from '../../domain/budget.ts';
import { isRefusal, notFound, type Refusal } from '../../domain/refusal.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import {
  addLedgers,
  budgetOf,
  countLedgers,
  readBudgetsOver,
  type Uncounted,
} from '../../store/statements/budgets.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import type { Transact } from '../batches/transact.ts';

export interface RunCreditsOptions {
  readonly database: pg.Pool;
  readonly tenants: Pick<Tenants, 'agentKey'>;
  readonly transact: Transact;
}

/** How often the spending of budgets is counted for one request: others may change them meanwhile. */
const mostCounts = 5;

/** Reserves money of the budgets for runs. */
export class RunCredits {
  readonly #options: RunCreditsOptions;

  constructor(options: RunCreditsOptions) {
    this.#options = options;
  }

  async reserve(caller: Principal, { agentKey, ...request }: CreditRequest): Promise<CreditReply | Refusal> {
    const { tenants, transact } = this.#options;
    const key = await tenants.agentKey(caller.tenant.id, agentKey);
    if (!key) return notFound('the agent does not exist');
    for (let counts = 0; ; counts += 1) {
      const reply = await transact.command<CreditReply>({ key }, { type: 'credit', ...request });
      const isUncounted = isRefusal(reply) && reply.details.some(({ reason }) => reason === 'NOT_COUNTED');
      if (!isUncounted || counts === mostCounts) return reply;
      await this.#count(key);
    }
  }

  /** Counts what was spent of those budgets over an agent whose window has just begun, or that were changed. */
  async #count({ tenant, id }: AgentKey): Promise<void> {
    const { database } = this.#options;
    const rows = await readBudgetsOver(database, [tenant], [id], [true]);
    const uncounted = rows.flatMap((row): Uncounted[] => {
      const budget = budgetAt(budgetOf(row), row.now);
      if (budget.isCounted) return [];
      const { workspace = '', account = '' } = row.document;
      const agent = isOfAgent(budget) ? budget.key.slice('agent/'.length) : null;
      return [{ tenant, key: budget.key, starts_at: budget.startsAt, agent, workspace, account }];
    });
    if (uncounted.length === 0) return;
    const ledgers = JSON.stringify(uncounted);
    await addLedgers(database, ledgers);
    await countLedgers(database, ledgers);
  }
}
