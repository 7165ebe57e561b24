import {
  limits,
  type Provider,
  type ReplyOf,
  type Route,
  type RouteName,
  routes,
  usageCsv,
} from '@muster/sdk/contract';
import type { Principal } from '../../control/access/principal.ts';
import type { Control } from '../../control/control.ts';
import type { Operation, RequestOf } from '../../control/operation.ts';
import { invalid, isRefusal, type Refusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { alreadySent, type Call, callerView, serve } from '../route.ts';

type Handler<N extends RouteName> = (call: Call<N>) => Promise<ReplyOf<N> | Refusal>;
type Query = Readonly<Record<string, string | undefined>>;

/** The tenant in a query, which has three accepted spellings. */
const tenantIn = (query: Query) => ({
  provider: (query['ref.tenant.provider'] ?? query['tenant.provider'] ?? query.provider) as
    | Provider
    | undefined,
  org: query['ref.tenant.org'] ?? query['tenant.org'] ?? query.org,
});
const refIn = ({ kind = '', name = '' }: Query) => ({ kind, name });
const pageIn = ({ pageSize = '0', pageToken = '' }: Query) => [Number(pageSize), pageToken] as const;

/** The operations that read more of a request than its body, and those of other modules than control. */
const handlers = {
  whoami: async ({ caller }) => callerView(caller),

  usage: ({ control, caller, body }) => control.usage.read(caller, body),

  runSchedule: ({ control, caller, body }) => control.schedules.run(caller, body),
  scheduleHistory: ({ control, caller, body }) => control.schedules.history(caller, body),

  poolDemand: ({ control, caller, params }) => control.poolRunners.demand(caller, params.pool ?? ''),

  openChangeRequest: ({ codeHosts, caller, body }) => codeHosts.open(caller, body),
  syncChangeRequests: ({ codeHosts, caller, body }) => codeHosts.sync(caller, body),
  listDeliveries: ({ codeHosts, caller, body }) => codeHosts.administration.deliveries(caller, body),
  redeliver: ({ codeHosts, caller, body }) => codeHosts.administration.redeliver(caller, body),
  testIntegration: ({ codeHosts, caller, body }) => codeHosts.administration.test(caller, body),

  listNotificationDeliveries: ({ notifications, caller, body }) =>
    notifications.administration.deliveries(caller, body),
  redeliverNotification: ({ notifications, caller, body }) =>
    notifications.administration.redeliver(caller, body),
  testNotification: ({ notifications, caller, body }) => notifications.administration.test(caller, body),
  listTriggerDeliveries: ({ triggers, caller, body }) => triggers.administration.deliveries(caller, body),
  redeliverToTrigger: ({ triggers, caller, body }) => triggers.administration.redeliver(caller, body),
  testTrigger: ({ triggers, caller, body }) => triggers.administration.test(caller, body),

  listSignIns: ({ signIns, caller, body }) => signIns.administration.list(caller, body),
  testSignIn: ({ signIns, caller, body }) => signIns.administration.test(caller, body),

  pushSubscriptions: ({ notifications, caller }) => notifications.subscriptions.list(caller),
  subscribePush: ({ notifications, caller, body }) => notifications.subscriptions.subscribe(caller, body),
  unsubscribePush: ({ notifications, caller, body }) => notifications.subscriptions.unsubscribe(caller, body),
  testPush: ({ notifications, caller, body }) => notifications.subscriptions.test(caller, body),

  writeResource: ({ control, caller, body, params }) => control.catalog.write(caller, refIn(params), body),
  validateResource: ({ control, caller, body, params }) =>
    control.catalog.validate(caller, refIn(params), body),
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

  runnerGitCredential: ({ codeHosts, caller, body }) => codeHosts.gitCredential(caller, body),
} satisfies { readonly [N in RouteName]?: Handler<N> };

export type OperationName = keyof typeof handlers | keyof Control['operations'];

/** What serves an operation that needs nothing of HTTP. MCP tools call the same. */
export function handlerOf<N extends OperationName>(name: N, { operations }: Control): Handler<N> {
  if (name in handlers) return handlers[name as keyof typeof handlers] as unknown as Handler<N>;
  const operation = operations[name as keyof typeof operations] as unknown as Operation<N>;
  return ({ caller, body, traceparent }) => operation(caller as Principal, body as RequestOf<N>, traceparent);
}

/** Whether `Accept` prefers CSV: it names it, and no JSON before it. */
const wantsCsv = (accept = ''): boolean => /^(?:(?!application\/json).)*\btext\/csv\b/i.test(accept);

export function operationRoutes(context: RouteContext): void {
  const { control } = context;
  const names = [...Object.keys(handlers), ...Object.keys(control.operations)] as OperationName[];
  for (const name of names) {
    const { upload, alsoAs }: Route = routes[name];
    if (!upload && !alsoAs) serve(context, name, handlerOf(name, control));
  }

  serve(context, 'usage', async (call) => {
    const usage = await handlers.usage(call);
    if (isRefusal(usage) || !wantsCsv(call.request.headers.accept)) return usage;
    if (usage.nextPageToken) call.reply.header('muster-next-page-token', usage.nextPageToken);
    call.reply.type('text/csv; charset=utf-8').send(usageCsv(usage.rows, call.body.groupBy ?? []));
    return alreadySent;
  });

  serve(context, 'spawn', async ({ control, caller, body, traceparent, request, reply }) => {
    const key = String(request.headers['idempotency-key'] ?? '');
    if (key.length > limits.idLength)
      return invalid('Idempotency-Key', `must be at most ${limits.idLength} characters; got ${key.length}`);
    const spawned = await control.spawns.spawn(caller, body, key, { traceparent });
    if (!isRefusal(spawned) && spawned.warning) reply.header('muster-warning', spawned.warning);
    return spawned;
  });
}
