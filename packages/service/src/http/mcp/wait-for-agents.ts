import { type AgentIdInput, type AgentStatus, needsAttention } from '@muster/sdk/contract';
import { isRefusal, type Refusal } from '../../control/refusal.ts';
import { EdgeError } from '../errors.ts';
import { newsData, newsText } from './fleet-wording.ts';
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
      if (isOver || timeout.aborted) return tell(call, statuses);
      const watched = await each(working, ({ agentId }) => control.find(caller, agentId));
      if (isRefusal(watched)) return watched;
      await control.waits.wait(caller, { agents: watched }, signal);
      if (call.signal.aborted) throw cutShort(call.signal);
    }
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

function tell({ caller }: ToolCall, statuses: readonly AgentStatus[]): Said {
  const settled = statuses.filter(({ phase }) => needsAttention(phase));
  const working = statuses.filter(({ phase }) => !needsAttention(phase));
  const sections = [
    settled.length === 0 && 'The time is over, and none needs attention yet.',
    ...settled.map(newsText),
    working.length > 0 &&
      ['Still at work:', ...working.map((status) => childLine(nameOfAgent(status.agentId), status))].join(
        '\n',
      ),
  ];
  return {
    text: sections.filter(Boolean).join('\n\n'),
    data: {
      settled: settled.map((status) => newsData(caller, status)),
      working: working.map(({ agentId }) => nameOfAgent(agentId)),
    },
  };
}

const cutShort = (signal: AbortSignal): EdgeError =>
  signal.reason === 'closing'
    ? new EdgeError('UNAVAILABLE', 'the service is shutting down; wait again')
    : new EdgeError('CANCELLED', 'the client went away, or its key stopped working');
