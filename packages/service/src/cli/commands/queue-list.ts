import { ageOf, clock, firstLine } from '@muster/sdk/contract';
import type { Invocation } from '../invocation.ts';

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const agent = args[0] as string;
  const { followUps } = await client().status(agent, { signal });
  output.table(
    followUps,
    [
      { title: 'ID', of: ({ followUpId }) => followUpId },
      { title: 'WHEN', of: ({ deliverAt }) => (deliverAt ? clock(deliverAt) : 'next') },
      { title: 'AGE', of: ({ queuedAt }) => ageOf(queuedAt), isRight: true },
      { title: 'MESSAGE', of: ({ description }) => firstLine(description), isFlexible: true },
    ],
    `nothing waits for ${agent}`,
  );
}
