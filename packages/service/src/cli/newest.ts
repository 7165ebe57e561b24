import type { AgentRef, MusterClient, TimelineEntry } from '@muster/sdk';

/** Behind every sequence there can be. */
const endOfTime = '9223372036854775807';

/** The newest entries of a timeline, oldest of them first. */
export async function newestEntries(
  client: MusterClient,
  agent: AgentRef,
  limit: number,
  signal: AbortSignal,
): Promise<readonly TimelineEntry[]> {
  return (await client.timeline(agent, { before: endOfTime, limit, signal })).entries;
}

export async function newestSequence(
  client: MusterClient,
  agent: AgentRef,
  signal: AbortSignal,
): Promise<string> {
  return (await newestEntries(client, agent, 1, signal)).at(-1)?.sequence ?? '0';
}
