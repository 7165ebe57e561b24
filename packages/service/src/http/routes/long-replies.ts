import { type BodyOf, limits, routes } from '@muster/sdk/contract';
import type { FoundRow } from '../../control/read.ts';
import { invalid, isRefusal, type Refusal } from '../../control/refusal.ts';
import { streamList, streamTimeline } from '../../control/streams.ts';
import type { Waited } from '../../control/waits.ts';
import { validator } from '../../lib/validator.ts';
import type { RouteContext } from '../context.ts';
import { invalidField } from '../errors.ts';
import { abortSignal, eventStream, longReply } from '../long-reply.ts';
import { type HttpCall, serve } from '../route.ts';
import { runNumber } from './operations.ts';

/** Routes whose reply stays open: waits, event streams and the polls of runners. */
export function longReplyRoutes(context: RouteContext): void {
  const { control } = context;

  serve(context, 'wait', async ({ caller, body, reply }) => {
    const { agentId, followUpId = '', runId, timeoutSeconds } = body;
    if (followUpId !== '' && runId !== undefined)
      return invalid('runId', 'may not be combined with followUpId; wait for one of the two');
    const agent = await control.find(caller, agentId);
    if (isRefusal(agent)) return agent;
    const waited =
      runId !== undefined
        ? { agent, runId: runNumber(runId) }
        : followUpId !== ''
          ? { agent, followUpId }
          : { agents: [agent] };
    return longReply(context, caller, reply, routes.wait.reply, (signal) =>
      control.waits.wait(caller, waited, signal, milliseconds(timeoutSeconds)),
    );
  });

  serve(context, 'waitMany', async ({ caller, body, reply }) => {
    const waited = await waitedAgents(context, caller, body);
    if (isRefusal(waited)) return waited;
    return longReply(
      context,
      caller,
      reply,
      routes.waitMany.reply,
      (signal) => control.waits.wait(caller, waited, signal, milliseconds(body.timeoutSeconds)),
      'agents' in waited ? waited.agents.length : 1,
    );
  });

  const serveList = async (
    { caller, reply }: Pick<HttpCall<'listStream'>, 'caller' | 'reply'>,
    body: BodyOf<'listStream'>,
  ) => {
    const query = await control.lists.query(caller, body);
    if (isRefusal(query)) return query;
    return eventStream(context, caller, reply, ({ signal, send }) =>
      streamList(control, query, {
        signal,
        show: (entries) => send(...entries.map((data) => ({ type: 'entry', data }))),
        endOfList: () => send({ type: 'whole', data: {} }),
      }),
    );
  };
  serve(context, 'listStream', (call) => serveList(call, call.body));
  serve(context, 'listStreamByGet', (call) => serveList(call, listBodyOf(call.query)));

  const serveTimeline = async (
    { caller, request, reply }: Pick<HttpCall<'timelineStream'>, 'caller' | 'request' | 'reply'>,
    { agentId, afterSequence = 0 }: BodyOf<'timelineStream'>,
  ) => {
    const lastEventId = request.headers['last-event-id'];
    const after = String(lastEventId || afterSequence);
    if (!/^\d{1,15}$/.test(after))
      return invalid(lastEventId ? 'Last-Event-ID' : 'afterSequence', 'must be the sequence of an entry');
    const agent = await control.find(caller, agentId);
    if (isRefusal(agent)) return agent;
    const first = await control.reads.timeline(agent, { after: Number(after) }, 1);
    if (isRefusal(first)) return first;
    return eventStream(context, caller, reply, ({ signal, send }) =>
      streamTimeline(control, agent, Number(after), {
        signal,
        send: (entry) => send({ id: entry.sequence, type: entry.type, data: entry }),
      }),
    );
  };
  serve(context, 'timelineStream', (call) => serveTimeline(call, call.body));
  serve(context, 'timelineStreamByGet', (call) => serveTimeline(call, timelineBodyOf(call.query)));

  serve(context, 'runnerPoll', async ({ caller, body, reply }) => {
    const close = context.openReplies.open(caller, 'poll');
    const { signal, release } = abortSignal(context, caller, reply);
    try {
      return await control.runners.poll(caller, body, signal);
    } finally {
      release();
      close();
    }
  });
}

const milliseconds = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : seconds * 1000;

async function waitedAgents(
  { control }: RouteContext,
  caller: HttpCall<'waitMany'>['caller'],
  { agentIds = [], below, all = false }: BodyOf<'waitMany'>,
): Promise<Waited | Refusal> {
  if (below && agentIds.length > 0)
    return invalid('below', 'may not be combined with agentIds; give one of the two');
  if (below) {
    const above = await control.find(caller, below, 'below.agent');
    return isRefusal(above) ? above : { below: above, all };
  }
  if (agentIds.length === 0)
    return invalid('agentIds', `must name 1 to ${limits.agentsPerWait} agents, unless below is set`);
  const found = await Promise.all(
    agentIds.map((agentId, i) => control.find(caller, agentId, `agentIds[${i}].agent`)),
  );
  return found.find(isRefusal) ?? { agents: found as FoundRow[], all };
}

type Query = Readonly<Record<string, string | readonly string[]>>;
type QueryValue = Query[string] | undefined;

const checkTimeline = validator(routes.timelineStream.body);
const checkList = validator(routes.listStream.body);

/** EventSource can only send a query. This is the body of `timelineStream` for a query. */
function timelineBodyOf(query: Query): BodyOf<'timelineStream'> {
  const agentId = agentIdOf(
    (name) => query[`agentId.${name}`] ?? query[name] ?? query[name.split('.').at(-1) ?? ''],
  );
  return checked({ agentId, afterSequence: query.afterSequence }, checkTimeline);
}

function listBodyOf(query: Query): BodyOf<'listStream'> {
  const hasParent = Object.keys(query).some((name) => name.startsWith('parentId.'));
  const { account, workspace, text, endedSince, phases } = query;
  const body = {
    ...(hasParent && { parentId: agentIdOf((name) => query[`parentId.${name}`]) }),
    tenant: {
      provider: query['tenant.provider'] ?? query.provider,
      org: query['tenant.org'] ?? query.org,
    },
    account,
    workspace,
    text,
    endedSince,
    includeTerminal: booleanOf(query.includeTerminal),
    allDepths: booleanOf(query.allDepths),
    labels: labelsOf(query.labels),
    phases: phases === undefined ? undefined : [phases].flat().flatMap((part) => part.split(',')),
  };
  return checked(body, checkList);
}

const agentIdOf = (value: (name: string) => QueryValue) => ({
  agent: pathOf(value('agent')),
  workspace: value('workspace'),
  ownerProvider: value('ownerProvider'),
  account: value('account'),
  tenant: { provider: value('tenant.provider'), org: value('tenant.org') },
});

/** `agent=a/b`, or `agent=a&agent=b`. */
const pathOf = (value: QueryValue): string[] | undefined => {
  if (value === undefined || value === '') return undefined;
  return typeof value === 'string' ? value.split('/') : [...value];
};

/** `labels=key=value`, repeated for each label. A key has no `=`. */
const labelsOf = (value: QueryValue): Record<string, string> | undefined =>
  value === undefined
    ? undefined
    : Object.fromEntries(
        [value].flat().map((label) => {
          const at = label.indexOf('=');
          return at < 0 ? [label, ''] : [label.slice(0, at), label.slice(at + 1)];
        }),
      );

const booleanOf = (value: QueryValue): boolean | undefined =>
  value === undefined ? undefined : value === 'true';

function checked<B>(body: unknown, check: ReturnType<typeof validator>): B {
  const present: unknown = JSON.parse(JSON.stringify(body));
  const violation = check(present);
  if (violation) throw invalidField(violation.field, violation.description);
  return present as B;
}
