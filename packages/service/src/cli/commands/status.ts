import type { Invocation } from '../invocation.ts';
import { statusLines } from '../status-text.ts';

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const status = await client().status(args[0] as string, { signal });
  output.answer(status, () => {
    for (const line of statusLines(status, output)) output.line(line);
  });
}
