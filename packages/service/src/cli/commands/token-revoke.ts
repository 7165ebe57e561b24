import type { Invocation } from '../invocation.ts';

interface Flags {
  readonly justification?: string;
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const name = args[0] as string;
  const reply = await connect().catalog.delete('token', name, { justification: flags.justification, signal });
  output.answer(reply, () => output.line(`revoked ${name}; it stops working within 5 s`));
}
