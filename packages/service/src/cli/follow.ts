import { type AgentRef, compareInt64, type MusterClient } from '@muster/sdk';
import type { AgentStatus } from '@muster/sdk/contract';
import { newestSequence } from './newest.ts';
import type { Output } from './output.ts';
import { entryLines } from './transcript.ts';

/** Shows the transcript after an entry as it grows, until the agent needs attention and everything up to then is shown. */
export async function follow(
  client: MusterClient,
  agent: AgentRef,
  afterSequence: string,
  output: Output,
  signal: AbortSignal,
): Promise<AgentStatus> {
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  let shown = afterSequence;
  const show = async (): Promise<void> => {
    for await (const entry of client.timelineStream(agent, { after: afterSequence, signal: both })) {
      for (const line of entryLines(entry, output)) output.line(line);
      shown = entry.sequence;
    }
  };
  const showing = show();
  const status = await client.wait(agent, { signal });
  const last = await newestSequence(client, agent, signal);
  while (compareInt64(shown, last) < 0 && !signal.aborted) await Promise.race([showing, tick()]);
  stop.abort();
  await showing;
  return status;
}

const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));
