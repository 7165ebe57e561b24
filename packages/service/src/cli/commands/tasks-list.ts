import type { Invocation } from '../invocation.ts';
import { taskLine } from '../status-text.ts';

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const agent = args[0] as string;
  const { tasks } = await client().tasks(agent, { signal });
  output.answer(tasks, () => {
    if (tasks.length === 0) output.note(`${agent} has no tasks; muster tasks add ${agent} "…" adds one`);
    for (const task of tasks) output.line(taskLine(task));
  });
}
