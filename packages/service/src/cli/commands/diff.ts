import type { Invocation } from '../invocation.ts';
import { diffStyle } from '../patch.ts';

interface Flags {
  readonly workingTree?: boolean;
}

export async function run({ args, flags, client, output, signal }: Invocation<Flags>): Promise<void> {
  const agent = args[0] as string;
  const reply = await client().diff(agent, { signal });
  output.answer(reply, ({ diff: pushed, workingTree }) => {
    const diff = flags.workingTree ? (workingTree?.diff ?? '') : pushed;
    if (diff !== '')
      for (const line of diff.trimEnd().split('\n')) output.line(output.paint(diffStyle(line), line));
    else if (flags.workingTree) output.note(`the working tree of ${agent} has no changes`);
    else
      output.note(
        `${agent} has pushed nothing${workingTree?.diff ? '; --working-tree shows what is not pushed yet' : ''}`,
      );
  });
}
