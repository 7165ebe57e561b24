import type { Invocation } from '../invocation.ts';
import { diffStyle } from '../patch.ts';

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const agent = args[0] as string;
  const reply = await client().diff(agent, { signal });
  output.answer(reply, ({ diff }) => {
    if (diff === '') output.note(`${agent} has pushed nothing`);
    else for (const line of diff.trimEnd().split('\n')) output.line(output.paint(diffStyle(line), line));
  });
}
