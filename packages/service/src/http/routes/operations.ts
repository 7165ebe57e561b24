import { limits, type Provider, type ReplyOf, type RouteName } from '@muster/sdk/contract';
import type { Principal } from '../../control/principal.ts';
import { invalid, isRefusal, type Refusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { type Call, callerView, serve } from '../route.ts';

type Operation<N extends RouteName> = (call: Call<N>) => Promise<ReplyOf<N> | Refusal>;
type Query = Readonly<Record<string, string>>;

/** The tenant in a query, which has three accepted spellings. */
const tenantIn = (query: Query) => ({
  provider: (query['ref.tenant.provider'] ?? query['tenant.provider'] ?? query.provider) as
    | Provider
    | undefined,
  org: query['ref.tenant.org'] ?? query['tenant.org'] ?? query.org,
});
const refIn = ({ kind = '', name = '' }: Query) => ({ kind, name });
const pageIn = ({ pageSize = '0', pageToken = '' }: Query) => [Number(pageSize), pageToken] as const;

/** The largest run number that the database can store. */
const maxRunNumber = 2 ** 31 - 1;
/** Numbers outside the range of the database name a run that does not exist, so they need not differ. */
export const runNumber = (runId: string | number): number =>
  Math.max(-maxRunNumber, Math.min(Number(runId), maxRunNumber));

type RegisteredRoute = Exclude<Extract<RouteName, `runner${string}`>, 'runnerPoll'>;

/** A route for a runner that has polled: the caller's token must be the one that registered the runner. */
const registered =
  <N extends RegisteredRoute>(operation: Operation<N>): Operation<N> =>
  async (call) => {
    const { runnerId } = call.body as { runnerId: string };
    return (
      (await call.control.runners.registry.refuse(call.caller as Principal, runnerId)) ?? operation(call)
    );
  };

/** The operation behind each route that needs nothing of HTTP. MCP tools call the same ones. */
export const operations = {
  whoami: async ({ caller }) => callerView(caller),
  service: ({ control, caller }) => control.runners.service(caller),

  status: ({ control, caller, body }) => control.status(caller, body.agentId),
  kill: ({ control, caller, body }) => control.command(caller, body.agentId, { type: 'kill' }),
  retry: ({ control, caller, body }) => control.command(caller, body.agentId, { type: 'retry' }),
  reopen: ({ control, caller, body }) => control.command(caller, body.agentId, { type: 'reopen' }),
  labels: ({ control, caller, body }) => control.label(caller, body),
  list: ({ control, caller, body }) => control.lists.page(caller, body),
  checkpoint: ({ control, caller, body }) => control.checkpoint(caller, body),
  timeline: ({ control, caller, body }) => control.timeline(caller, body),

  async stopTurn({ control, caller, body: { agentId, runId, mode } }) {
    if (runId === undefined) return invalid('runId', "is required: the agent's runCount, from its status");
    const kind = mode === 'STOP_TURN_MODE_KILL' ? 'KILL' : 'INTERRUPT';
    return control.command(caller, agentId, { type: 'stop', runId: Number(runId), kind });
  },

  async runs({ control, caller, body }) {
    const agent = await control.find(caller, body.agentId);
    if (isRefusal(agent)) return agent;
    if (body.runId !== undefined) {
      const run = await control.reads.run(agent, runNumber(body.runId));
      return isRefusal(run) ? run : { runs: [run], more: false };
    }
    const before = runNumber(body.beforeRunId ?? maxRunNumber);
    if (before < 0) return invalid('beforeRunId', 'must be 0 or more');
    return control.reads.runs(agent, before, body.limit ?? 100);
  },

  async diff({ control, caller, body }) {
    const agent = await control.find(caller, body.agentId);
    return isRefusal(agent) ? agent : control.reads.diff(agent);
  },

  queue: ({ control, caller, body }) => control.queue(caller, body),
  listFollowUps: ({ control, caller, body }) => control.listFollowUps(caller, body),
  async attachment({ control, caller, body }) {
    const agent = await control.find(caller, body.agentId);
    return isRefusal(agent) ? agent : control.attachments.read(agent, body.attachmentId);
  },
  clearFollowUps: ({ control, caller, body }) => control.command(caller, body.agentId, { type: 'clear' }),

  async removeFollowUp({ control, caller, body: { agentId, followUpId } }) {
    return followUpId ? control.command(caller, agentId, { type: 'remove', followUpId }) : missingFollowUpId;
  },

  async followUp({ control, caller, body: { agentId, followUpId } }) {
    if (!followUpId) return missingFollowUpId;
    const agent = await control.find(caller, agentId);
    return isRefusal(agent) ? agent : control.reads.followUp(agent, followUpId);
  },

  async tasks({ control, caller, body }) {
    const status = await control.status(caller, body.agentId);
    return isRefusal(status) ? status : { tasks: status.tasks };
  },
  createTasks: ({ control, caller, body }) => control.createTasks(caller, body),
  updateTask: ({ control, caller, body }) => control.updateTask(caller, body),

  threads: ({ control, caller, body }) => control.threads.list(caller, body),
  createReview: ({ control, caller, body }) => control.threads.createReview(caller, body),
  replyToThread: ({ control, caller, body }) => control.threads.reply(caller, body),
  resolveThread: ({ control, caller, body }) => control.threads.resolve(caller, body),

  ask: ({ control, caller, body }) => control.ownRuns.ask(caller, body),
  finish: ({ control, caller, body }) => control.ownRuns.finish(caller, body),
  fail: ({ control, caller, body }) => control.ownRuns.fail(caller, body),

  openChangeRequest: ({ codeHosts, caller, body }) => codeHosts.open(caller, body),
  syncChangeRequests: ({ codeHosts, caller, body }) => codeHosts.sync(caller, body),
  listDeliveries: ({ codeHosts, caller, body }) => codeHosts.deliveries(caller, body),
  redeliver: ({ codeHosts, caller, body }) => codeHosts.redeliver(caller, body),
  testIntegration: ({ codeHosts, caller, body }) => codeHosts.test(caller, body),

  writeResource: ({ control, caller, body, params }) => control.catalog.write(caller, refIn(params), body),
  readResource: ({ control, caller, query, params }) =>
    control.catalog.read(caller, tenantIn(query), refIn(params)),
  listResources: ({ control, caller, query, params }) =>
    control.catalog.list(caller, tenantIn(query), refIn(params).kind, ...pageIn(query)),
  deleteResource: ({ control, caller, query, body, params }) =>
    control.catalog.delete(
      caller,
      tenantIn(query),
      refIn(params),
      query.ifGenerationMatch,
      query.justification || body.justification,
    ),
  resourceHistory: ({ control, caller, query, params }) =>
    control.catalog.history(caller, tenantIn(query), refIn(params), ...pageIn(query)),

  runnerReport: registered(({ control, caller, body }) => control.runners.report(caller, body)),
  runnerPartials: registered(({ control, body }) => control.live.receive(body)),
  runnerSaveCheckpoint: registered(({ control, caller, body }) => control.checkpoints.save(caller, body)),
  runnerCompleteCheckpoint: registered(({ control, caller, body }) =>
    control.checkpoints.complete(caller, body),
  ),
  runnerCheckpoints: registered(({ control, caller, body }) => control.checkpoints.list(caller, body)),
  runnerLoadCheckpoint: registered(({ control, caller, body }) => control.checkpoints.load(caller, body)),
  runnerAttachment: registered(({ control, caller, body }) => control.attachments.load(caller, body)),
  runnerSaveAttachment: registered(({ control, caller, body }) => control.attachments.save(caller, body)),
  runnerGitCredential: registered(({ codeHosts, caller, body }) => codeHosts.gitCredential(caller, body)),
  runnerEndedAgents: registered(({ control, body }) => control.runners.ended(body)),
} satisfies { readonly [N in RouteName]?: Operation<N> };

const missingFollowUpId = invalid('followUpId', 'is required: the id that queueing the message returned');

export type OperationName = keyof typeof operations;
export const operationOf = <N extends OperationName>(name: N): Operation<N> =>
  operations[name] as unknown as Operation<N>;

export function operationRoutes(context: RouteContext): void {
  for (const name of Object.keys(operations) as OperationName[]) serve(context, name, operationOf(name));

  serve(context, 'spawn', async ({ control, caller, body, request, reply }) => {
    const key = String(request.headers['idempotency-key'] ?? '');
    if (key.length > limits.idLength)
      return invalid('Idempotency-Key', `must be at most ${limits.idLength} characters`);
    const spawned = await control.spawn(caller, body, key);
    if (!isRefusal(spawned) && spawned.warning) reply.header('muster-warning', spawned.warning);
    return spawned;
  });
}
