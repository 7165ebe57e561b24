import type { AgentStatus, MusterClient } from '@muster/sdk';
import {
  type AgentEntry,
  isTerminal,
  pathOf,
  savedText,
  statusText,
  unpushedText,
} from '@muster/sdk/contract';

type Killed = AgentEntry | AgentStatus;

/** The agents that a kill of this one ends: itself unless it has ended, and every live one below, parents first. */
export async function killedAgents(
  client: MusterClient,
  status: AgentStatus,
  signal: AbortSignal,
): Promise<Killed[]> {
  const below: AgentEntry[] = [];
  const filter = { parent: status.agentId, account: '*', allDepths: true };
  for await (const child of client.listAll(filter, { signal })) below.push(child);
  // The list is newest first.
  return [...(isTerminal(status.phase) ? [] : [status]), ...below.reverse()];
}

const hasWork = ({ unpushed }: Killed): boolean =>
  unpushedText(unpushed) !== '' || unpushed?.isSaved === false;

/** What its turn has changed is counted when it is saved. */
const mayHaveMore = ({ phase }: Killed): boolean => phase === 'PHASE_RUNNING';

/** `; unpushed: 2 commits, 3 changed files, saved 4m ago`; empty if everything is pushed. */
const workText = (agent: Killed): string =>
  hasWork(agent)
    ? `; unpushed: ${[unpushedText(agent.unpushed), savedText(agent)].filter(Boolean).join(', ')}`
    : '';

/** What a kill destroys, before it: a line per agent. */
export function killLines(status: AgentStatus, killed: readonly Killed[]): string[] {
  const textOf = (agent: Killed) => `${pathOf(agent.agentId)} (${statusText(agent)}${workText(agent)})`;
  const below = killed.filter((agent) => agent !== status);
  return [
    `This ends ${textOf(status)}${below.length > 0 ? ' and' : '.'}`,
    ...below.map((agent) => `  ${textOf(agent)}`),
    ...(killed.some(mayHaveMore)
      ? ['A turn in progress may have changed more than its last checkpoint shows.']
      : []),
    ...(killed.some((agent) => hasWork(agent) || mayHaveMore(agent))
      ? ['Of unpushed work only a last checkpoint is kept (muster work), for 30 days.']
      : []),
  ];
}

/** What a kill has destroyed: the unpushed work, and where the rest of it is. */
export const killedNotes = (killed: readonly Killed[]): string[] =>
  killed
    .filter((agent) => hasWork(agent) || mayHaveMore(agent))
    .map((agent) => {
      const { agentId, unpushed } = agent;
      const path = pathOf(agentId);
      const work = hasWork(agent)
        ? `had unpushed work (${unpushedText(unpushed) || 'files'})`
        : 'may have had unpushed work';
      return `${path} ${work}; muster work ${agentId.workspace}:${path} downloads its last checkpoint`;
    });
