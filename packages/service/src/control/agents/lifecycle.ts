import { invalid, isRefusal } from '../../domain/refusal.ts';
import { isOwner } from '../access/permit.ts';
import { nameOf } from '../access/principal.ts';
import type { Operation } from '../operation.ts';
import { nameAgent } from './identify.ts';
import { type CommandOptions, sendCommand } from './send-command.ts';

/** Stopping, ending, retrying, reopening and labelling one agent, and its budget. */
export class Lifecycle {
  readonly #options: CommandOptions;

  constructor(options: CommandOptions) {
    this.#options = options;
  }

  readonly stopTurn: Operation<'stopTurn'> = async (caller, { agentId, runId, mode }) => {
    if (runId === undefined) return invalid('runId', "is required: the agent's runCount, from its status");
    const kind = mode === 'STOP_TURN_MODE_KILL' ? 'KILL' : 'INTERRUPT';
    return sendCommand(this.#options, caller, agentId, { type: 'stop', runId: Number(runId), kind });
  };

  readonly kill: Operation<'kill'> = (caller, { agentId }) => {
    const { ownerProvider, account } = nameAgent(agentId, caller);
    const isOwn = isOwner(caller, { ownerProvider, account });
    const by = isOwn ? undefined : { name: nameOf(caller), keyId: caller.keyId };
    return sendCommand(this.#options, caller, agentId, { type: 'kill', by });
  };

  readonly retry: Operation<'retry'> = (caller, { agentId }) =>
    sendCommand(this.#options, caller, agentId, { type: 'retry' });

  readonly reopen: Operation<'reopen'> = (caller, { agentId }) =>
    sendCommand(this.#options, caller, agentId, { type: 'reopen' });

  readonly setBudget: Operation<'setBudget'> = async (caller, { agentId, budgetUsd, remove = false }) => {
    if (remove === (budgetUsd !== undefined))
      return invalid('budgetUsd', 'give either an amount in USD, or remove: true');
    return sendCommand(this.#options, caller, agentId, { type: 'setBudget', budgetUsd: budgetUsd ?? null });
  };

  readonly labels: Operation<'labels'> = async (caller, { agentId, labels = {} }) => {
    const merged = await sendCommand(this.#options, caller, agentId, { type: 'label', labels });
    return isRefusal(merged) ? merged : { labels: merged };
  };
}
