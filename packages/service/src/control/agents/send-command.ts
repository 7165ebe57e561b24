import type { AgentIdInput } from '@muster/sdk/contract';
import type { AgentCommand, ReplyTo } from '../../domain/decide.ts';
import { isRefusal, type Refusal } from '../../domain/refusal.ts';
import type { refuseTasks } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import type { Transact } from '../batches/transact.ts';
import type { Targets } from './targets.ts';

/** Commands of callers that are complete without a look into the catalog. */
type PlainCommand = Extract<
  AgentCommand,
  {
    type:
      | 'clear'
      | 'createTasks'
      | 'kill'
      | 'label'
      | 'order'
      | 'remove'
      | 'reopen'
      | 'retry'
      | 'setBudget'
      | 'stop'
      | 'updateTask';
  }
>;

export interface CommandOptions {
  readonly targets: Targets;
  readonly transact: Transact;
}

/** Sends an agent a command that needs nothing but the agent itself. */
export async function sendCommand<C extends PlainCommand>(
  { targets, transact }: CommandOptions,
  caller: Principal,
  agentId: AgentIdInput | undefined,
  command: C,
  refuse?: typeof refuseTasks,
): Promise<ReplyTo<C> | Refusal> {
  const identity = await targets.command(caller, agentId, refuse);
  return isRefusal(identity) ? identity : transact.command<ReplyTo<C>>({ identity }, command);
}
