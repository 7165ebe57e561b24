import type { Invocation } from '../invocation.ts';

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const reply = await client().clearFollowUps(args[0] as string, { signal });
  output.answer(reply, ({ cleared }) => output.line(`cleared ${cleared}`));
}
