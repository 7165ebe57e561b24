import { type Task, taskMarks } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';

const changes = {
  start: ['TASK_STATUS_IN_PROGRESS', 'mark a task as in progress'],
  done: ['TASK_STATUS_COMPLETED', 'mark a task as completed'],
  reopen: ['TASK_STATUS_PENDING', 'mark a task as pending again'],
  delete: ['TASK_STATUS_DELETED', 'delete a task'],
} as const satisfies Record<string, readonly [Task['status'], string]>;

export function addTaskCommands(program: Command): void {
  const tasks = program.command('tasks').description("list and change an agent's checklist");
  addCommand(tasks, 'list <agent>', 'list the tasks', list, { isDefault: true }).alias('ls');
  addCommand(tasks, 'add <agent> <subject>', 'add a task', add).option('--description <text>');
  for (const [name, [status, description]] of Object.entries(changes))
    addCommand(
      tasks,
      `${name} <agent> <id>`,
      description,
      async ({ client, output, signal }, agent: string, id: string) => {
        const { task } = await client().updateTask(agent, id, { status }, { signal });
        output.answer(task, () => output.line(taskLine(task)));
      },
    );
}

async function list({ client, output, signal }: Invocation, agent: string): Promise<void> {
  const { tasks } = await client().tasks(agent, { signal });
  output.answer(tasks, () => {
    if (tasks.length === 0) output.note(`${agent} has no tasks; add one with muster tasks add ${agent} "…"`);
    for (const task of tasks) output.line(taskLine(task));
  });
}

async function add(
  { flags: { description }, client, output, signal }: Invocation<Flags<'description'>>,
  agent: string,
  subject: string,
): Promise<void> {
  const { tasks } = await client().createTasks(agent, [{ subject, description }], { signal });
  output.answer(tasks.at(-1) ?? null, (added) => output.line(added?.id ?? ''));
}

export function taskLine(task: Task): string {
  const after = task.blockedBy.length > 0 ? ` (after ${task.blockedBy.join(', ')})` : '';
  const pattern = task.activation?.filesModified?.pattern;
  const when = pattern === undefined ? '' : ` (once ${pattern || 'any file'} is pushed)`;
  return `[${taskMarks[task.status]}] ${task.id}  ${task.subject}${after}${when}`;
}
