import type { RouteContext } from '../context.ts';
import { cutter } from '../long-reply.ts';
import { serve } from '../route.ts';

export function runnerRoutes(context: RouteContext): void {
  const { runners, sessions } = context.control;

  serve(context, 'runnerPoll', async ({ caller, body, reply }) => {
    const { signal, release } = cutter(context, caller, reply);
    try {
      return await runners.poll(caller, body, signal);
    } finally {
      release();
    }
  });

  serve(context, 'runnerReport', ({ caller, body }) => runners.report(caller, body));
  serve(context, 'runnerSaveSession', ({ caller, body }) => sessions.save(caller, body));
  serve(context, 'runnerLoadSession', ({ caller, body }) => sessions.load(caller, body));
  serve(context, 'runnerEndedAgents', ({ caller, body }) => runners.ended(caller, body.agentKeys));
}
