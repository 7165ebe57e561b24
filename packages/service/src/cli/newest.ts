import type { AgentRef, MusterClient } from '@muster/sdk';

export async function newestSequence(
  client: MusterClient,
  agent: AgentRef,
  signal: AbortSignal,
): Promise<string> {
  return (await client.timelineNewest(agent, { limit: 1, signal })).at(-1)?.sequence ?? '0';
}
