import { type AgentIdInput, limits, routes } from '@muster/sdk/contract';
import { streamList } from '../../control/list-stream.ts';
import type { Principal } from '../../control/principal.ts';
import type { FoundRow } from '../../control/read.ts';
import { invalid, isRefusal, type Refusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { eventStream, longReply } from '../long-reply.ts';
import { serve } from '../route.ts';

const maxRunNumber = 2 ** 31 - 2;

export function agentRoutes(context: RouteContext): void {
  const { control } = context;

  serve(context, 'whoami', async ({ caller }) => ({
    tenant: { provider: caller.tenant.provider, org: caller.tenant.org },
    ownerProvider: caller.ownerProvider,
    account: caller.account,
    keyId: caller.keyId,
    role: caller.role,
    expiresAt: caller.expiresAt,
  }));

  serve(context, 'spawn', async ({ caller, body, request }) => {
    const key = String(request.headers['idempotency-key'] ?? '');
    if (key.length > limits.idLength)
      return invalid('Idempotency-Key', `must be at most ${limits.idLength} characters`);
    return control.spawn(caller, body, key);
  });

  serve(context, 'status', ({ caller, body }) => control.status(caller, body.agentId));

  serve(context, 'wait', async ({ caller, body, reply }) => {
    const agent = await control.find(caller, body.agentId);
    if (isRefusal(agent)) return agent;
    return longReply(context, caller, reply, routes.wait.reply, (signal) =>
      control.wait(caller, [agent], signal),
    );
  });

  serve(context, 'waitMany', async ({ caller, body, reply }) => {
    const agents = await findAll(context, caller, body.agentIds);
    if (isRefusal(agents)) return agents;
    return longReply(context, caller, reply, routes.waitMany.reply, (signal) =>
      control.wait(caller, agents, signal),
    );
  });

  serve(context, 'kill', ({ caller, body }) => control.kill(caller, body.agentId));

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

  serve(context, 'listStream', async ({ caller, body, reply }) => {
    const query = await control.lists.query(caller, body);
    if (isRefusal(query)) return query;
    return eventStream(context, caller, reply, ({ signal, send }) =>
      streamList(control, query, {
        signal,
        show: (entries) => send(...entries.map((data) => ({ type: 'entry', data }))),
        sayWhole: () => send({ type: 'whole', data: {} }),
      }),
    );
  });

  serve(context, 'runs', async ({ caller, body }) => {
    const agent = await control.find(caller, body.agentId);
    if (isRefusal(agent)) return agent;
    if (body.runId !== undefined) {
      const run = await control.reads.run(agent, runNumber(body.runId));
      return isRefusal(run) ? run : { runs: [run] };
    }
    const before =
      body.beforeRunId === undefined
        ? maxRunNumber + 1
        : Math.min(Number(body.beforeRunId), maxRunNumber + 1);
    if (before < 0) return invalid('beforeRunId', 'must be 0 or more');
    return { runs: await control.reads.runs(agent, before, body.limit ?? 100) };
  });

  serve(context, 'diff', async ({ caller, body }) => {
    const agent = await control.find(caller, body.agentId);
    return isRefusal(agent) ? agent : control.reads.diff(agent);
  });
}

/** Numbers beyond those that a run can have all name the same: a run that does not exist. */
const runNumber = (runId: string | number): number =>
  Math.max(-maxRunNumber, Math.min(Number(runId), maxRunNumber));

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
