import { invalid, isRefusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { serve } from '../route.ts';

export function followUpRoutes(context: RouteContext): void {
  const { control } = context;

  serve(context, 'queue', ({ caller, body }) => control.queue(caller, body));

  serve(context, 'removeFollowUp', async ({ caller, body }) => {
    if (!body.followUpId)
      return invalid('followUpId', 'name the follow-up: the id that queueing it returned');
    return control.removeFollowUp(caller, body.agentId, body.followUpId);
  });

  serve(context, 'listFollowUps', ({ caller, body }) => control.listFollowUps(caller, body));

  serve(context, 'followUp', async ({ caller, body }) => {
    if (!body.followUpId)
      return invalid('followUpId', 'name the follow-up: the id that queueing it returned');
    const agent = await control.find(caller, body.agentId);
    return isRefusal(agent) ? agent : control.reads.followUp(agent, body.followUpId);
  });

  serve(context, 'clearFollowUps', ({ caller, body }) => control.clearFollowUps(caller, body.agentId));
}
