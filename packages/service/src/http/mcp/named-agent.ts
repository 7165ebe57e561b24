import type { AgentId, AgentIdInput } from '@muster/sdk/contract';
import { providerName } from '@muster/sdk/contract';
import { z } from 'zod';
import { accountScope } from '../../control/identify.ts';
import type { Principal } from '../../control/principal.ts';
import { invalid, isRefusal } from '../../control/refusal.ts';
import { throwRefusal } from '../errors.ts';

/** How a user's model names agents: `fix-login/tests`, or `web:fix-login/tests` with the workspace before it. */

export const agentName = z
  .string()
  .min(1)
  .describe('Path from root to leaf, such as "fix-login/tests", or "workspace:fix-login/tests".');

/** What narrows a name down, where several agents have it. */
const whose = {
  workspace: z.string().optional().describe('Only if agents of that name live in several workspaces.'),
  account: z
    .string()
    .optional()
    .describe('Whose agent it is: "name" or "provider_name/name". Default: your own.'),
} as const;

export const oneAgent = { agent: agentName, ...whose } as const;
export const someAgents = (most: number) =>
  ({ agents: z.array(agentName).min(1).max(most).optional(), ...whose }) as const;

export interface Whose {
  readonly workspace?: string | undefined;
  readonly account?: string | undefined;
}

/** The agent that is meant; a name that can mean none is refused. */
export function agentIdOf(caller: Principal, name: string, { workspace, account }: Whose): AgentIdInput {
  const [, before, path = ''] = /^(?:([^:/]*):)?(.*)$/s.exec(name) ?? [];
  if (before && workspace && before !== workspace)
    return throwRefusal(invalid('workspace', `differs from the one in "${name}"; give one of the two`));
  const owner = accountScope(account, caller);
  if (isRefusal(owner)) return throwRefusal(owner);
  if (owner === null || owner.account === null) return throwRefusal(invalid('account', 'name one account'));
  const { ownerProvider, account: named } = owner;
  return {
    ownerProvider,
    account: named,
    workspace: before || workspace,
    agent: path.split('/').filter(Boolean),
  };
}

/** The name by which the tools take an agent. */
export const nameOfAgent = ({ workspace, agent }: Pick<AgentId, 'workspace' | 'agent'>): string =>
  `${workspace}:${agent.join('/')}`;

/** Whose agent it is, unless the caller's own. */
export const otherAccount = (caller: Principal, { ownerProvider, account }: AgentId): string | undefined =>
  ownerProvider === caller.ownerProvider && account === caller.account
    ? undefined
    : `${providerName(ownerProvider)}/${account}`;
