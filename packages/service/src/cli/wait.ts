import type { AgentRef, MusterClient } from '@muster/sdk';
import { compareInt64 } from '@muster/sdk';
import { type AgentStatus, firstLine, type PhaseReason, pathOf, statusText } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodeOfAgent, exitCodes, usageError } from './errors.ts';
import { durationMs } from './input.ts';
import { FollowedEntries, newestSequence } from './logs.ts';
import type { Output, Style } from './output.ts';

type WaitFlags = Flags<'timeout' | 'below' | 'message' | 'run', 'all'>;

export function addWaitCommand(program: Command): void {
  addCommand(
    program,
    'wait [agents...]',
    'wait until an agent needs you; with several agents, the first. Sets the exit code',
    wait,
  )
    .option('--all', 'wait for every agent; the exit code is the first that is not 0')
    .option('--below <agent>', 'wait for the agents below this one instead')
    .option('--message <id>', 'wait until this message is answered')
    .option('--run <number>', 'wait until this turn has ended')
    .option('--timeout <duration>', 'stop waiting after this long, such as 10m');
}

async function wait(invocation: Invocation<WaitFlags>, agents: string[]): Promise<void> {
  const { flags, client, output } = invocation;
  checkCombination(agents, flags);
  const limit = flags.timeout === undefined ? undefined : AbortSignal.timeout(durationMs(flags.timeout));
  const signal = AbortSignal.any([invocation.signal, ...(limit ? [limit] : [])]);
  try {
    // A wait is retried without end. This call fails when the service was unreachable from the start.
    await client().whoami({ signal });
    const isEach = flags.all && flags.below === undefined;
    const waiting = isEach
      ? waitForEach(client(), agents, output, signal)
      : waitForFirst(client(), agents, flags, signal).then((status) => showResult(status, output));
    const whom = flags.below === undefined ? agents.join(', ') : `the agents below ${flags.below}`;
    await output.progress.during(`waiting for ${whom}`, waiting);
  } catch (error) {
    if (limit?.aborted && !invocation.signal.aborted)
      throw new CommandError(`timed out after ${flags.timeout}; still waiting`, exitCodes.timedOut);
    throw error;
  }
}

function checkCombination(agents: readonly string[], { all, below, message, run }: WaitFlags): void {
  const isOfOne = message !== undefined || run !== undefined;
  const problem =
    (agents.length === 0 && below === undefined && 'name an agent, or use --below') ||
    (agents.length > 0 && below !== undefined && 'name agents or use --below, not both') ||
    (message !== undefined && run !== undefined && 'use --message or --run, not both') ||
    (isOfOne && (agents.length !== 1 || all) && '--message and --run need exactly one agent');
  if (problem) throw usageError(problem);
}

function waitForFirst(
  client: MusterClient,
  agents: readonly string[],
  { all, below, message: followUpId, run: runId }: WaitFlags,
  signal: AbortSignal,
): Promise<AgentStatus> {
  const [only] = agents;
  if (below !== undefined) return client.waitMany({ below }, { all, signal });
  return agents.length === 1 && only !== undefined
    ? client.wait(only, { followUpId, runId, signal })
    : client.waitMany(agents, { signal });
}

/** Prints each agent's status as its wait ends. The exit code is the first, in the order given, that is not 0. */
async function waitForEach(
  client: MusterClient,
  agents: readonly string[],
  output: Output,
  signal: AbortSignal,
): Promise<void> {
  const waits = agents.map(async (agent) => {
    const status = await client.wait(agent, { signal });
    output.item(status, () => output.line(statusLine(status, output)));
    return exitCodeOfAgent(status);
  });
  process.exitCode = (await Promise.all(waits)).find((code) => code !== exitCodes.ok) ?? exitCodes.ok;
}

/**
 * Does what --wait and --follow of `spawn`, `send` and `retry` ask: waits until the agent needs attention or has
 * answered a message, or shows its transcript after an entry until then.
 */
export async function waitOrFollow(
  { client, output, signal }: Invocation,
  agent: {
    readonly ref: AgentRef;
    readonly name: string;
    readonly followAfter: string | undefined;
    readonly followUpId?: string;
  },
): Promise<void> {
  const { ref, name, followAfter, followUpId } = agent;
  if (followAfter === undefined) {
    const waiting = client().wait(ref, { followUpId, signal });
    showResult(await output.progress.during(`waiting for ${name}`, waiting), output);
    return;
  }
  const status = await follow(client(), ref, followAfter, output, signal);
  output.note(statusLine(status, output));
  process.exitCode = exitCodeOfAgent(status);
}

function showResult(status: AgentStatus, output: Output): void {
  output.answer(status, () => output.line(statusLine(status, output)));
  process.exitCode = exitCodeOfAgent(status);
}

/** Shows new transcript entries until the agent needs attention and every entry up to then was shown. */
async function follow(
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
    const either = AbortSignal.any([signal, stop.signal]);
    const followed = new FollowedEntries(output);
    const { onPartial } = followed;
    for await (const entry of client.timelineStream(agent, { after, signal: either, onPartial })) {
      followed.show(entry);
      shown = entry.sequence;
      if (isComplete()) return;
    }
  };
  const showing = show();
  // The error is thrown by the await below, or by the wait, which fails for the same reason.
  showing.catch(() => {});
  const status = await client.wait(agent, { signal });
  last = await newestSequence(client, agent, signal);
  if (isComplete()) stop.abort();
  await showing;
  return status;
}

const styles: Readonly<Partial<Record<PhaseReason, Style>>> = {
  QUESTION: 'yellow',
  TASKS_UNFINISHED: 'yellow',
  PROVIDER_LIMIT: 'yellow',
  NO_RUNNER: 'yellow',
  WORKING: 'cyan',
  STARTING: 'cyan',
  BLOCKED: 'red',
  ERROR: 'red',
  FINISHED: 'green',
  KILLED: 'dim',
  PARENT_KILLED: 'dim',
};

export const statusStyle = ({ phaseReason }: Pick<AgentStatus, 'phaseReason'>): Style | undefined =>
  styles[phaseReason];

/** An agent's path, its status, and its question, error or response. */
function statusLine(status: AgentStatus, output: Output): string {
  const detail =
    status.phaseReason === 'BLOCKED'
      ? status.needsInput
      : status.error?.message || status.needsInput || firstLine(status.response);
  const text = output.paint(statusStyle(status), statusText(status));
  return `${pathOf(status.agentId)} ${text}${detail ? `: ${detail}` : ''}`;
}
