import {
  type AgentEntry,
  type AgentIdInput,
  type AgentStatus,
  needsAttention,
  phases,
} from '@muster/sdk/contract';
import type { Waited } from '../../control/waits.ts';
import { withChange } from '../../lib/change.ts';
import { HttpError } from '../errors.ts';
import {
  childId,
  entryData,
  identityData,
  nameOfAgent,
  nameOfChild,
  ownId,
  section,
  statusLine,
  summaryData,
  summaryText,
} from './text.ts';
import { callRoute, checkedBody, type ToolCall, type ToolReply, unlessRefused } from './tool.ts';

export const waitTimeout = (maximum: number) =>
  ({ type: 'number', minimum: 0, maximum, description: `Default 50, at most ${maximum}.` }) as const;

interface WaitOptions {
  readonly all: boolean;
  readonly timeoutMs: number;
}

const find = async ({ context, caller }: ToolCall, agentId: AgentIdInput | undefined, field?: string) =>
  unlessRefused(await context.control.find(caller, agentId, field));

/** Waits for one condition. Returns the status that `wait` returns over HTTP. */
async function wait(
  { context, caller, signal }: ToolCall,
  waited: Waited,
  timeoutMs: number,
): Promise<AgentStatus> {
  const close = context.openReplies.open(caller, 'wait', 'agents' in waited ? waited.agents.length : 1);
  try {
    const status = await context.control.waits.wait(caller, waited, signal, timeoutMs);
    if (status === null) throw abortedError(signal, 'the client disconnected, or its key stopped working');
    return unlessRefused(status);
  } finally {
    close();
  }
}

const abortedError = (signal: AbortSignal, message: string): HttpError =>
  signal.reason === 'closing'
    ? new HttpError('UNAVAILABLE', 'the service is shutting down; wait again')
    : new HttpError('CANCELLED', message);

/** Waits until one agent needs attention, or all of them do, and reports the status of each. */
export async function waitForAgents(
  call: ToolCall,
  ids: AgentIdInput[],
  { all, timeoutMs }: WaitOptions,
): Promise<ToolReply> {
  const { agentIds = [] } = checkedBody(call.caller, 'waitMany', { agentIds: ids });
  const agents = await Promise.all(agentIds.map((agentId) => find(call, agentId)));
  const deadlineMs = Date.now() + timeoutMs;
  for (;;) {
    const { timedOut } = await wait(call, { agents, all }, deadlineMs - Date.now());
    const statuses = await Promise.all(agentIds.map((agentId) => callRoute(call, 'status', { agentId })));
    const settled = statuses.filter(({ phase }) => needsAttention(phase));
    const working = statuses.filter(({ phase }) => !needsAttention(phase));
    // An agent may have started to work again since the wait ended.
    if (timedOut || working.length === 0 || (!all && settled.length > 0))
      return report(call, settled, working);
  }
}

/** The same for all agents below one. Of those that settled, only the last is reported in full. */
export async function waitBelow(
  call: ToolCall,
  parent: AgentIdInput,
  { all, timeoutMs }: WaitOptions,
): Promise<ToolReply> {
  const { below } = checkedBody(call.caller, 'waitMany', { below: parent });
  const found = await find(call, below, 'below');
  const status = await wait(call, { below: found, all }, timeoutMs);
  // If there are no agents below it, the reply is the agent itself.
  if (!status.timedOut && status.agentId.agent.join('/') === found.path)
    return {
      text: `There are no agents below ${nameOfAgent(status.agentId)}.`,
      data: { settled: [], working: [] },
    };
  const list = async (isSettled: boolean) => {
    const wanted = phases.filter(
      (phase) => phase !== 'PHASE_UNSPECIFIED' && needsAttention(phase) === isSettled,
    );
    const filter = { account: '*', allDepths: true, includeTerminal: true, pageSize: maxListed };
    return (await callRoute(call, 'list', { ...filter, parentId: below, phases: wanted })).entries;
  };
  const [working, settled] = [await list(false), await list(true)];
  const shown = status.timedOut ? [] : [status];
  const isShown = ({ agentId }: AgentEntry) =>
    shown.some((one) => nameOfAgent(one.agentId) === nameOfAgent(agentId));
  const others = settled.filter((entry) => !isShown(entry));
  return report(call, shown, working, others);
}

/** The most agents below one that are listed as working, and the most as settled. */
const maxListed = 100;

/** Describes the agents that settled, and lists those that work and other agents. */
function report(
  { caller }: ToolCall,
  settled: readonly AgentStatus[],
  working: readonly (AgentStatus | AgentEntry)[],
  others: readonly AgentEntry[] = [],
): ToolReply {
  const line = (agent: AgentStatus | AgentEntry) => statusLine(nameOfAgent(agent.agentId), agent);
  const sections = [
    settled.length === 0 && `Timed out.${others.length > 0 ? '' : ' No agent needs attention yet.'}`,
    ...settled.map((status) => summaryText(nameOfAgent(status.agentId), status)),
    section('Still working:', working.map(line)),
    section('Other agents:', others.map(line)),
  ];
  return {
    text: sections.filter(Boolean).join('\n\n'),
    data: {
      settled: [
        ...settled.map((status) => summaryData(identityData(caller, status.agentId), status)),
        ...others.map((entry) => entryData(caller, entry)),
      ],
      working: working.map(({ agentId }) => nameOfAgent(agentId)),
    },
  };
}

/** Waits for the answer to a message, or for the end of a run. False if the time ran out. */
export async function waitForAnswer(
  call: ToolCall,
  request: { agentId: AgentIdInput; followUpId: string | undefined; runId: number | undefined },
  timeoutMs: number,
): Promise<boolean> {
  const { agentId, followUpId = '' } = checkedBody(call.caller, 'wait', request);
  const agent = await find(call, agentId);
  const { runId } = request;
  const waited = runId === undefined ? { agent, followUpId } : { agent, runId };
  return !(await wait(call, waited, timeoutMs)).timedOut;
}

/**
 * Waits for children of the calling agent. A child that settles changes its parent in the same commit, so it is enough
 * to watch the parent. What is reported here causes no further run of the parent.
 */
export async function waitForChildren(
  call: ToolCall,
  names: readonly string[] | undefined,
  timeoutMs: number,
): Promise<ToolReply> {
  const { context, caller, signal } = call;
  const own = caller.agent;
  if (!own?.id) throw new HttpError('NOT_FOUND', 'the agent does not exist');
  const close = context.openReplies.open(caller, 'wait');
  const key = { tenant: own.tenant, id: own.id };
  const watch = (wake: () => void) => context.control.wakes.watchAgent(key, wake);
  const deadlineMs = Date.now() + timeoutMs;
  return withChange(signal, watch, async (change) => {
    for (;;) {
      const children = await childrenOf(call, names);
      const unseen = await unseenAmong(call, children);
      if (unseen.length > 0 || children.every(({ phase }) => needsAttention(phase)))
        return reportChildren(call, children, unseen);
      const leftMs = deadlineMs - Date.now();
      if (leftMs <= 0) return reportChildren(call, children, [], 'Timed out. ');
      await change.within(leftMs);
      if (signal.aborted) throw abortedError(signal, 'your run has ended');
    }
  }).finally(close);
}

/** The named children, or all of them. */
async function childrenOf(call: ToolCall, names: readonly string[] | undefined): Promise<AgentEntry[]> {
  const { caller } = call;
  const request = { parentId: ownId(caller), includeTerminal: true };
  const all = (await callRoute(call, 'list', request)).entries.toReversed();
  if (!names) return all;
  const wanted = new Map(names.map((name) => [childId(caller, name).agent?.join('/'), name]));
  const children = all.filter(({ agentId }) => wanted.delete(agentId.agent.join('/')));
  for (const missing of wanted.values())
    throw new HttpError('NOT_FOUND', `you have no child "${missing}"; list_children shows them`);
  return children;
}

/** The children that settled during this run, and whose status it has not read since. */
async function unseenAmong({ context, caller }: ToolCall, children: readonly AgentEntry[]) {
  const unseen = new Set(
    (await context.control.ownRuns.unseenChildren(caller)).map((path) => path.join('/')),
  );
  return children.filter(
    ({ agentId, phase }) => unseen.has(agentId.agent.join('/')) && needsAttention(phase),
  );
}

async function reportChildren(
  call: ToolCall,
  children: readonly AgentEntry[],
  unseen: readonly AgentEntry[],
  prefix = '',
): Promise<ToolReply> {
  const nameOf = ({ agentId }: Pick<AgentEntry, 'agentId'>) => nameOfChild(call.caller, agentId.agent);
  const line = (entry: AgentEntry) => statusLine(nameOf(entry), entry);
  // Reading a status marks it as seen.
  const news = await Promise.all(unseen.map(({ agentId }) => callRoute(call, 'status', { agentId })));
  const others = children.filter((entry) => !unseen.includes(entry));
  const working = others.filter(({ phase }) => !needsAttention(phase));
  const settled = others.filter(({ phase }) => needsAttention(phase));
  const sections = [
    ...news.map((status) => summaryText(nameOf(status), status)),
    section('Still working:', working.map(line)),
    section(news.length + working.length > 0 ? 'Other children:' : 'No child is working:', settled.map(line)),
  ].filter(Boolean);
  return {
    text: children.length === 0 ? 'You have no children.' : `${prefix}${sections.join('\n\n')}`,
    data: {
      news: news.map((status) => summaryData({ child: nameOf(status) }, status)),
      working: working.map(nameOf),
      settled: settled.map((entry) => ({
        child: nameOf(entry),
        phase: entry.phase,
        reason: entry.phaseReason,
      })),
    },
  };
}
