import type { AgentIdInput, AgentStatus } from '@muster/sdk/contract';
import type { Principal } from '../../control/principal.ts';
import type { Refusal } from '../../control/refusal.ts';
import { bodyFor, type ToolCall } from './tool.ts';

/** How an agent names itself and those below it. */

const ownPath = (caller: Principal): readonly string[] => caller.agent?.path ?? [];

export const selfId = (caller: Principal): AgentIdInput => below(caller, []);

/**
 * The agent below the caller that a model means: by its name, by a path from the caller (`api/tests`), or by its whole
 * path, which is how messages about it name it.
 */
export function childId(caller: Principal, name: string): AgentIdInput {
  const own = ownPath(caller);
  const path = name.split('/');
  const isWhole = path.length > own.length && own.every((element, i) => path[i] === element);
  return below(caller, isWhole ? path.slice(own.length) : path);
}

function below(caller: Principal, rest: readonly string[]): AgentIdInput {
  const { provider, org } = caller.tenant;
  return {
    tenant: { provider, org },
    ownerProvider: caller.ownerProvider,
    account: caller.account,
    workspace: caller.agent?.workspace ?? '',
    agent: [...ownPath(caller), ...rest],
  };
}

/** The name by which the caller knows an agent below it. */
export const nameOfChild = (caller: Principal, path: readonly string[]): string =>
  path.slice(ownPath(caller).length).join('/');

export const ownStatus = ({ context, caller }: ToolCall): Promise<AgentStatus | Refusal> =>
  context.control.status(caller, bodyFor(caller, 'status', { agentId: selfId(caller) }).agentId);

/** Looking at a settled child is learning how it ended. */
export const childStatus = ({ context, caller }: ToolCall, name: string): Promise<AgentStatus | Refusal> =>
  context.control.status(caller, bodyFor(caller, 'status', { agentId: childId(caller, name) }).agentId);
