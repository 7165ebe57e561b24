import type { Invocation } from '../invocation.ts';

export async function run({ args, client: connect, output, signal }: Invocation): Promise<void> {
  const agent = args[0] as string;
  const reply = await connect().reopen(agent, { signal });
  output.answer(reply, () => output.line(`reopened ${agent}; muster send ${agent} "…" gives it work`));
}
