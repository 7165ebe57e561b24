import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import type { UsageRequest, UsageRow } from '../contract/usage.ts';
import { type Caller, type CallSettings, readPages } from './caller.ts';
import { timeText } from './inputs.ts';
import { MemberClient } from './members.ts';
import { type AgentRef, agentIdOf } from './values.ts';

export interface UsageInput extends Omit<UsageRequest, 'from' | 'to'> {
  readonly from?: string | Date | undefined;
  readonly to?: string | Date | undefined;
}

/** What agents used, and what they may spend. */
export class UsageClient extends MemberClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    super(caller);
    this.#caller = caller;
  }

  /** One page, in the order of time and of the values of `groupBy`. */
  usage({ from, to, ...request }: UsageInput = {}, settings: CallSettings = {}): Promise<ReplyOf<'usage'>> {
    return this.#caller.call('usage', { ...request, from: timeText(from), to: timeText(to) }, settings);
  }

  /** All rows, page by page. */
  usageAll(input: UsageInput = {}, settings: CallSettings = {}): AsyncGenerator<UsageRow, void, void> {
    return readPages(input.pageToken, async (pageToken) => {
      const { rows, nextPageToken } = await this.usage({ ...input, pageToken }, settings);
      return { entries: rows, nextPageToken };
    });
  }
  /** The budgets of the catalog, and those of live agents. */
  budgets(request: BodyOf<'budgets'> = {}, settings: CallSettings = {}): Promise<ReplyOf<'budgets'>> {
    return this.#caller.call('budgets', request, settings);
  }

  /** The most that the agent and all agents below it may spend, in USD; null removes the limit. */
  setBudget(
    agent: AgentRef,
    budgetUsd: number | null,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'setBudget'>> {
    const change = budgetUsd === null ? { remove: true } : { budgetUsd };
    return this.#caller.call('setBudget', { agentId: agentIdOf(agent), ...change }, settings);
  }
}
