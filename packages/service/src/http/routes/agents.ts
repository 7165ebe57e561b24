import {
  type AgentIdInput,
  type BodyOf,
  limits,
  routes,
  type WaitManyRequest,
  type WaitRequest,
} from '@muster/sdk/contract';
import type { Principal } from '../../control/principal.ts';
import type { FoundRow } from '../../control/read.ts';
import { invalid, isRefusal, type Refusal } from '../../control/refusal.ts';
import { streamList } from '../../control/streams.ts';
import type { Waited } from '../../control/waits.ts';
import type { RouteContext } from '../context.ts';
import { eventStream, longReply } from '../long-reply.ts';
import { type Call, callerView, serve } from '../route.ts';
import { listBodyOf } from '../stream-query.ts';

const maxRunNumber = 2 ** 31 - 2;

export function agentRoutes(context: RouteContext): void {
  const { control } = context;

  serve(context, 'whoami', async ({ caller }) => callerView(caller));

  serve(context, 'spawn', async ({ caller, body, request, reply }) => {
    const key = String(request.headers['idempotency-key'] ?? '');
    if (key.length > limits.idLength)
      return invalid('Idempotency-Key', `must be at most ${limits.idLength} characters`);
    const spawned = await control.spawn(caller, body, key);
    if (!isRefusal(spawned) && spawned.warning) reply.header('muster-warning', spawned.warning);
    return spawned;
  });

  serve(context, 'status', ({ caller, body }) => control.status(caller, body.agentId));

  serve(context, 'wait', async ({ caller, body, reply }) => {
    const { followUpId = '', runId } = body;
    if (followUpId !== '' && runId !== undefined)
      return invalid('runId', 'may not be combined with followUpId; wait for one of the two');
    const agent = await control.find(caller, body.agentId);
    if (isRefusal(agent)) return agent;
    const waited =
      runId !== undefined
        ? { agent, runId: runNumber(runId) }
        : followUpId !== ''
          ? { agent, followUpId }
          : { agents: [agent] };
    return longReply(context, caller, reply, routes.wait.reply, (signal) =>
      control.waits.wait(caller, waited, signal, timeoutMs(body)),
    );
  });

  serve(context, 'waitMany', async ({ caller, body, reply }) => {
    const waited = await manyWaited(context, caller, body);
    if (isRefusal(waited)) return waited;
    return longReply(
      context,
      caller,
      reply,
      routes.waitMany.reply,
      (signal) => control.waits.wait(caller, waited, signal, timeoutMs(body)),
      'agents' in waited ? waited.agents.length : 1,
    );
  });

  serve(context, 'kill', ({ caller, body }) => control.kill(caller, body.agentId));

  serve(context, 'retry', ({ caller, body }) => control.retry(caller, body.agentId));

  serve(context, 'reopen', ({ caller, body }) => control.reopen(caller, body.agentId));

  serve(context, 'labels', ({ caller, body }) => control.label(caller, body));

  serve(context, 'stopTurn', async ({ caller, body }) => {
    if (body.runId === undefined) return invalid('runId', 'is required: the runCount that the status shows');
    return control.stopTurn(
      caller,
      body.agentId,
      Number(body.runId),
      body.mode === 'STOP_TURN_MODE_KILL' ? 'KILL' : 'INTERRUPT',
    );
  });

  serve(context, 'list', ({ caller, body }) => control.lists.page(caller, body));

  const streamAgents = async (
    { caller, reply }: Pick<Call<'listStream'>, 'caller' | 'reply'>,
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
  serve(context, 'listStream', (call) => streamAgents(call, call.body));
  serve(context, 'listStreamByGet', (call) => streamAgents(call, listBodyOf(call.query)));

  serve(context, 'runs', async ({ caller, body }) => {
    const agent = await control.find(caller, body.agentId);
    if (isRefusal(agent)) return agent;
    if (body.runId !== undefined) {
      const run = await control.reads.run(agent, runNumber(body.runId));
      return isRefusal(run) ? run : { runs: [run], more: false };
    }
    const before =
      body.beforeRunId === undefined
        ? maxRunNumber + 1
        : Math.min(Number(body.beforeRunId), maxRunNumber + 1);
    if (before < 0) return invalid('beforeRunId', 'must be 0 or more');
    return control.reads.runs(agent, before, body.limit ?? 100);
  });

  serve(context, 'checkpoint', ({ caller, body }) => control.checkpoint(caller, body));

  serve(context, 'diff', async ({ caller, body }) => {
    const agent = await control.find(caller, body.agentId);
    return isRefusal(agent) ? agent : control.reads.diff(agent);
  });
}

/** Numbers beyond those that a run can have all name the same: a run that does not exist. */
const runNumber = (runId: string | number): number =>
  Math.max(-maxRunNumber, Math.min(Number(runId), maxRunNumber));

const timeoutMs = ({ timeoutSeconds }: WaitRequest | WaitManyRequest): number | undefined =>
  timeoutSeconds === undefined ? undefined : timeoutSeconds * 1000;

async function manyWaited(
  context: RouteContext,
  caller: Principal,
  { agentIds = [], below, all = false }: WaitManyRequest,
): Promise<Waited | Refusal> {
  if (below && agentIds.length > 0)
    return invalid('below', 'may not be combined with agentIds; give one of the two');
  if (below) {
    const above = await context.control.find(caller, below, 'below.agent');
    return isRefusal(above) ? above : { below: above, all };
  }
  if (agentIds.length === 0)
    return invalid('agentIds', `name 1 to ${limits.agentsPerWait} agents, or the agent that they are below`);
  const agents = await findAll(context, caller, agentIds);
  return isRefusal(agents) ? agents : { agents, all };
}

async function findAll(
  { control }: RouteContext,
  caller: Principal,
  agentIds: readonly AgentIdInput[],
): Promise<FoundRow[] | Refusal> {
  const found = await Promise.all(
    agentIds.map((agentId, i) => control.find(caller, agentId, `agentIds[${i}].agent`)),
  );
  return found.find(isRefusal) ?? (found as FoundRow[]);
}
