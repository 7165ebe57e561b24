import {
  type AgentEntry,
  type AgentIdInput,
  type AgentStatus,
  needsAttention,
  type Phase,
  phases,
  type WaitRequest,
} from '@muster/sdk/contract';
import { isRefusal, type Refusal } from '../../control/refusal.ts';
import type { Waited } from '../../control/waits.ts';
import { EdgeError } from '../errors.ts';
import { entryData, newsData, newsText } from './fleet-wording.ts';
import { nameOfAgent } from './named-agent.ts';
import { bodyFor, type Said, type ToolCall } from './tool.ts';
import { childLine } from './wording.ts';

/** Waits until one of the agents needs attention, or all of them do, or the time is over; and says how each stands. */
export async function waitForAgents(
  call: ToolCall,
  agentIds: AgentIdInput[],
  { forAll, timeoutMs }: { readonly forAll: boolean; readonly timeoutMs: number },
): Promise<Said | Refusal> {
  const { context, caller } = call;
  const { control, openReplies } = context;
  const { agentIds: wanted = [] } = bodyFor(caller, 'waitMany', { agentIds });
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = AbortSignal.any([call.signal, timeout]);
  const closed = openReplies.open(caller, 'wait', wanted.length);
  try {
    for (;;) {
      const statuses = await each(wanted, (agentId) => control.status(caller, agentId));
      if (isRefusal(statuses)) return statuses;
      const working = statuses.filter(({ phase }) => !needsAttention(phase));
      const isOver = working.length === 0 || (!forAll && working.length < statuses.length);
      if (isOver || timeout.aborted)
        return tell(
          call,
          statuses.filter(({ phase }) => needsAttention(phase)),
          working,
        );
      const watched = await each(working, ({ agentId }) => control.find(caller, agentId));
      if (isRefusal(watched)) return watched;
      await control.waits.wait(caller, { agents: watched }, signal);
      if (call.signal.aborted) throw cutShort(call.signal);
    }
  } finally {
    closed();
  }
}

/** The same for the agents below one: it tells about the one that settled, and lists the others. */
export async function waitBelow(
  call: ToolCall,
  above: AgentIdInput,
  { forAll, timeoutMs }: { readonly forAll: boolean; readonly timeoutMs: number },
): Promise<Said | Refusal> {
  const { context, caller } = call;
  const { control } = context;
  const { below } = bodyFor(caller, 'waitMany', { below: above });
  const found = await control.find(caller, below, 'below');
  if (isRefusal(found)) return found;
  const status = await waitOnce(call, { below: found, all: forAll }, timeoutMs);
  if (isRefusal(status)) return status;
  // The agent itself is the reply where there is none below it.
  if (!status.timedOut && status.agentId.agent.join('/') === found.path)
    return { text: `There are no agents below ${nameOfAgent(status.agentId)}.`, data: noNews };
  const listed = (wanted: Phase[]) => {
    const list = { parentId: below, account: '*', allDepths: true, phases: wanted, includeTerminal: true };
    return control.lists.page(caller, bodyFor(caller, 'list', { ...list, pageSize: mostShown }));
  };
  const [working, settled] = [await listed(workingPhases), await listed(settledPhases)];
  if (isRefusal(working)) return working;
  if (isRefusal(settled)) return settled;
  const told = status.timedOut ? [] : [status];
  const isTold = ({ agentId }: AgentEntry) =>
    told.some((one) => nameOfAgent(one.agentId) === nameOfAgent(agentId));
  return tell(
    call,
    told,
    working.entries,
    settled.entries.filter((entry) => !isTold(entry)),
  );
}

const noNews = { settled: [], working: [] };
const workingPhases = phases.filter((phase) => phase !== 'PHASE_UNSPECIFIED' && !needsAttention(phase));
const settledPhases = phases.filter(needsAttention);
/** Of the agents below one, as many as are listed of those that work and of the others. */
const mostShown = 100;

/** Waits for the answer to a message or for the end of a run; false when the time is over. */
export async function waitForAnswer(
  call: ToolCall,
  asked: Pick<WaitRequest, 'agentId' | 'followUpId'> & { readonly runId: number | undefined },
  timeoutMs: number,
): Promise<boolean | Refusal> {
  const { agentId, followUpId = '' } = bodyFor(call.caller, 'wait', asked);
  const agent = await call.context.control.find(call.caller, agentId);
  if (isRefusal(agent)) return agent;
  const { runId } = asked;
  const status = await waitOnce(
    call,
    runId === undefined ? { agent, followUpId } : { agent, runId },
    timeoutMs,
  );
  return isRefusal(status) ? status : !status.timedOut;
}

async function waitOnce(
  { context, caller, signal }: ToolCall,
  waited: Waited,
  timeoutMs: number,
): Promise<AgentStatus | Refusal> {
  const closed = context.openReplies.open(caller, 'wait');
  try {
    const status = await context.control.waits.wait(caller, waited, signal, timeoutMs);
    if (status === null) throw cutShort(signal);
    return status;
  } finally {
    closed();
  }
}

async function each<T, R>(
  items: readonly T[],
  ask: (item: T) => Promise<R | Refusal>,
): Promise<R[] | Refusal> {
  const answers = await Promise.all(items.map(ask));
  return answers.find(isRefusal) ?? (answers as R[]);
}

/** Tells about those that settled, and lists who still works, and others that settled. */
function tell(
  { caller }: ToolCall,
  settled: readonly AgentStatus[],
  working: readonly (AgentStatus | AgentEntry)[],
  others: readonly AgentEntry[] = [],
): Said {
  const section = (title: string, agents: readonly (AgentStatus | AgentEntry)[]) =>
    agents.length > 0 &&
    [title, ...agents.map((agent) => childLine(nameOfAgent(agent.agentId), agent))].join('\n');
  const none = others.length > 0 ? '.' : ', and none needs attention yet.';
  const sections = [
    settled.length === 0 && `The time is over${none}`,
    ...settled.map(newsText),
    section('Still at work:', working),
    section('The others:', others),
  ];
  return {
    text: sections.filter(Boolean).join('\n\n'),
    data: {
      settled: [
        ...settled.map((status) => newsData(caller, status)),
        ...others.map((entry) => entryData(caller, entry)),
      ],
      working: working.map(({ agentId }) => nameOfAgent(agentId)),
    },
  };
}

const cutShort = (signal: AbortSignal): EdgeError =>
  signal.reason === 'closing'
    ? new EdgeError('UNAVAILABLE', 'the service is shutting down; wait again')
    : new EdgeError('CANCELLED', 'the client went away, or its key stopped working');
