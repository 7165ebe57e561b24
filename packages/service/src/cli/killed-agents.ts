import type { AgentStatus, MusterClient } from '@muster/sdk';
import {
  type AgentEntry,
  agentPage,
  isTerminal,
  pathOf,
  savedText,
  statusText,
  unpushedText,
} from '@muster/sdk/contract';
import { agentCount } from './several-agents.ts';

type Killed = AgentEntry | AgentStatus;

/** What a kill of an agent ends: itself unless it has ended, and every live one below, parents first. */
export interface Kill {
  readonly status: AgentStatus;
  readonly killed: readonly Killed[];
}

export async function killOf(client: MusterClient, status: AgentStatus, signal: AbortSignal): Promise<Kill> {
  const below: AgentEntry[] = [];
  const filter = { parent: status.agentId, account: '*', allDepths: true };
  for await (const child of client.listAll(filter, { signal })) below.push(child);
  // The list is newest first.
  return { status, killed: [...(isTerminal(status.phase) ? [] : [status]), ...below.reverse()] };
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

const agentText = (agent: Killed): string =>
  `${pathOf(agent.agentId)} (${statusText(agent)}${workText(agent)})`;

const queuedOf = (agent: Killed): number => ('queued' in agent ? agent.queued : agent.followUps.length);

/** Without kills of an agent that another one ends too. */
function separate(kills: readonly Kill[]): Kill[] {
  const byAgent = new Map(kills.map((kill) => [agentPage(kill.status.agentId), kill]));
  const isOwn = (kill: Kill, agent: Killed) => agentPage(agent.agentId) === agentPage(kill.status.agentId);
  const ended = [...byAgent.values()].flatMap((kill) => kill.killed.filter((agent) => !isOwn(kill, agent)));
  return [...byAgent.values()].filter((kill) => !ended.some((agent) => isOwn(kill, agent)));
}

/** What kills destroy, before them: a line per agent, then what is lost. */
export function killLines(kills: readonly Kill[]): string[] {
  const trees = separate(kills);
  const killed = trees.flatMap((kill) => kill.killed);
  const queued = killed.reduce((sum, agent) => sum + queuedOf(agent), 0);
  return [
    ...trees.flatMap(treeLines),
    ...(killed.some(mayHaveMore)
      ? ['A turn in progress may have changed more than its last checkpoint shows.']
      : []),
    ...(killed.some((agent) => hasWork(agent) || mayHaveMore(agent))
      ? ['Unpushed work is kept only in a last checkpoint, for 30 days: download it with muster work.']
      : []),
    ...(queued > 0 ? [`${queued} undelivered message${queued === 1 ? '' : 's'} will be cleared.`] : []),
  ];
}

function treeLines({ status, killed }: Kill): string[] {
  const below = killed.filter((agent) => agent !== status);
  const count = `${agentCount(below.length)} below it`;
  const first = isTerminal(status.phase)
    ? `${agentText(status)} has already ended. This ends ${count}:`
    : `This ends ${agentText(status)}${below.length > 0 ? ` and ${count}:` : '.'}`;
  return [first, ...below.map((agent) => `  ${agentText(agent)}`)];
}

/** The unpushed work of killed agents, and where the rest of it is. */
export const killedNotes = ({ killed }: Kill): string[] =>
  killed
    .filter((agent) => hasWork(agent) || mayHaveMore(agent))
    .map((agent) => {
      const { agentId, unpushed } = agent;
      const path = pathOf(agentId);
      const work = hasWork(agent)
        ? `had unpushed work (${unpushedText(unpushed) || 'files that are not saved'})`
        : 'may have had unpushed work';
      return `${path} ${work}; muster work ${agentId.workspace}:${path} downloads its last checkpoint`;
    });
