import { kindOf } from '@muster/sdk/contract';
import { CommandError } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { isConfirmed } from '../prompt.ts';

interface Flags {
  readonly yes?: boolean;
  readonly justification?: string;
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const [kindName, name] = args as [string, string];
  const kind = kindOf(kindName) ?? kindName;
  const client = connect();
  const { generation } = await client.catalog.read(kind, name, { signal });
  if (!flags.yes) {
    output.note(`This deletes ${kind}/${name} (generation ${generation}).`);
    if (!(await isConfirmed(signal))) throw new CommandError('nothing was deleted');
  }
  const reply = await client.catalog.delete(kind, name, {
    ifGenerationMatch: generation,
    justification: flags.justification,
    signal,
  });
  output.answer(reply, () => output.line(`deleted ${kind}/${name}`));
}
