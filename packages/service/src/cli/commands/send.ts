import { exitCodeFor } from '../attention.ts';
import { follow } from '../follow.ts';
import type { Invocation } from '../invocation.ts';
import { newestSequence } from '../newest.ts';
import { messageText, type SettingsFlags, settingsOf, tasksOf } from '../settings.ts';
import { statusLine } from '../status-text.ts';
import { deliveryTime } from '../times.ts';
import { clock } from '../words.ts';

interface Flags extends SettingsFlags {
  readonly file?: string;
  readonly task?: readonly string[];
  readonly id?: string;
  readonly preempt?: boolean;
  readonly at?: string;
  readonly in?: string;
  readonly wait?: boolean;
  readonly follow?: boolean;
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const [agent = '', text] = args as [string, string | undefined];
  const deliverAt = await deliveryTime(flags);
  const hasOther = flags.task !== undefined || Object.keys(settingsOf(flags)).length > 0;
  const description =
    text === undefined && flags.file === undefined && hasOther ? '' : messageText(text, flags.file);
  const client = connect();
  const before = flags.follow ? await newestSequence(client, agent, signal) : undefined;
  const reply = await client.queue(
    agent,
    {
      description: description.trim(),
      ...tasksOf(flags.task),
      ...settingsOf(flags),
      ...(flags.id !== undefined && { followUpId: flags.id }),
      ...(flags.preempt && { preempt: true }),
      ...(deliverAt !== undefined && { deliverAt }),
    },
    { signal },
  );
  if (!flags.wait && !flags.follow) {
    output.answer(reply, () => {
      output.line(reply.followUpId);
      if (deliverAt)
        output.note(
          `comes at ${clock(deliverAt)}; muster queue remove ${agent} ${reply.followUpId} takes it back`,
        );
    });
    return;
  }
  const status =
    before !== undefined
      ? await follow(client, agent, before, output, signal)
      : await client.wait(agent, { signal });
  if (before !== undefined) output.note(statusLine(status, output));
  else output.answer(status, () => output.line(statusLine(status, output)));
  process.exitCode = exitCodeFor(status);
}
