import type { BodyOf, ReplyOf, RouteName } from '@muster/sdk/contract';
import type { Principal } from '../../control/principal.ts';
import type { Refusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { cutter } from '../long-reply.ts';
import { serve } from '../route.ts';

type RunnerRoute = Extract<RouteName, `runner${string}`>;

export function runnerRoutes(context: RouteContext): void {
  const { runners, checkpoints } = context.control;

  serve(context, 'service', ({ caller }) => runners.service(caller));

  serve(context, 'runnerPoll', async ({ caller, body, reply }) => {
    const closed = context.openReplies.open(caller, 'poll');
    const { signal, release } = cutter(context, caller, reply);
    try {
      return await runners.poll(caller, body, signal);
    } finally {
      release();
      closed();
    }
  });

  /** A route for runners that have polled: the caller's token must be the one that registered the runner. */
  const serveRegistered = <N extends Exclude<RunnerRoute, 'runnerPoll'>>(
    name: N,
    handle: (caller: Principal, body: BodyOf<N>) => Promise<ReplyOf<N> | Refusal>,
  ): void =>
    serve(context, name, async ({ caller, body }) => {
      const refused = await runners.registry.refuse(
        caller as Principal,
        (body as { runnerId: string }).runnerId,
      );
      return refused ?? handle(caller as Principal, body);
    });

  serveRegistered('runnerReport', (caller, body) => runners.report(caller, body));
  serveRegistered('runnerSaveCheckpoint', (caller, body) => checkpoints.save(caller, body));
  serveRegistered('runnerCompleteCheckpoint', (caller, body) => checkpoints.complete(caller, body));
  serveRegistered('runnerCheckpoints', (caller, body) => checkpoints.list(caller, body));
  serveRegistered('runnerLoadCheckpoint', (caller, body) => checkpoints.load(caller, body));
  serveRegistered('runnerEndedAgents', (_, body) => runners.ended(body));
}
