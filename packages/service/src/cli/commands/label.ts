import type { Invocation } from '../invocation.ts';
import { labelsOf } from '../settings.ts';

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const [agent, pairs] = args as [string, readonly string[]];
  const { labels = {} } = labelsOf(pairs);
  const reply = await client().label(agent, labels, { signal });
  output.answer(reply, () => {
    for (const [key, value] of Object.entries(reply.labels)) output.line(`${key}=${value}`);
  });
}
