import type { AgentRef, MusterClient } from '@muster/sdk';
import type { AgentStatus } from '@muster/sdk/contract';
import { exitCodeFor } from './attention.ts';
import { follow } from './follow.ts';
import type { Output } from './output.ts';
import { statusLine } from './status-text.ts';

export interface AttendFlags {
  readonly wait?: boolean;
  readonly follow?: boolean;
}

/**
 * Stays with an agent until it needs attention, or until a message of it was answered, following its transcript after an
 * entry or not; tells its status.
 */
export async function attend(
  client: MusterClient,
  agent: {
    readonly ref: AgentRef;
    readonly name: string;
    readonly followAfter: string | undefined;
    readonly followUpId?: string;
  },
  output: Output,
  signal: AbortSignal,
): Promise<void> {
  const { ref, name, followAfter, followUpId } = agent;
  if (followAfter === undefined) {
    tell(
      await output.waiting.during(`waiting for ${name}`, client.wait(ref, { followUpId, signal })),
      output,
    );
    return;
  }
  const status = await follow(client, ref, followAfter, output, signal);
  output.note(statusLine(status, output));
  process.exitCode = exitCodeFor(status);
}

export function tell(status: AgentStatus, output: Output): void {
  output.answer(status, () => output.line(statusLine(status, output)));
  process.exitCode = exitCodeFor(status);
}
