import { setMaxListeners } from 'node:events';
import type { AgentRef, MusterClient, WaitInput } from '@muster/sdk';
import { compareInt64 } from '@muster/sdk';
import {
  type AgentId,
  type AgentStatus,
  firstLine,
  needsAttention,
  noRunnerText,
  pathOf,
  reasonRow,
  statusText,
} from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodeOfAgent, exitCodes, usageError } from './errors.ts';
import { durationMs } from './input.ts';
import { FollowedEntries, MessageTexts, newestSequence } from './logs.ts';
import type { Output, Style } from './output.ts';
import {
  isSelection,
  labelOption,
  noneFits,
  type SelectedAgent,
  type SelectFlags,
  selectAgents,
} from './several-agents.ts';

export const waitOption = ['--wait', 'wait until the agent needs you; sets the exit code'] as const;
export const followOption = ['--follow', 'show the transcript until the agent needs you'] as const;

/** The agent that --wait or --follow is about. */
export function onlyOf(agents: readonly SelectedAgent[], flags: SelectFlags): SelectedAgent {
  const [only] = agents;
  if (agents.length === 1 && only && !isSelection(flags)) return only;
  throw usageError('--wait and --follow need exactly one agent; use muster wait for several');
}

type WaitFlags = Flags<'timeout' | 'below' | 'message' | 'run', 'all', 'label'>;

export function addWaitCommand(program: Command): void {
  addCommand(
    program,
    'wait [agents...]',
    'wait until an agent needs you; with several agents, the first. Sets the exit code',
    wait,
  )
    .option(
      '--all',
      'wait for every agent, without names for all your live agents; the exit code is the first that is not 0',
    )
    .option(...labelOption)
    .option('--below <agent>', 'wait for the agents below this one instead')
    .option('--message <id>', 'wait until this message is answered')
    .option('--run <number>', 'wait until this turn has ended')
    .option(
      '--timeout <duration>',
      'stop waiting after this long, such as 10m; with --all and -o json, the agents that are left have timedOut',
    );
}

async function wait(invocation: Invocation<WaitFlags>, names: string[]): Promise<void> {
  const { flags, client, output } = invocation;
  checkCombination(names, flags);
  const isFound = flags.label !== undefined || (flags.all && names.length + (flags.below?.length ?? 0) === 0);
  const selected = isFound
    ? await selectAgents(invocation, names)
    : names.map((name) => ({ ref: name, name }));
  if (isFound && selected.length === 0) return output.answer([], () => output.note(noneFits));
  const agents = selected.map(({ ref }) => ref);
  const whom =
    flags.below === undefined
      ? selected.map(({ name }) => name).join(', ')
      : `the agents below ${flags.below}`;
  const limit = flags.timeout === undefined ? undefined : AbortSignal.timeout(timeoutMs(flags.timeout));
  const signal = AbortSignal.any([invocation.signal, ...(limit ? [limit] : [])]);
  // Each wait listens; Node warns of more than ten listeners.
  setMaxListeners(0, signal);
  try {
    // A wait is retried without end. This call fails when the service was unreachable from the start.
    await client().whoami({ signal });
    const waiting = flags.all
      ? waitForEach(invocation, selected, signal)
      : waitForFirst(client(), agents, flags, output, signal).then((status) => showResult(status, output));
    await output.progress.during(`waiting for ${whom}`, waiting);
  } catch (error) {
    if (limit?.aborted && !invocation.signal.aborted && !(error instanceof CommandError))
      throw timedOut(flags, whom);
    throw error;
  }
}

/** Timers of Node end immediately when they are set for longer. */
const maxTimerMs = 2 ** 31 - 1;

function timeoutMs(text: string): number {
  const ms = durationMs(text);
  if (ms > maxTimerMs) throw usageError(`--timeout: expected at most 24d; got "${text}"`);
  return ms;
}

const timedOut = ({ timeout }: WaitFlags, whom: string): CommandError =>
  new CommandError(`timed out after ${timeout}; still waiting for ${whom}`, exitCodes.timedOut);

function checkCombination(agents: readonly string[], { all, below, label, message, run }: WaitFlags): void {
  const isOfOne = message !== undefined || run !== undefined;
  const problem =
    (agents.length === 0 &&
      !all &&
      !label &&
      below === undefined &&
      'name an agent, or use --label, --all or --below') ||
    (label && below !== undefined && 'use --label or --below, not both') ||
    (agents.length > 0 && below !== undefined && 'name agents or use --below, not both') ||
    (message !== undefined && run !== undefined && 'use --message or --run, not both') ||
    (isOfOne && (agents.length !== 1 || all) && '--message and --run need exactly one agent');
  if (problem) throw usageError(problem);
}

function waitForFirst(
  client: MusterClient,
  agents: readonly AgentRef[],
  { below, message: followUpId, run: runId }: WaitFlags,
  output: Output,
  signal: AbortSignal,
): Promise<AgentStatus> {
  const [only] = agents;
  if (below !== undefined) return client.waitMany({ below }, { signal });
  return agents.length === 1 && only !== undefined
    ? waitNoting(client, only, { followUpId, runId, signal }, output)
    : client.waitMany(agents, { signal });
}

/**
 * Prints each agent's status as its wait ends; as data all of them at the end, in one list in the order given. The exit
 * code is the first in that order that is not 0. When the signal ends the wait, the list has the other agents with
 * `timedOut`.
 */
async function waitForEach(
  invocation: Invocation<WaitFlags>,
  agents: readonly SelectedAgent[],
  signal: AbortSignal,
): Promise<void> {
  const { flags, client, output } = invocation;
  const show = (status: AgentStatus): AgentStatus => {
    if (output.format === 'table' && !status.timedOut) output.line(statusLine(status, output));
    return status;
  };
  const statuses =
    flags.below === undefined
      ? await Promise.all(
          agents.map(async ({ ref }) => {
            const waited = await untilAborted(client().wait(ref, { signal }), signal);
            return show(waited ?? (await statusNow(invocation, ref)));
          }),
        )
      : (await waitBelow(invocation, flags.below, signal)).map(show);
  output.answer(statuses, () => {
    if (statuses.length === 0) output.note(noneFits);
  });
  const others = statuses.flatMap(({ agentId, timedOut }, at) =>
    timedOut ? [agents[at]?.name ?? pathOf(agentId)] : [],
  );
  if (others.length > 0) throw timedOut(flags, others.join(', '));
  process.exitCode = statuses.map(exitCodeOfAgent).find((code) => code !== exitCodes.ok) ?? exitCodes.ok;
}

/** The agents below this one, oldest first. */
async function waitBelow(
  invocation: Invocation<WaitFlags>,
  below: string,
  until: AbortSignal,
): Promise<AgentStatus[]> {
  const { signal } = invocation;
  const client = invocation.client();
  await untilAborted(client.waitMany({ below }, { all: true, signal: until }), until);
  const { agentId: parent } = await client.status(below, { signal });
  const agents: AgentId[] = [];
  const filter = { parent, account: '*', allDepths: true, includeTerminal: true };
  for await (const { agentId } of client.listAll(filter, { signal })) agents.push(agentId);
  return Promise.all(agents.reverse().map((agentId) => statusNow(invocation, agentId)));
}

const untilAborted = <T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> =>
  work.catch((error: unknown) => {
    if (signal.aborted) return undefined;
    throw error;
  });

/** The status of an agent whose wait has ended. */
async function statusNow({ client, signal }: Invocation, agent: AgentRef): Promise<AgentStatus> {
  const status = await client().status(agent, { signal });
  return { ...status, timedOut: !needsAttention(status.phase) };
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
    const waiting = waitNoting(client(), ref, { followUpId, signal }, output);
    showResult(await output.progress.during(`waiting for ${name}`, waiting), output);
    return;
  }
  const status = await follow(client(), ref, followAfter, output, signal);
  output.note(statusLine(status, output));
  process.exitCode = exitCodeOfAgent(status);
}

/** After how long a wait first looks whether the agent is delayed, and after how long again. */
const firstLookSeconds = 1;
const nextLookSeconds = 5;

/**
 * Waits, and says meanwhile why the agent is delayed, and until when if that is known: its runs fail, its provider limits
 * it, or no runner takes it.
 */
async function waitNoting(
  client: MusterClient,
  agent: AgentRef,
  until: WaitInput,
  output: Output,
): Promise<AgentStatus> {
  let timeoutSeconds = firstLookSeconds;
  for (let noted = ''; ; timeoutSeconds = nextLookSeconds) {
    const status = await client.wait(agent, { ...until, timeoutSeconds });
    if (!status.timedOut) return status;
    const { phase, phaseReason, wakesAt } = status;
    const isDelayed = phase === 'PHASE_PENDING' && (wakesAt !== null || phaseReason === 'NO_RUNNER');
    const note = isDelayed ? statusLine(status, output) : '';
    if (note !== '' && note !== noted) output.note(note);
    noted = note;
  }
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
    const texts = new MessageTexts(client, agent, output, either);
    const { onPartial } = followed;
    for await (const entry of client.timelineStream(agent, { after, signal: either, onPartial })) {
      followed.show(await texts.of(entry));
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

export const statusStyle = (agent: Pick<AgentStatus, 'phase' | 'phaseReason'>): Style | undefined =>
  reasonRow(agent).color;

/** An agent's path, its status, and its question, error or response. */
function statusLine(status: AgentStatus, output: Output): string {
  const detail = detailOf(status);
  const text = output.paint(statusStyle(status), statusText(status));
  return `${pathOf(status.agentId)} ${text}${detail ? `: ${detail}` : ''}`;
}

function detailOf(status: AgentStatus): string {
  const { phaseReason, error, needsInput, response } = status;
  if (phaseReason === 'NO_RUNNER') return noRunnerText(status);
  if (reasonRow(status).needsInput === 'fix')
    return [withoutStop(firstLine(error?.message ?? '')), needsInput].filter(Boolean).join('. ');
  return error?.message || needsInput || firstLine(response);
}

const withoutStop = (text: string): string => text.replace(/\.$/, '');
