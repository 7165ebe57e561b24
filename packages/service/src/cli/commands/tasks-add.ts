import type { Invocation } from '../invocation.ts';

interface Flags {
  readonly description?: string;
}

export async function run({ args, flags, client, output, signal }: Invocation<Flags>): Promise<void> {
  const [agent, subject] = args as [string, string];
  const task = { subject, ...(flags.description !== undefined && { description: flags.description }) };
  const { tasks } = await client().createTasks(agent, [task], { signal });
  output.answer(tasks.at(-1) ?? null, (added) => output.line(added?.id ?? ''));
}
