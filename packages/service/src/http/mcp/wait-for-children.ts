import { type AgentEntry, needsAttention } from '@muster/sdk/contract';
import { isRefusal, notFound, type Refusal } from '../../control/refusal.ts';
import { Change } from '../../lib/change.ts';
import { EdgeError } from '../errors.ts';
import { childId, childStatus, nameOfChild, selfId } from './own-agent.ts';
import { bodyFor, type Said, type ToolCall } from './tool.ts';
import { childData, childLine, childText } from './wording.ts';

/**
 * Waits for children on behalf of their parent. A child that settles changes its parent in the same commit, so the
 * parent alone is watched. What is told here is learned: it makes no further run.
 */
export async function waitForChildren(
  call: ToolCall,
  names: readonly string[] | undefined,
  timeoutMs: number,
): Promise<Said | Refusal> {
  const { context, caller, signal } = call;
  const own = caller.agent;
  if (!own?.id) return notFound('the agent does not exist');
  const closed = context.openReplies.open(caller, 'wait');
  const change = new Change();
  const unwatch = context.control.wakes.watchAgent({ tenant: own.tenant, id: own.id }, () =>
    change.happened(),
  );
  const onAbort = () => change.happened();
  signal.addEventListener('abort', onAbort);
  const deadlineMs = Date.now() + timeoutMs;
  try {
    for (;;) {
      const children = await childrenOf(call, names);
      if (isRefusal(children)) return children;
      const news = await newsAmong(call, children);
      const isOver = !children.some(({ phase }) => !needsAttention(phase));
      if (news.length > 0 || isOver) return tell(call, children, news);
      const leftMs = deadlineMs - Date.now();
      if (leftMs <= 0) return tell(call, children, [], 'Nothing has happened so far. ');
      await change.within(leftMs);
      if (signal.aborted) throw cutShort(signal);
    }
  } finally {
    closed();
    unwatch();
    signal.removeEventListener('abort', onAbort);
  }
}

/** The named children, or all of them; a name that leads to none is refused. */
async function childrenOf(
  { context, caller }: ToolCall,
  names: readonly string[] | undefined,
): Promise<AgentEntry[] | Refusal> {
  const body = bodyFor(caller, 'list', { parentId: selfId(caller), includeTerminal: true });
  const page = await context.control.lists.page(caller, body);
  if (isRefusal(page)) return page;
  const all = page.entries.toReversed();
  if (!names) return all;
  const wanted = names.map((name) => (childId(caller, name).agent ?? []).join('/'));
  const missing = names.find((_, i) => !all.some((entry) => entry.agentId.agent.join('/') === wanted[i]));
  if (missing !== undefined) return notFound(`you have no child "${missing}"; list_children shows them`);
  return all.filter((entry) => wanted.includes(entry.agentId.agent.join('/')));
}

/** Those that settled during this run and that it has not looked at. */
async function newsAmong(
  { context, caller }: ToolCall,
  children: readonly AgentEntry[],
): Promise<AgentEntry[]> {
  const news = new Set((await context.control.ownRuns.unseenChildren(caller)).map((path) => path.join('/')));
  return children.filter(({ agentId, phase }) => news.has(agentId.agent.join('/')) && needsAttention(phase));
}

async function tell(
  call: ToolCall,
  children: readonly AgentEntry[],
  news: readonly AgentEntry[],
  before = '',
): Promise<Said> {
  const nameOf = ({ agentId }: AgentEntry) => nameOfChild(call.caller, agentId.agent);
  const told = await Promise.all(
    news.map(async (entry) => ({ name: nameOf(entry), status: await childStatus(call, nameOf(entry)) })),
  );
  const known = told.flatMap(({ name, status }) => (isRefusal(status) ? [] : [{ name, status }]));
  const others = children.filter((entry) => !known.some(({ name }) => name === nameOf(entry)));
  const working = others.filter(({ phase }) => !needsAttention(phase));
  const resting = others.filter(({ phase }) => needsAttention(phase));
  const sections = [
    ...known.map(({ name, status }) => childText(name, status)),
    section(working, 'Still at work:', nameOf),
    section(resting, known.length > 0 ? 'The others:' : 'None works any more:', nameOf),
  ].filter(Boolean);
  return {
    text: children.length === 0 ? 'You have no children.' : `${before}${sections.join('\n\n')}`,
    data: {
      news: known.map(({ name, status }) => childData(name, status)),
      working: working.map(nameOf),
      settled: resting.map((entry) => ({
        child: nameOf(entry),
        phase: entry.phase,
        reason: entry.phaseReason,
      })),
    },
  };
}

const section = (
  entries: readonly AgentEntry[],
  title: string,
  nameOf: (entry: AgentEntry) => string,
): string =>
  entries.length === 0 ? '' : [title, ...entries.map((entry) => childLine(nameOf(entry), entry))].join('\n');

const cutShort = (signal: AbortSignal): EdgeError =>
  signal.reason === 'closing'
    ? new EdgeError('UNAVAILABLE', 'the service is shutting down; wait again')
    : new EdgeError('CANCELLED', 'your run has ended');
