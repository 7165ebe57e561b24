import { ageOf, clock, firstLine, type PendingFollowUp } from '@muster/sdk/contract';
import type { Invocation } from '../invocation.ts';

export async function run({ args, client, output, signal }: Invocation): Promise<void> {
  const agent = args[0] as string;
  const followUps: PendingFollowUp[] = [];
  for await (const followUp of client().followUps(agent, { signal })) followUps.push(followUp);
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
