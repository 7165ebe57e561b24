import { invalid, isRefusal } from '../../domain/refusal.ts';
import { refuseTasks } from '../access/permit.ts';
import type { Operation } from '../operation.ts';
import { tasksFrom, updateTaskCommand } from './make-commands.ts';
import { type CommandOptions, sendCommand } from './send-command.ts';

export interface ChecklistOptions extends CommandOptions {
  readonly status: Operation<'status'>;
}

/** The checklist of an agent. */
export class Checklists {
  readonly #options: ChecklistOptions;

  constructor(options: ChecklistOptions) {
    this.#options = options;
  }

  readonly tasks: Operation<'tasks'> = async (caller, { agentId }) => {
    const status = await this.#options.status(caller, { agentId });
    return isRefusal(status) ? status : { tasks: status.tasks };
  };

  readonly createTasks: Operation<'createTasks'> = async (caller, { agentId, tasks }) => {
    const command = { type: 'createTasks' as const, tasks: tasksFrom(tasks) };
    const created = await sendCommand(this.#options, caller, agentId, command, refuseTasks);
    return isRefusal(created) ? created : { tasks: [...created] };
  };

  readonly updateTask: Operation<'updateTask'> = async (caller, request) => {
    if (!request.id) return invalid('id', 'name the task');
    const command = updateTaskCommand(request, request.id);
    const task = await sendCommand(this.#options, caller, request.agentId, command, refuseTasks);
    return isRefusal(task) ? task : { task };
  };
}
