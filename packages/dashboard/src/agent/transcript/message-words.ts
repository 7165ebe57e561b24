import type { MusterClient } from '@muster/sdk';
import type { AgentId } from '@muster/sdk/contract';

const mostPages = 5;

/**
 * A message's words are told once, when it is admitted; one that waited long is delivered far behind them. Goes back
 * from an entry to where this message was admitted, within reason.
 */
export async function findMessageWords(
  client: MusterClient,
  agentId: AgentId,
  followUpId: string,
  before: number,
): Promise<string | undefined> {
  let first = before;
  for (let page = 0; page < mostPages && first > 1; page++) {
    const { entries } = await client.timeline(agentId, {
      before: first,
      types: ['FOLLOW_UP_QUEUED', 'FOLLOW_UP_DEFERRED'],
      limit: 1000,
    });
    const admission = entries.findLast((entry) => entry.followUpId === followUpId && entry.text !== '');
    if (admission) return admission.text;
    first = Number(entries[0]?.sequence ?? 0);
  }
  return undefined;
}
