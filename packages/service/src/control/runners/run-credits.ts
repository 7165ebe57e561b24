import type { CreditReply, CreditRequest } from '@muster/sdk/contract';
import type pg from 'pg';
import { isRefusal, notFound, type Refusal } from '../../domain/refusal.ts';
import { keyColumns } from '../../store/agent-store.ts';
import { readBudgetsOver } from '../../store/statements/budgets.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import type { BudgetCounts } from '../agents/budget-counts.ts';
import type { Transact } from '../batches/transact.ts';

export interface RunCreditsOptions {
  readonly database: pg.Pool;
  readonly tenants: Pick<Tenants, 'agentKey'>;
  readonly transact: Transact;
  readonly counts: BudgetCounts;
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
    const { database, tenants, transact, counts } = this.#options;
    const key = await tenants.agentKey(caller.tenant.id, agentKey);
    if (!key) return notFound('the agent does not exist');
    for (let tries = 0; ; tries += 1) {
      const reply = await transact.command<CreditReply>({ key }, { type: 'credit', ...request });
      const isUncounted = isRefusal(reply) && reply.details.some(({ reason }) => reason === 'NOT_COUNTED');
      if (!isUncounted || tries === mostCounts) return reply;
      await counts.counted(key.tenant, () => readBudgetsOver(database, ...keyColumns([key]), [true]));
    }
  }
}
