import type { RouteContext } from '../context.ts';
import { serve } from '../route.ts';

export function ownRunRoutes(context: RouteContext): void {
  const { ownRuns } = context.control;

  serve(context, 'ask', ({ caller, body }) => ownRuns.ask(caller, body));

  serve(context, 'finish', ({ caller, body }) => ownRuns.finish(caller, body));

  serve(context, 'fail', ({ caller, body }) => ownRuns.fail(caller, body));
}
