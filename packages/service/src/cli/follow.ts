import { type AgentRef, compareInt64, type MusterClient } from '@muster/sdk';
import type { AgentStatus } from '@muster/sdk/contract';
import { newestSequence } from './newest.ts';
import type { Output } from './output.ts';
import { showEntry } from './transcript.ts';

/** Shows the transcript after an entry as it grows, until the agent needs attention and everything up to then is shown. */
export async function follow(
  client: MusterClient,
  agent: AgentRef,
  after: string,
  output: Output,
  signal: AbortSignal,
): Promise<AgentStatus> {
  const stop = new AbortController();
  let shown = after;
  let last: string | undefined;
  const isComplete = (): boolean => last !== undefined && compareInt64(shown, last) >= 0;
  const show = async (): Promise<void> => {
    const both = AbortSignal.any([signal, stop.signal]);
    for await (const entry of client.timelineStream(agent, { after, signal: both })) {
      showEntry(entry, output);
      shown = entry.sequence;
      if (isComplete()) return;
    }
  };
  const showing = show();
  // What it throws is thrown below, or by the wait, which the service refuses for the same reason.
  showing.catch(() => {});
  const status = await client.wait(agent, { signal });
  last = await newestSequence(client, agent, signal);
  if (isComplete()) stop.abort();
  await showing;
  return status;
}
