import type { RouteContext } from '../context.ts';
import { cutter } from '../long-reply.ts';
import { serve } from '../route.ts';

export function runnerRoutes(context: RouteContext): void {
  const { runners } = context.control;

  serve(context, 'runnerPoll', async ({ caller, body, reply }) => {
    const { signal, release } = cutter(context, caller, reply);
    try {
      return await runners.poll(caller, body, signal);
    } finally {
      release();
    }
  });

  serve(context, 'runnerReport', ({ caller, body }) => runners.report(caller, body));
}
