import {
  type AgentEntry,
  type AgentIdInput,
  type AgentStatus,
  needsAttention,
  phases,
} from '@muster/sdk/contract';
import type { Refusal } from '../../control/refusal.ts';
import type { Waited } from '../../control/watching/waits.ts';
import type { ReplySignal } from '../../control/watching/wakes.ts';
import { HttpError, unlessRefused } from '../errors.ts';
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
import { callRoute, checkedBody, type ToolCall, type ToolReply } from './tool.ts';

export const waitTimeout = (maximum: number) =>
  ({ type: 'number', minimum: 0, maximum, description: `Default 50, at most ${maximum}.` }) as const;

interface WaitOptions {
  readonly all: boolean;
  readonly timeoutMs: number;
}

/** Waits for one condition. Returns the status that `wait` returns over HTTP. */
async function wait(
  { context, caller, signal }: ToolCall,
  found: Waited | Refusal,
  timeoutMs: number,
): Promise<AgentStatus> {
  const waited = unlessRefused(found);
  const close = context.openReplies.open(caller, 'wait', 'agents' in waited ? waited.agents.length : 1);
  const status = await context.control.waits.wait(caller, waited, signal, timeoutMs).finally(close);
  if (status === null) throw abortedError(signal, 'the client disconnected, or its key stopped working');
  return unlessRefused(status);
}

const abortedError = ({ reason }: ReplySignal, message: string): HttpError =>
  reason === 'closing'
    ? new HttpError('UNAVAILABLE', 'the service is shutting down; wait again')
    : new HttpError('CANCELLED', message);

/** Waits until one agent needs attention, or all of them do, and reports the status of each. */
export async function waitForAgents(
  call: ToolCall,
  ids: AgentIdInput[],
  { all, timeoutMs }: WaitOptions,
): Promise<ToolReply> {
  const { context, caller } = call;
  const request = checkedBody(caller, 'waitMany', { agentIds: ids, all });
  const waited = await context.control.waits.waitedAgents(caller, request);
  const deadlineMs = Date.now() + timeoutMs;
  for (;;) {
    const { timedOut } = await wait(call, waited, deadlineMs - Date.now());
    const statuses = await Promise.all(ids.map((agentId) => callRoute(call, 'status', { agentId })));
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
  below: AgentIdInput,
  { all, timeoutMs }: WaitOptions,
): Promise<ToolReply> {
  const { context, caller } = call;
  const waited = await context.control.waits.waitedAgents(
    caller,
    checkedBody(caller, 'waitMany', { below, all }),
  );
  const status = await wait(call, waited, timeoutMs);
  // If there are no agents below it, the reply is the agent itself.
  if (!status.timedOut && status.agentId.agent.join('/') === below.agent?.join('/'))
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
  if (status.timedOut) return report(call, [], working, settled);
  const shown = nameOfAgent(status.agentId);
  const others = settled.filter(({ agentId }) => nameOfAgent(agentId) !== shown);
  return report(call, [status], working, others);
}

/** The most agents that a wait names; and below one, the most that are listed as working, and the most as settled. */
export const maxListed = 100;

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
  const { context, caller } = call;
  const waited = await context.control.waits.waitedTurn(caller, checkedBody(caller, 'wait', request));
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
  let children: AgentEntry[] = [];
  const findUnseen = async () => {
    children = await childrenOf(call, names);
    const unseen = await unseenAmong(call, children);
    return unseen.length > 0 || children.every(({ phase }) => needsAttention(phase)) ? unseen : null;
  };
  const key = { tenant: own.tenant, id: own.id };
  const close = context.openReplies.open(caller, 'wait');
  const unseen = await context.control.waits.whenChanged(key, findUnseen, signal, timeoutMs).finally(close);
  if (unseen === 'aborted') throw abortedError(signal, 'your run has ended');
  return unseen === 'timeout'
    ? reportChildren(call, children, [], 'Timed out. ')
    : reportChildren(call, children, unseen);
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
  // Reading a status marks it as seen.
  const news = await Promise.all(unseen.map(({ agentId }) => callRoute(call, 'status', { agentId })));
  const others = children.filter((entry) => !unseen.includes(entry));
  const working = others.filter(({ phase }) => !needsAttention(phase));
  const settled = others.filter(({ phase }) => needsAttention(phase));
  const line = (entry: AgentEntry) => statusLine(nameOf(entry), entry);
  const sections = [
    ...news.map((status) => summaryText(nameOf(status), status)),
    section('Still working:', working.map(line)),
    section(news.length + working.length > 0 ? 'Other children:' : 'No child is working:', settled.map(line)),
  ];
  return {
    text:
      children.length === 0 ? 'You have no children.' : `${prefix}${sections.filter(Boolean).join('\n\n')}`,
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
