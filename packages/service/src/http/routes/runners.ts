import type { BodyOf, ReplyOf, RouteName } from '@muster/sdk/contract';
import type { FastifyRequest } from 'fastify';
import type { Principal } from '../../control/principal.ts';
import type { Refusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { cutter } from '../long-reply.ts';
import { serve } from '../route.ts';
import { readSessions } from '../session-body.ts';

type RunnerRoute = Extract<RouteName, `runner${string}`>;

export function runnerRoutes(context: RouteContext): void {
  const { runners, sessions } = context.control;

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
    handle: (caller: Principal, body: BodyOf<N>, request: FastifyRequest) => Promise<ReplyOf<N> | Refusal>,
    app = context.app,
  ): void =>
    serve({ ...context, app }, name, async ({ caller, body, request }) => {
      const refused = await runners.registry.refuse(
        caller as Principal,
        (body as { runnerId: string }).runnerId,
      );
      return refused ?? handle(caller as Principal, body, request);
    });

  serveRegistered('runnerReport', (caller, body) => runners.report(caller, body));
  void context.app.register(async (app) => {
    readSessions(app);
    const save = (caller: Principal, body: BodyOf<'runnerSaveSession'>, { archive }: FastifyRequest) =>
      sessions.save(caller, body, archive ?? 'invalid');
    serveRegistered('runnerSaveSession', save, app);
  });
  serveRegistered('runnerLoadSession', (caller, body) => sessions.load(caller, body));
  serveRegistered('runnerEndedAgents', (_, body) => runners.ended(body));
}
