import { isRefusal } from '../../control/refusal.ts';
import type { RouteContext } from '../context.ts';
import { serve } from '../route.ts';

export function taskRoutes(context: RouteContext): void {
  const { control } = context;

  serve(context, 'tasks', async ({ caller, body }) => {
    const status = await control.status(caller, body.agentId);
    return isRefusal(status) ? status : { tasks: status.tasks };
  });

  serve(context, 'createTasks', ({ caller, body }) => control.createTasks(caller, body));

  serve(context, 'updateTask', ({ caller, body }) => control.updateTask(caller, body));
}
